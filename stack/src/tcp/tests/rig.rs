//! The rig: one stack at 10.0.0.1 (or 2001:db8::1), and a peer at 10.0.0.2 (or 2001:db8::2) that sends what the test writes.
//! Sequence numbers are relative: the stack's to its ISS, the peer's to its own.

use core::net::{IpAddr, Ipv4Addr};

use alloc::vec;
use alloc::vec::Vec;

use super::ethernet::{Peer, wrap};
use ringway_shm::{Arena, ArenaConfig, Burst, Class};

use crate::address::SocketAddress;
use crate::config::{CongestionControl, Ecn, StackConfig, TcpOptions};
use crate::error::ReceiveError;
use crate::event::{Event, SocketId};
use crate::family::Family;
use crate::ip::{Autoconfiguration, Interface, Medium, Role, Route};
use crate::stack::Stack;
use crate::stats::Counter;
use crate::tcp::ActiveOpen;
use crate::tcp::{State, TcpInfo};
use crate::wire::checksum;
use crate::wire::sequence::SeqNum;
use crate::wire::tcp::{ACK, CWR, ECE, Header, Options, SYN, SackBlock, Timestamps, URG};
use crate::{Instant, MacAddress};

pub(super) const LOCAL: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(super) const REMOTE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The peer's ISS: close to the wrap, so that every test crosses it.
const PEER_ISS: SeqNum = SeqNum(u32::MAX - 2_000);
pub(super) const MSS: u32 = 1_460;
const COOKIE: u64 = 77;
const LISTENER: u64 = 78;

/// The ECN field (RFC 3168 §5).
pub(super) const NOT_ECT: u8 = 0;
pub(super) const ECT_1: u8 = 1;
pub(super) const ECT_0: u8 = 2;
pub(super) const CE: u8 = 3;

/// The congestion control with easily followed numbers.
pub(super) fn newreno() -> TcpOptions {
    TcpOptions { congestion_control: CongestionControl::NewReno, ..TcpOptions::default() }
}

/// A stack with this ECN mode.
pub(super) fn speaking(ecn: Ecn) -> StackConfig {
    let mut config = Rig::config();
    config.tcp.ecn = ecn;
    config
}

/// A segment, from either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seg {
    pub(super) flags: u8,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) window: u16,
    pub(super) payload: Vec<u8>,
    pub(super) options: Options,
    /// The ECN field of the IP header.
    pub(super) ecn: u8,
    /// The AE flag.
    pub(super) ae: bool,
    /// The urgent pointer.
    pub(super) urgent: u16,
}

/// A segment with these flags at (seq, ack).
pub(super) fn seg(flags: u8, seq: u32, ack: u32) -> Seg {
    Seg { flags, seq, ack, window: 65_535, payload: Vec::new(), options: Options::default(), ecn: 0, ae: false, urgent: 0 }
}

impl Seg {
    /// Adds `len` bytes of the stream in which byte n is `n % 251`.
    pub(super) fn data(mut self, len: u32) -> Seg {
        self.payload = stream(self.seq, len);
        self
    }

    /// Adds URG and this urgent pointer.
    pub(super) fn urgent(mut self, pointer: u16) -> Seg {
        self.flags |= URG;
        self.urgent = pointer;
        self
    }

    pub(super) fn ecn(mut self, field: u8) -> Seg {
        self.ecn = field;
        self
    }

    pub(super) fn window(mut self, window: u16) -> Seg {
        self.window = window;
        self
    }

    pub(super) fn mss(mut self, mss: u16) -> Seg {
        self.options.maximum_segment_size = Some(mss);
        self
    }

    pub(super) fn scale(mut self, shift: u8) -> Seg {
        self.options.window_scale = Some(shift);
        self
    }

    pub(super) fn sack_permitted(mut self) -> Seg {
        self.options.sack_permitted = true;
        self
    }

