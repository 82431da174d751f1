//! For tests only: packets to send, and a check that what arrives is a right TCP packet.

use ringway_shm::{Arena, ArenaConfig, Burst, Checksum, Class, Frame, Segmentation, SegmentationKind};

use crate::checksum;
use crate::run::give_packet;

/// An arena that is large enough for any test here.
pub(crate) fn arena() -> Arena {
    Arena::new(ArenaConfig { large: 1024, small: 1024 })
}

/// A TCP/IPv4 packet to be built.
#[derive(Clone, Copy)]
pub(crate) struct Packet<'a> {
    pub(crate) source: [u8; 4],
    pub(crate) destination: [u8; 4],
    pub(crate) ports: (u16, u16),
    pub(crate) sequence: u32,
    pub(crate) flags: u8,
    pub(crate) payload: &'a [u8],
    pub(crate) ipv6: bool,
    /// Destination and source MAC address.
    pub(crate) macs: [u8; 12],
}

impl Default for Packet<'_> {
    fn default() -> Self {
        let macs = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        let (source, destination) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        Packet { source, destination, ports: (4000, 80), sequence: 1000, flags: 0x18, payload: b"hello", ipv6: false, macs }
    }
}

impl Packet<'_> {
    fn address_bytes(&self) -> Vec<u8> {
        let wide = |v4: [u8; 4]| if self.ipv6 { [[0xfd; 12].as_slice(), &v4].concat() } else { v4.to_vec() };
        [wide(self.source), wide(self.destination)].concat()
    }

    /// Where the TCP header starts.
    pub(crate) fn tcp_start(&self) -> usize {
        if self.ipv6 { 54 } else { 34 }
    }

    fn ip_header(&self, tcp_len: usize) -> Vec<u8> {
        if self.ipv6 {
            let mut ip = vec![0x60, 0, 0, 0, 0, 0, 6, 64];
            ip[4..6].copy_from_slice(&(tcp_len as u16).to_be_bytes());
            ip.extend(self.address_bytes());
            return ip;
        }
        let mut ip = vec![0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0];
        ip[2..4].copy_from_slice(&((20 + tcp_len) as u16).to_be_bytes());
        ip.extend(self.address_bytes());
        let sum = !checksum::fold(checksum::add(0, &ip));
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        ip
    }

    /// Ethernet, IP and TCP headers with the folded pseudo-header sum in the checksum field, and the payload.
    pub(crate) fn bytes_partial(&self) -> Vec<u8> {
        let tcp_len = 20 + self.payload.len();
        let mut bytes = self.macs.to_vec();
        bytes.extend(if self.ipv6 { [0x86, 0xdd] } else { [0x08, 0x00] });
        bytes.extend(self.ip_header(tcp_len));
        bytes.extend(self.ports.0.to_be_bytes());
        bytes.extend(self.ports.1.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(7u32.to_be_bytes());
        bytes.extend([0x50, self.flags, 0x20, 0]);
        let pseudo = checksum::fold(checksum::pseudo(&self.address_bytes(), 6, tcp_len as u32));
        bytes.extend(pseudo.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(self.payload);
        bytes
    }

    /// The same with the real checksum.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.bytes_partial();
        let at = self.tcp_start();
        let sum = !checksum::fold(checksum::add(0, &bytes[at..]));
        bytes[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Appends it to `burst` in frames of `arena`: headers in the first, payload in the following ones.
    pub(crate) fn push(&self, arena: &Arena, burst: &mut Burst, segment_size: u16, partial: bool) {
        let bytes = if partial { self.bytes_partial() } else { self.bytes() };
        let (headers, payload) = bytes.split_at(self.tcp_start() + 20);
        let mut frames = vec![arena.alloc(Class::Small).expect("test arena is large enough")];
        frames[0].extend(headers.len()).copy_from_slice(headers);
        if partial {
            frames[0].set_checksum(Checksum::Partial { start: self.tcp_start() as u16, offset: 16 });
        }
        if segment_size > 0 {
            let kind = if self.ipv6 { SegmentationKind::TcpIpv6 } else { SegmentationKind::TcpIpv4 };
            frames[0].set_segmentation(Segmentation { kind, size: segment_size });
        }
        for part in payload.chunks(1900) {
            frames.push(arena.alloc_from(part).expect("test arena is large enough"));
        }
        give_packet(burst, &mut frames);
    }

    /// Appends the payload as a train of datagrams of `segment_size` bytes, with partial checksum.
    pub(crate) fn push_udp(&self, arena: &Arena, burst: &mut Burst, segment_size: u16) {
        let at = self.tcp_start();
        let udp_len = 8 + self.payload.len();
        let mut headers = self.bytes_partial()[..at].to_vec();
        if self.ipv6 {
            headers[18..20].copy_from_slice(&(udp_len as u16).to_be_bytes());
            headers[20] = 17;
        } else {
            headers[16..18].copy_from_slice(&((20 + udp_len) as u16).to_be_bytes());
            headers[23] = 17;
            headers[24..26].fill(0);
            let sum = !checksum::fold(checksum::add(0, &headers[14..]));
            headers[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        headers.extend(self.ports.0.to_be_bytes());
        headers.extend(self.ports.1.to_be_bytes());
        headers.extend((udp_len as u16).to_be_bytes());
        headers.extend(checksum::fold(checksum::pseudo(&self.address_bytes(), 17, udp_len as u32)).to_be_bytes());
        let mut frames = vec![arena.alloc_from(&headers).expect("test arena is large enough")];
        frames[0].set_checksum(Checksum::Partial { start: at as u16, offset: 6 });
        frames[0].set_segmentation(Segmentation { kind: SegmentationKind::Udp, size: segment_size });
        for part in self.payload.chunks(1900) {
            frames.push(arena.alloc_from(part).expect("test arena is large enough"));
        }
        give_packet(burst, &mut frames);
    }
}

/// A packet that arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) bytes: Vec<u8>,
    pub(crate) checksum: Checksum,
    pub(crate) segmentation: Segmentation,
}

impl Arrived {
    /// The TCP payload, after checking IP length, IP checksum and TCP checksum.
    pub(crate) fn payload(&self) -> &[u8] {
        let ipv6 = self.bytes[12] == 0x86;
        let (start, addresses, ip_len) = if ipv6 {
            (54, 22..54, 54 + u16::from_be_bytes([self.bytes[18], self.bytes[19]]) as usize)
        } else {
            assert_eq!(checksum::fold(checksum::add(0, &self.bytes[14..34])), 0xffff, "IP header checksum");
            (34, 26..34, 14 + u16::from_be_bytes([self.bytes[16], self.bytes[17]]) as usize)
        };
        assert!(ip_len <= self.bytes.len(), "IP length {ip_len} of {} bytes", self.bytes.len());
        let tcp = &self.bytes[start..ip_len];
        let pseudo = checksum::pseudo(&self.bytes[addresses], 6, tcp.len() as u32);
        match self.checksum {
            Checksum::Complete => assert_eq!(checksum::fold(checksum::add(pseudo, tcp)), 0xffff, "TCP checksum"),
            Checksum::Partial { start: at, offset } => {
                assert_eq!((at as usize, offset), (start, 16));
                assert_eq!(tcp[16..18], checksum::fold(pseudo).to_be_bytes(), "pseudo-header sum");
            }
            Checksum::Verified => {}
        }
        &tcp[(tcp[12] >> 4) as usize * 4..]
    }

    /// The TCP sequence number (IPv4).
    pub(crate) fn sequence(&self) -> u32 {
        let at = if self.bytes[12] == 0x86 { 58 } else { 38 };
        u32::from_be_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }
}

/// Takes all packets off `burst`.
pub(crate) fn arrived(burst: &mut Burst) -> Vec<Arrived> {
    let mut packet: Vec<Frame> = Vec::new();
    let mut all = Vec::new();
    while crate::run::take_packet(burst, &mut packet) {
        all.push(Arrived {
            bytes: packet.iter().flat_map(|f| f.bytes().to_vec()).collect(),
            checksum: packet[0].checksum(),
            segmentation: packet[0].segmentation(),
        });
    }
    all
}

mod sys;

/// One namespace at a time: a child that another test has just forked holds copies of our
/// descriptors for a moment, and programs that hang on one of them would stay attached.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Runs `test` in a thread with a network namespace of its own; prints why when that is not permitted.
pub(crate) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let thread = std::thread::spawn(move || {
        if crate::probe::enter_new_namespace().is_ok() {
            test();
        } else {
            println!("skipped: a network namespace needs CAP_SYS_ADMIN");
        }
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs `ip` with `arguments` in the namespace of the calling thread.
pub(crate) fn ip(arguments: &str) {
    let status = std::process::Command::new("ip").args(arguments.split_whitespace()).status().expect("iproute2 is installed");
    assert!(status.success(), "ip {arguments}");
}

/// Waits until something of `device` is readable, at most `millis`. `None`: it has nothing to wait for.
pub(crate) fn wait_readable(device: &dyn crate::Device, millis: i32) -> Option<bool> {
    let mut fds = Vec::new();
    device.wait_fds(&mut fds);
    (!fds.is_empty()).then(|| sys::wait_readable(&fds, millis))
}

/// Waits until `device` has something, at most 5 s, and receives it.
pub(crate) fn receive_some(device: &mut dyn crate::Device, burst: &mut Burst) {
    use ringway_shm::Instant;
    let mut waits = 0;
    while device.receive(Instant::ZERO, burst).expect("the link is up") == 0 {
        assert!(waits < 50, "nothing arrived");
        waits += 1;
        wait_readable(device, 100);
    }
}

/// Receives something, sleeping as a worker does: arm, and wait only when nothing is there.
pub(crate) fn receive_armed(device: &mut dyn crate::Device, burst: &mut Burst) {
    use ringway_shm::Instant;
    while device.receive(Instant::ZERO, burst).expect("the link is up") == 0 {
        if !device.arm() {
            assert_eq!(wait_readable(device, 5000), Some(true), "woken");
        }
    }
}
