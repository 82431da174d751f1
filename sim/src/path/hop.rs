//! A router on the way whose next link takes smaller packets than the hosts' own. Read RFC 791 §2.3, RFC 1191 §4,
//! RFC 8201 §1, RFC 2923 §2.1 first.
//!
//! A packet that is too large is cut (IPv4 only, whatever "don't fragment" says, as tunnels do), refused with an ICMP
//! message, or dropped silently: a black hole. A hop does not cut super-segments: the middleware in front of it must.

use std::io;

use ringway_device::Device;
use ringway_shm::{Arena, Burst, Frame, Instant};
use ringway_stack::wire::ipv4;

use super::{Packet, icmp, take};

/// What a hop does with a packet larger than the MTU of its next link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Cuts it into fragments (IPv4; one of IPv6 is refused).
    Cuts,
    /// Sends an ICMP message to the sender (RFC 1191, RFC 8201).
    Tells,
    /// Drops it silently.
    Swallows,
}

/// A hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Narrow {
    /// Largest IP packet that it forwards.
    pub mtu: u16,
    /// What it does with larger ones.
    pub manner: Manner,
}

/// Middleware on a host's outgoing packets; see the module's text.
pub struct Hop {
    inner: Box<dyn Device>,
    arena: Arena,
    narrow: Option<Narrow>,
    passed: Burst,
    /// ICMP messages for the host.
    told: Burst,
    identification: u16,
}

impl Hop {
    /// Puts a hop behind the host; `None` forwards everything.
    pub fn new(inner: Box<dyn Device>, arena: &Arena, narrow: Option<Narrow>) -> Hop {
        let (passed, told) = (Burst::default(), Burst::default());
        Hop { inner, arena: arena.clone(), narrow, passed, told, identification: 1 }
    }

    /// Forwards one packet, or treats it in the hop's manner.
    fn pass(&mut self, narrow: Narrow, frames: Vec<Frame>) {
        let link_bytes = self.inner.capabilities().medium.header_bytes();
        let len = frames.iter().map(|frame| frame.len()).sum::<usize>();
        if len <= usize::from(narrow.mtu) + link_bytes {
            return frames.into_iter().for_each(|frame| self.passed.push(frame));
        }
        let Some(packet) = Packet::copy(link_bytes, &frames) else { return };
        match narrow.manner {
            Manner::Swallows => {}
            Manner::Cuts if packet.network[0] >> 4 == 4 => self.cut(&packet, narrow.mtu),
            Manner::Cuts | Manner::Tells => self.tell(&packet, narrow.mtu),
        }
    }

    fn tell(&mut self, packet: &Packet, mtu: u16) {
        if let Some(network) = icmp::error(&packet.network, icmp::too_big(&packet.network, mtu)) {
            Packet { link: packet.link_back(), network }.push(&self.arena, &mut self.told);
        }
    }

    /// RFC 791 §3.2, an example fragmentation procedure.
    fn cut(&mut self, packet: &Packet, mtu: u16) {
        let Some(header) = ipv4::Header::parse(&packet.network) else { return };
        let (header_len, total_len) = (usize::from(header.header_len), usize::from(header.total_len));
        let Some(data) = packet.network.get(header_len..total_len).filter(|_| header_len == ipv4::HEADER_LEN) else { return };
        // An atomic packet has no identification (RFC 6864): the hop assigns one.
        let identification = if header.is_fragment() { header.identification } else { self.identification };
        self.identification = self.identification.wrapping_add(1).max(1);
        let piece_max = (usize::from(mtu) - ipv4::HEADER_LEN) / 8 * 8;
        for (number, piece) in data.chunks(piece_max).enumerate() {
            let offset = number * piece_max;
            let mut network = vec![0; ipv4::HEADER_LEN];
            ipv4::Header {
                total_len: (ipv4::HEADER_LEN + piece.len()) as u16,
                identification,
                dont_fragment: false,
                more_fragments: header.more_fragments || offset + piece.len() < data.len(),
                fragment_offset: header.fragment_offset + offset as u16,
                ..header
            }
            .write(&mut network);
            network.extend_from_slice(piece);
            Packet { link: packet.link.clone(), network }.push(&self.arena, &mut self.passed);
        }
    }
}

impl ringway_device::Middleware for Hop {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.inner
    }

    fn receive(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let told = self.told.packets();
        burst.append(&mut self.told);
        Ok(told + self.inner.receive(now, burst)?)
    }

    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let Some(narrow) = self.narrow else { return self.inner.transmit(now, burst) };
        let count = burst.packets();
        while !burst.is_empty() {
            self.pass(narrow, take(burst));
        }
        self.inner.transmit(now, &mut self.passed)?;
        Ok(count)
    }

    fn arm(&mut self) -> bool {
        self.inner.arm() || !self.told.is_empty()
    }
}