    pub(super) fn time(mut self, value: u32, echo: u32) -> Seg {
        self.options.timestamps = Some(Timestamps { value, echo });
        self
    }

    /// Adds a SACK block in the stack's relative sequence numbers.
    pub(super) fn sack(mut self, left: u32, right: u32) -> Seg {
        self.options.push_sack(SackBlock { left: SeqNum(left), right: SeqNum(right) });
        self
    }

    /// The fields checked by most tests: flags, seq, ack, payload bytes.
    pub(super) fn brief(&self) -> (u8, u32, u32, usize) {
        (self.flags, self.seq, self.ack, self.payload.len())
    }
}

/// `len` bytes of the test stream from `start` on.
pub(super) fn stream(start: u32, len: u32) -> Vec<u8> {
    (start..start + len).map(|n| (n % 251) as u8).collect()
}

/// A link that carries packets unchanged.
pub(super) fn link(mtu: u16) -> Interface {
    Interface {
        name: "test".into(),
        medium: Medium::Ip,
        mac: MacAddress::default(),
        mtu,
        sends_partial_checksums: false,
        segmentation_max_bytes: 0,
        segmentation_max_segments: u32::MAX,
        segments_udp: false,
        gathers: true,
        role: Role::Owned,
        autoconfiguration: Autoconfiguration::Off,
        detects_duplicates: false,
        vlan: None,
    }
}

pub(super) struct Rig {
    pub(super) stack: Stack,
    pub(super) arena: Arena,
    pub(super) now: Instant,
    pub(super) out: [Burst; 1],
    pub(super) iss: Option<SeqNum>,
    pub(super) events: Vec<Event>,
    pub(super) ports: (u16, u16),
    /// The link needs no checksums.
    pub(super) unsummed: bool,
    /// The device copies short packets to small frames, like packet-socket devices.
    pub(super) small: bool,
    pub(super) id: SocketId,
    pub(super) family: Family,
    /// The other side of an Ethernet link.
    pub(super) peer: Option<Peer>,
    /// The timestamp of the latest segment sent.
    pub(super) echo: u32,
}

impl Rig {
    pub(super) fn with(config: StackConfig) -> Rig {
        Rig::of(Family::Ipv4, config)
    }

    /// A rig with this address family alone.
    pub(super) fn of(family: Family, config: StackConfig) -> Rig {
        Rig::over(family, config, link(family.mtu()))
    }

    /// A rig on a link with these offloads.
    pub(super) fn on(config: StackConfig, partial_checksums: bool, segmentation_max_bytes: u32, gathers: bool) -> Rig {
        let link = Interface { sends_partial_checksums: partial_checksums, segmentation_max_bytes, gathers, ..link(1_500) };
        Rig::over(Family::Ipv4, config, link)
    }

    pub(super) fn over(family: Family, config: StackConfig, link: Interface) -> Rig {
        let arena = Arena::new(ArenaConfig { large: 4_096, small: 4_096 });
        let mut stack = Stack::new(config, arena.clone(), Instant::ZERO);
        let peer = (link.medium == Medium::Ethernet).then(Peer::default);
        let interface = stack.add_interface(link);
        let destination = family.network();
        stack.set_addresses(interface, vec![destination]);
        stack.set_routes(vec![Route { destination, gateway: None, interface, metric: 0, source: None }]);
        Rig {
            stack,
            arena,
            now: Instant::from_millis(10_000),
            out: [Burst::default()],
            iss: None,
            events: Vec::new(),
            ports: (80, 1_000),
            unsummed: false,
            small: false,
            id: SocketId { index: 0, generation: 0 },
            family,
            peer,
            echo: 0,
        }
    }

    pub(super) fn config() -> StackConfig {
        let mut config = StackConfig { seed: 7, ..StackConfig::default() };
        config.tcp.timestamps = false;
        config.tcp.sack = false;
        config.tcp.mtu_probing = crate::config::MtuProbing::Off;
        config
    }

