//! A program's own look at each packet of an interface, in front of the stack.
//!
//! ```text
//!   wire --> device --> PacketHook::received --> stack
//!   wire <-- device <-- PacketHook::sent     <-- stack
//! ```
//! Promises: each packet is shown once, in the order in which it comes; one that is refused is dropped and counted. Does not do: changing packets.

use std::io;

use ringway_device::{Counters, Device, Middleware};
use ringway_shm::{Burst, Instant};

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketVerdict {
    /// It goes on.
    Pass,
    /// It is dropped; [`Counters`](ringway_device::Counters) count it in `rx_dropped` or `tx_dropped`.
    Drop,
}

/// Looks at the packets of an interface. `packet` begins with the link's header (Ethernet, or the IP header where the link has none) and has all headers
/// in it; of a large packet not all of the payload. A packet may be a super-segment, whose checksums are still to be made.
///
/// The calls are made in the program's own turns and must not block. What they take, the turn takes longer.
///
/// ```
/// use ringway::{Instant, PacketHook, PacketVerdict};
///
/// /// Lets no UDP over IPv4 in.
/// struct NoDatagrams;
///
/// impl PacketHook for NoDatagrams {
///     fn received(&mut self, _now: Instant, packet: &[u8]) -> PacketVerdict {
///         let is_udp = packet.get(12..14) == Some(&[0x08, 0x00]) && packet.get(23) == Some(&17);
///         if is_udp { PacketVerdict::Drop } else { PacketVerdict::Pass }
///     }
/// }
/// ```
pub trait PacketHook {
    /// A packet has arrived.
    fn received(&mut self, _now: Instant, _packet: &[u8]) -> PacketVerdict {
        PacketVerdict::Pass
    }

    /// The stack has made a packet.
    fn sent(&mut self, _now: Instant, _packet: &[u8]) -> PacketVerdict {
        PacketVerdict::Pass
    }
}

/// A device whose packets a hook sees.
pub(crate) struct Hooked {
    inner: Box<dyn Device>,
    hook: Box<dyn PacketHook>,
    arriving: Burst,
    leaving: Burst,
    /// Packets at the front of what is to be sent that the hook has seen.
    seen: usize,
    received_dropped: u64,
    sent_dropped: u64,
}

impl Hooked {
    pub(crate) fn new(inner: Box<dyn Device>, hook: Box<dyn PacketHook>) -> Hooked {
        let (arriving, leaving) = (Burst::default(), Burst::default());
        Hooked { inner, hook, arriving, leaving, seen: 0, received_dropped: 0, sent_dropped: 0 }
    }
}

/// The bytes of a burst's first packet that stand in one piece.
fn front(burst: &Burst) -> &[u8] {
    burst.front().map_or(&[], |frame| frame.bytes())
}

impl Middleware for Hooked {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.inner
    }

    fn receive(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let received = self.inner.receive(now, &mut self.arriving);
        let mut passed = 0;
        while !self.arriving.is_empty() {
            match self.hook.received(now, front(&self.arriving)) {
                PacketVerdict::Pass => {
                    burst.append_packet(&mut self.arriving);
                    passed += 1;
                }
                PacketVerdict::Drop => {
                    self.arriving.drop_packet();
                    self.received_dropped += 1;
                }
            }
        }
        received.map(|_| passed)
    }

    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        while !burst.is_empty() {
            let is_new = self.leaving.packets() >= self.seen;
            if is_new && self.hook.sent(now, front(burst)) == PacketVerdict::Drop {
                burst.drop_packet();
                self.sent_dropped += 1;
            } else {
                self.leaving.append_packet(burst);
            }
        }
        let sent = self.inner.transmit(now, &mut self.leaving);
        // What does not fit now comes again, and has been seen.
        self.seen = self.leaving.packets();
        burst.append(&mut self.leaving);
        sent
    }

    fn counters(&self) -> Counters {
        let mut counters = self.inner.counters();
        counters.rx_dropped += self.received_dropped;
        counters.tx_dropped += self.sent_dropped;
        counters
    }
}

#[cfg(test)]
mod tests;