    /// A connection opened by the peer: no options but the MSS.
    pub(super) fn accepted(config: StackConfig, options: TcpOptions) -> Rig {
        Rig::accepted_over(Family::Ipv4, config, options)
    }

    /// Like `accepted`, of this family.
    pub(super) fn accepted_over(family: Family, config: StackConfig, options: TcpOptions) -> Rig {
        let mut rig = Rig::of(family, config);
        let syn = seg(SYN, 0, 0).mss(MSS as u16);
        rig.accept_with(options, syn);
        rig
    }

    /// Opens a connection from the peer with `syn`.
    pub(super) fn accept_with(&mut self, options: TcpOptions, syn: Seg) {
        let time = syn.options.timestamps;
        let listener = self.listen(options, 16);
        self.receive(syn);
        let answer = self.sent();
        assert_eq!(answer.len(), 1);
        let (flags, seq, acked, len) = answer[0].brief();
        assert_eq!((flags & !(ECE | CWR), seq, acked, len), (SYN | ACK, 0, 1, 0));
        let mut ack = seg(ACK, 1, 1);
        if let (Some(time), Some(ours)) = (time, answer[0].options.timestamps) {
            ack = ack.time(time.value, ours.value);
        }
        self.receive(ack);
        assert_eq!(self.events(), vec![Event::Accepted { listener, user_token: LISTENER }]);
        self.id = self.stack.accept(listener, COOKIE).expect("one connection waits");
        assert_eq!(self.sent(), vec![]);
    }

    /// Like `accept_with`, without checking what is sent.
    pub(super) fn listen_and_accept(&mut self, options: TcpOptions, syn: Seg) {
        let listener = self.listen(options, 16);
        self.receive(syn);
        self.stack.transmit(self.now, &mut self.out);
        let first = self.out[0].front_packet().next().expect("a SYN-ACK");
        self.iss = Header::parse(&first.bytes()[self.family.header_len()..]).map(|(header, _)| header.sequence);
        self.out[0].clear();
        self.receive(seg(ACK, 1, 1));
        self.id = self.stack.accept(listener, COOKIE).expect("one connection waits");
    }

    /// Delivers the segment as one packet with its payload in frames of `piece` bytes.
    pub(super) fn receive_in_pieces(&mut self, segment: Seg, piece: usize) {
        let mut burst = Burst::default();
        let payload = segment.payload.clone();
        let mut head = segment;
        head.payload.clear();
        self.push(&head, &mut burst);
        let mut first = burst.pop().expect("one frame");
        let header_len = self.family.header_len();
        let total = first.len() + payload.len() - header_len;
        Family::write_header(self.inward(), 6, 0, total, &mut first.bytes_mut()[..header_len]);
        first.set_checksum(ringway_shm::Checksum::Verified);
        first.set_continues(true);
        burst.push(first);
        let count = payload.chunks(piece).count();
        for (n, bytes) in payload.chunks(piece).enumerate() {
            let mut frame = self.arena.alloc(Class::Large).expect("the arena is large enough");
            frame.reserve(0);
            frame.extend(bytes.len()).copy_from_slice(bytes);
            frame.set_continues(n + 1 < count);
            burst.push(frame);
        }
        self.stack.receive(self.now, 0, &mut burst);
    }

    pub(super) fn listen(&mut self, options: TcpOptions, backlog: u32) -> SocketId {
        let local = SocketAddress { ip: self.family.any(), port: self.ports.0 };
        self.stack.listen(local, backlog, options, LISTENER).expect("the port is free")
    }

    pub(super) fn connect(&mut self, options: TcpOptions) {
        let remote = SocketAddress { ip: self.family.remote(), port: 1_000 };
        let local = SocketAddress { ip: self.family.local(), port: 80 };
        self.id = self
            .stack
            .connect(self.now, ActiveOpen { local: Some(local), remote, options, user_token: COOKIE })
            .expect("there is a route");
    }

    /// Moves time without handling timers in between.
    pub(super) fn wait_ms(&mut self, millis: u64) {
        self.now += crate::Duration::from_millis(millis);
        self.stack.handle_timeout(self.now);
    }

    /// Moves time to the next timer, like an engine, until something is sent; returns also the elapsed milliseconds.
    pub(super) fn next_sent(&mut self) -> (u64, Vec<Seg>) {
        let start = self.now.as_millis();
        let sent = self.sent();
        if !sent.is_empty() {
            return (0, sent);
        }
        for _ in 0..10_000 {
            let Some(at) = self.stack.poll_timeout() else { panic!("nothing is due") };
            self.now = self.now.max(at);
            self.stack.handle_timeout(self.now);
            let sent = self.sent();
            if !sent.is_empty() {
                return (self.now.as_millis() - start, sent);
            }
        }
        panic!("timers without effect");
    }

    pub(super) fn receive(&mut self, segment: Seg) {
        self.receive_all([segment]);
    }

    /// Delivers the segments in one burst.
    pub(super) fn receive_all<const N: usize>(&mut self, segments: [Seg; N]) {
        self.receive_burst(&segments);
    }

    /// Delivers the segments in one burst.
    pub(super) fn receive_burst(&mut self, segments: &[Seg]) {
        let mut burst = Burst::default();
        for segment in segments {
            self.push(segment, &mut burst);
        }
        self.stack.receive(self.now, 0, &mut burst);
    }

    pub(super) fn push(&self, segment: &Seg, burst: &mut Burst) {
        let ours = self.iss.unwrap_or(SeqNum(0));
        let absolute = |b: &SackBlock| SackBlock { left: ours + b.left.0, right: ours + b.right.0 };
        let options = segment.options.with_sack(segment.options.sack().iter().map(absolute));
        let header = Header {
            source_port: self.ports.1,
            destination_port: self.ports.0,
            sequence: PEER_ISS + segment.seq,
            acknowledgment: if segment.flags & ACK != 0 { ours + segment.ack } else { SeqNum(0) },
            flags: segment.flags,
            ae: segment.ae,
            window: segment.window,
            urgent: segment.urgent,
            options,
        };
        let len = header.len() + segment.payload.len();
        let class = if self.small && len < 64 { Class::Small } else { Class::Large };
        let mut frame = self.arena.alloc(class).expect("the arena is large enough");
        header.emit(frame.extend(header.len()));
        frame.extend(segment.payload.len()).copy_from_slice(&segment.payload);
        let (remote, local) = self.inward();
        let pseudo = checksum::pseudo_header(remote, local, 6, len as u32);
        let sum = !checksum::add(pseudo, checksum::sum(frame.bytes()));
        frame.bytes_mut()[16..18].copy_from_slice(&sum.to_be_bytes());
        Family::write_header((remote, local), 6, segment.ecn, len, frame.push(self.family.header_len()));
        if self.peer.is_some() {
            wrap(self.family, &mut frame);
        }
        burst.push(frame);
    }

    /// Source and destination of arriving packets.
    fn inward(&self) -> (IpAddr, IpAddr) {
        (self.family.remote(), self.family.local())
    }

    /// Segments that the stack transmits now.
    pub(super) fn sent(&mut self) -> Vec<Seg> {
        let mut segments = Vec::new();
        loop {
            while self.stack.transmit(self.now, &mut self.out) {}
            if self.out[0].is_empty() {
                return segments;
            }
            while !self.out[0].is_empty() {
                let bytes: Vec<u8> = self.out[0].front_packet().flat_map(|frame| frame.bytes().to_vec()).collect();
                self.out[0].drop_packet();
                let packet = if self.peer.is_some() { self.unwrap(&bytes) } else { Some(bytes) };
                segments.extend(packet.map(|packet| self.parse(&packet)));
            }
        }
    }

    /// Like `sent`, flags, seq, ack and length only.
    pub(super) fn brief(&mut self) -> Vec<(u8, u32, u32, usize)> {
        self.sent().iter().map(Seg::brief).collect()
    }

    pub(super) fn parse(&mut self, bytes: &[u8]) -> Seg {
        let transport = &bytes[self.family.header_len()..];
        let (ecn, ends) = self.family.parse_header(bytes);
        assert_eq!(ends, (self.family.local(), self.family.remote()));
        let pseudo = checksum::pseudo_header(ends.0, ends.1, 6, transport.len() as u32);
        let left_to_the_link = self.unsummed && u16::from_be_bytes([transport[16], transport[17]]) == pseudo;
        assert!(left_to_the_link || checksum::add(pseudo, checksum::sum(transport)) == 0xffff, "TCP checksum");
        let (header, len) = Header::parse(transport).expect("a good header");
        assert_eq!((header.source_port, header.destination_port), self.ports);
        if header.flags & SYN != 0 {
            self.iss = Some(header.sequence);
        }
        let iss = self.iss.unwrap_or(SeqNum(0));
        let relative = |b: &SackBlock| SackBlock { left: SeqNum(b.left - PEER_ISS), right: SeqNum(b.right - PEER_ISS) };
        let options = header.options.with_sack(header.options.sack().iter().map(relative));
        self.echo = options.timestamps.map_or(0, |time| time.value);
        Seg {
            flags: header.flags,
            seq: header.sequence - iss,
            ack: if header.flags & ACK != 0 { header.acknowledgment - PEER_ISS } else { 0 },
            window: header.window,
            payload: transport[len..].to_vec(),
            options,
            ecn,
            ae: header.ae,
            urgent: header.urgent,
        }
    }

    /// Queues `len` bytes of the test stream from `start` on.
    pub(super) fn send(&mut self, start: u32, len: u32) -> usize {
        let bytes = stream(start, len);
        let mut at = 0;
        let mut copy = |piece: &mut [u8]| {
            piece.copy_from_slice(&bytes[at..at + piece.len()]);
            at += piece.len();
        };
        self.stack.send_with(self.id, len as usize, &mut copy).unwrap_or(0)
    }

    /// Reads everything that is readable; checks that it is the test stream from `start` on. Returns its length.
    pub(super) fn read(&mut self, start: u32) -> Result<usize, ReceiveError> {
        let mut total = 0;
        loop {
            match self.stack.take_frame(self.id) {
                Ok(frame) => {
                    assert_eq!(frame.bytes(), stream(start + total as u32, frame.len() as u32));
                    total += frame.len();
                    self.stack.consumed(self.id, frame.len());
                }
                Err(ReceiveError::WouldBlock) => return Ok(total),
                Err(error) => return if total > 0 { Ok(total) } else { Err(error) },
            }
        }
    }

    pub(super) fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.stack.poll_event()).collect()
    }

    pub(super) fn info(&self) -> TcpInfo {
        self.stack.info(self.id).expect("the id is valid")
    }

    pub(super) fn state(&self) -> State {
        self.info().state
    }

    pub(super) fn count(&self, counter: Counter) -> u64 {
        self.stack.counters().get(counter)
    }

    /// Lets leftover timers expire without effect; then checks that nothing more is due.
    pub(super) fn assert_idle(&mut self) {
        for _ in 0..100 {
            let Some(at) = self.stack.poll_timeout() else { return };
            self.now = self.now.max(at);
            self.stack.handle_timeout(self.now);
            assert_eq!(self.brief(), vec![]);
        }
        panic!("timers do not end");
    }

    /// Checks that all frames are back in the arena.
    pub(super) fn assert_no_leak(&mut self) {
        self.out[0].clear();
        assert_eq!(self.arena.free(Class::Large), self.arena.capacity(Class::Large));
        assert_eq!(self.arena.free(Class::Small), self.arena.capacity(Class::Small));
    }
}

pub(super) const NAME: u64 = COOKIE;
