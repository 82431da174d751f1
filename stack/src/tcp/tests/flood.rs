//! SYN floods (RFC 4987): state stays bounded, and honest clients are served.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringway_shm::{Burst, Class};

use super::rig::*;
use crate::config::{StackConfig, SynCookies, TcpOptions};
use crate::event::SocketId;
use crate::family::{Family, in_both_families};
use crate::stats::Counter;
use crate::tcp::{State, isn};
use crate::wire::checksum;
use crate::wire::sequence::SeqNum;
use crate::wire::tcp::{ACK, Header, Options, RST, SYN, Timestamps};
use crate::{Instant, SocketAddress};

in_both_families! {
    no_handshake_begins_that_could_not_be_accepted
    flood_with_cookies
    flood_without_cookies
    flood_of_one_port
    cookie_connections
    false_cookies
    old_cookies
}

/// Packets from any source, to port `port` of the stack.
struct Crowd {
    rig: Rig,
    burst: Burst,
}

/// One end of a connection that is being opened.
#[derive(Clone, Copy)]
struct Client {
    ip: IpAddr,
    port: u16,
    sequence: SeqNum,
    to: u16,
}

impl Crowd {
    fn new(family: Family, config: StackConfig) -> Crowd {
        Crowd { rig: Rig::of(family, config), burst: Burst::default() }
    }

    fn push(&mut self, client: Client, flags: u8, acknowledgment: SeqNum, options: Options) {
        let header = Header {
            source_port: client.port,
            destination_port: client.to,
            sequence: client.sequence,
            acknowledgment,
            flags,
            window: 65_535,
            urgent: 0,
            ae: false,
            options,
        };
        let mut frame = self.rig.arena.alloc(Class::Small).expect("the arena is large enough");
        frame.reserve(64);
        header.emit(frame.extend(header.len()));
        let (family, ends) = (self.rig.family, (client.ip, self.rig.family.local()));
        let pseudo = checksum::pseudo_header(ends.0, ends.1, 6, header.len() as u32);
        let sum = !checksum::add(pseudo, checksum::sum(frame.bytes()));
        frame.bytes_mut()[16..18].copy_from_slice(&sum.to_be_bytes());
        Family::write_header(ends, 6, 0, header.len(), frame.push(family.header_len()));
        self.burst.push(frame);
    }

    /// Processes the pushed packets; returns the packets sent, with their destination.
    fn turn(&mut self) -> Vec<(IpAddr, Header)> {
        self.rig.stack.receive(self.rig.now, 0, &mut self.burst);
        while self.rig.stack.transmit(self.rig.now, &mut self.rig.out) {}
        let mut sent = Vec::new();
        while let Some(frame) = self.rig.out[0].pop() {
            let family = self.rig.family;
            let (_, (_, ip)) = family.parse_header(frame.bytes());
            sent.push((ip, Header::parse(&frame.bytes()[family.header_len()..]).expect("a good header").0));
        }
        sent
    }

    fn listen(&mut self, port: u16, backlog: u32) -> SocketId {
        let local = SocketAddress { ip: self.rig.family.any(), port };
        self.rig.stack.listen(local, backlog, TcpOptions::default(), port as u64).expect("the port is free")
    }

    /// A whole handshake from `client`, with all options. Returns true when it was answered.
    fn open(&mut self, client: Client) -> bool {
        let options = |echo| Options::of_syn(1_460, Some(7), true, Some(Timestamps { value: 500, echo }));
        self.push(client, SYN, SeqNum(0), options(0));
        let answers = self.turn();
        let ours = |(ip, header): &&(IpAddr, Header)| *ip == client.ip && header.destination_port == client.port;
        let Some((_, answer)) = answers.iter().find(ours) else { return false };
        assert_eq!((answer.flags, answer.acknowledgment), (SYN | ACK, client.sequence + 1));
        let echo = answer.options.timestamps.map_or(0, |times| times.value);
        let mut options = Options::default();
        options.timestamps = Some(Timestamps { value: 501, echo });
        let ack = Client { sequence: client.sequence + 1, ..client };
        self.push(ack, ACK, answer.sequence + 1, options);
        assert_eq!(self.turn(), vec![]);
        true
    }
}

fn attacker(family: Family, n: u64) -> Client {
    let random = isn::mix(n ^ 0xf100d);
    let [a, b, c, d, e, ..] = random.to_le_bytes();
    let ip = match family {
        Family::Ipv4 => Ipv4Addr::new(11, a, b, c).into(),
        Family::Ipv6 => Ipv6Addr::new(0x2001, 0xdb9, a.into(), b.into(), c.into(), 0, 0, 1).into(),
    };
    Client { ip, port: u16::from_le_bytes([d, e]), sequence: SeqNum((random >> 32) as u32), to: 80 }
}

/// Honest clients, one after another.
fn honest(family: Family, n: u64) -> Client {
    Client { ip: family.remote(), port: 1_000 + n as u16, sequence: SeqNum(n as u32 * 77_777), to: 80 }
}

fn route_for_all(crowd: &mut Crowd) {
    let any = crate::Cidr { ip: crowd.rig.family.any(), prefix_len: 0 };
    crowd.rig.stack.set_routes(vec![crate::Route { destination: any, gateway: None, interface: 0, metric: 0, source: None }]);
}

/// Sends `syns` SYNs of the flood in bursts of 64; after each burst one honest client opens. Returns the numbers of honest
/// clients that tried and that were accepted.
fn flood(crowd: &mut Crowd, listener: SocketId, syns: u64) -> (u64, u64) {
    let (mut tried, mut accepted, family) = (0, 0, crowd.rig.family);
    for burst in 0..syns / 64 {
        for n in 0..64 {
            let options = Options::of_syn(1_460, None, false, None);
            crowd.push(attacker(family, burst * 64 + n), SYN, SeqNum(0), options);
        }
        crowd.turn();
        if burst % 16 == 0 {
            tried += 1;
            if crowd.open(honest(family, tried % 50_000))
                && let Ok(id) = crowd.rig.stack.accept(listener, 1)
            {
                accepted += 1;
                assert_eq!(crowd.rig.stack.info(id).map(|info| info.state), Some(State::Established));
                crowd.rig.stack.abort(crowd.rig.now, id);
            }
        }
        // 64,000 SYNs a second.
        crowd.rig.now += crate::Duration::from_millis(1);
        crowd.rig.stack.handle_timeout(crowd.rig.now);
        crowd.turn();
        crowd.rig.events();
    }
    (tried, accepted)
}

fn half_open(crowd: &Crowd) -> usize {
    let mut count = 0;
    crowd.rig.stack.for_each_socket(&mut |socket| count += usize::from(socket.state == State::SynReceived));
    count
}

/// RFC 4987 §3.6: under a flood of a million SYNs every honest client is served, and the state stays within the listener's
/// queue.
fn flood_with_cookies(family: Family) {
    let mut crowd = Crowd::new(family, StackConfig { seed: 5, ..StackConfig::default() });
    route_for_all(&mut crowd);
    let listener = crowd.listen(80, 256);
    let (tried, accepted) = flood(&mut crowd, listener, 1_000_000);
    assert_eq!((tried, accepted), (977, 977));
    assert!(half_open(&crowd) <= 256);
    assert!(crowd.rig.count(Counter::SyncookiesSent) > 900_000);
    assert!(crowd.rig.count(Counter::SyncookiesRecv) > 900);
    crowd.rig.assert_no_leak();
}

/// RFC 4987 §3.3: without cookies the oldest of the flood make space, and a client that answers within a queue's length of
/// SYNs is served.
fn flood_without_cookies(family: Family) {
    let mut config = StackConfig { seed: 6, ..StackConfig::default() };
    config.tcp.syn_cookies = SynCookies::Off;
    let mut crowd = Crowd::new(family, config);
    route_for_all(&mut crowd);
    let listener = crowd.listen(80, 1_024);
    let (tried, accepted) = flood(&mut crowd, listener, 200_000);
    assert_eq!((tried, accepted), (196, 196));
    assert!(half_open(&crowd) <= 1_024);
    assert_eq!(crowd.rig.count(Counter::SyncookiesSent), 0);
    assert!(crowd.rig.count(Counter::TcpReqQFullDrop) > 190_000);
}

/// A flood of one port leaves the other ports their queues.
fn flood_of_one_port(family: Family) {
    let mut config = StackConfig { seed: 7, syn_queue_max: 64, ..StackConfig::default() };
    config.tcp.syn_cookies = SynCookies::Off;
    let mut crowd = Crowd::new(family, config);
    route_for_all(&mut crowd);
    crowd.listen(80, 32);
    let other = crowd.listen(81, 32);
    for n in 0..10_000 {
        crowd.push(attacker(family, n), SYN, SeqNum(0), Options::default());
        crowd.turn();
        crowd.rig.now += crate::Duration::from_micros(100);
        if n % 100 == 0 {
            assert!(crowd.open(Client { to: 81, ..honest(family, n) }));
            assert!(crowd.rig.stack.accept(other, 1).is_ok(), "{n}");
        }
    }
    assert!(half_open(&crowd) <= 32);
}

/// Options of a cookie's connection: with timestamps everything, without them the MSS alone.
fn cookie_connections(family: Family) {
    let mut config = Rig::config();
    config.tcp = crate::TcpConfig { syn_cookies: SynCookies::Always, ..crate::TcpConfig::default() };
    let mut rig = Rig::of(family, config.clone());
    rig.accept_with(TcpOptions::default(), seg(SYN, 0, 0).mss(1_400).scale(3).sack_permitted().time(100, 0));
    let info = rig.info();
    assert_eq!((info.send_scale, info.receive_scale, info.timestamps, info.sack), (3, 9, true, true));
    // Rounded down to what a cookie can encode.
    let (of_1400, of_1460) = if family == Family::Ipv4 { (1_300, 1_460) } else { (1_220, 1_440) };
    assert_eq!((info.send_mss, info.rtt_us), (of_1400 - 12, 0));
    assert_eq!(rig.count(Counter::SyncookiesRecv), 1);

    let mut rig = Rig::of(family, config);
    rig.accept_with(TcpOptions::default(), seg(SYN, 0, 0).mss(1_460).scale(3).sack_permitted());
    let info = rig.info();
    assert_eq!((info.send_scale, info.receive_scale, info.timestamps, info.sack), (0, 0, false, false));
    assert_eq!(info.send_mss, of_1460);
    rig.receive(seg(ACK, 1, 1).data(100));
    assert_eq!(rig.read(1), Ok(100));
}

/// An ACK without a valid cookie is reset; before any cookie was sent it is not even checked.
fn false_cookies(family: Family) {
    let mut rig = Rig::of(family, StackConfig { syn_queue_max: 1, ..Rig::config() });
    rig.listen(TcpOptions::default(), 16);
    rig.ports.1 = 999;
    rig.receive(seg(ACK, 1, 5));
    assert_eq!(rig.brief(), vec![(RST, 5, 0, 0)]);
    assert_eq!(rig.count(Counter::SyncookiesFailed), 0);
    for port in [1_000, 1_001] {
        rig.ports.1 = port;
        rig.receive(seg(SYN, 0, 0).mss(1_460));
        assert_eq!(rig.sent().len(), 1);
    }
    assert_eq!((rig.count(Counter::SyncookiesSent), rig.count(Counter::TcpReqQFullDoCookies)), (1, 1));
    // The next numbers are cookies for other sizes.
    rig.receive(seg(ACK, 1, 100));
    assert_eq!(rig.brief(), vec![(RST, 100, 0, 0)]);
    assert_eq!(rig.count(Counter::SyncookiesFailed), 1);
    rig.receive(seg(ACK, 1, 1).data(10));
    assert_eq!(rig.count(Counter::SyncookiesRecv), 1);
    assert_eq!(rig.sent().iter().filter(|segment| segment.flags & RST != 0).count(), 0);
}

/// A cookie is not valid for ever, and not for a listener that has stopped sending them.
fn old_cookies(family: Family) {
    let mut config = Rig::config();
    config.tcp.syn_cookies = SynCookies::Always;
    let mut rig = Rig::of(family, config);
    rig.listen(TcpOptions::default(), 16);
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    assert_eq!(rig.sent().len(), 1);
    rig.now = Instant::from_millis(rig.now.as_millis() + 120_000);
    rig.receive(seg(ACK, 1, 1));
    assert_eq!(rig.brief(), vec![(RST, 1, 0, 0)]);
    rig.now = Instant::from_millis(rig.now.as_millis() + 240_000);
    rig.receive(seg(ACK, 1, 1));
    assert_eq!(rig.count(Counter::SyncookiesFailed), 1, "by then it is not checked");
}

/// No handshake begins that cannot be accepted; also with cookies, which keep no state of a SYN.
fn no_handshake_begins_that_could_not_be_accepted(family: Family) {
    for cookies in [SynCookies::WhenFull, SynCookies::Always] {
        let mut config = StackConfig { seed: 8, ..StackConfig::default() };
        config.tcp.syn_cookies = cookies;
        let mut crowd = Crowd::new(family, config);
        let listener = crowd.listen(80, 256);
        crowd.rig.stack.set_room(listener, 2);
        assert!(crowd.open(honest(family, 1)) && crowd.open(honest(family, 2)));
        assert!(!crowd.open(honest(family, 3)));
        assert_eq!(crowd.rig.count(Counter::ListenOverflows), 1);
        // The accepted connection takes a place that another might have had.
        assert!(crowd.rig.stack.accept(listener, 1).is_ok());
        crowd.rig.stack.set_room(listener, 1);
        assert!(!crowd.open(honest(family, 3)));
        crowd.rig.stack.set_room(listener, 2);
        assert!(crowd.open(honest(family, 3)));
        assert!(crowd.rig.stack.accept(listener, 2).is_ok() && crowd.rig.stack.accept(listener, 3).is_ok());
    }
}

/// The listeners of one owner share a bound; beyond it SYNs get cookies, and the listener of another owner keeps its places.
#[test]
fn one_owners_flood_leaves_places_to_others() {
    for family in [Family::Ipv4, Family::Ipv6] {
        let config = StackConfig { half_open_per_owner_max: 16, ..StackConfig::default() };
        let mut crowd = Crowd::new(family, config);
        route_for_all(&mut crowd);
        let flooded = [crowd.listen(80, 128), crowd.listen(81, 128)];
        let other = crowd.listen(82, 128);
        flooded.into_iter().for_each(|listener| crowd.rig.stack.set_owner(listener, 1000));
        crowd.rig.stack.set_owner(other, 1001);
        for n in 0..100 {
            for to in [80, 81] {
                crowd.push(Client { to, ..attacker(family, n) }, SYN, SeqNum(0), Options::default());
                crowd.turn();
            }
        }
        let used = |crowd: &Crowd| {
            let owners = crowd.rig.stack.owners();
            owners.iter().map(|owner| (owner.owner, owner.half_open, owner.hits)).collect::<Vec<_>>()
        };
        assert_eq!(used(&crowd), [(1000, 16, 184), (1001, 0, 0)]);
        assert_eq!(crowd.rig.count(Counter::SyncookiesSent), 184);
        assert!(crowd.open(Client { to: 81, ..honest(family, 0) }), "a cookie is good");
        assert_eq!(crowd.rig.count(Counter::SyncookiesRecv), 1);
        assert!(crowd.open(Client { to: 82, ..honest(family, 1) }));
        assert_eq!(crowd.rig.count(Counter::SyncookiesRecv), 1, "the other owner's needs none");
        for listener in flooded {
            crowd.rig.stack.close(crowd.rig.now, listener);
        }
        assert_eq!(used(&crowd), [(1000, 0, 185), (1001, 0, 0)]);
    }
}

/// Without cookies the listener's own oldest record goes; one that has none gets no place.
#[test]
fn an_owner_that_is_full_loses_its_own_records() {
    let mut config = StackConfig { half_open_per_owner_max: 4, ..StackConfig::default() };
    config.tcp.syn_cookies = SynCookies::Off;
    let mut crowd = Crowd::new(Family::Ipv4, config);
    route_for_all(&mut crowd);
    let (flooded, second) = (crowd.listen(80, 128), crowd.listen(81, 128));
    [flooded, second].into_iter().for_each(|listener| crowd.rig.stack.set_owner(listener, 7));
    for n in 0..10 {
        crowd.push(attacker(Family::Ipv4, n), SYN, SeqNum(0), Options::default());
        crowd.turn();
    }
    let half_open = |crowd: &Crowd| crowd.rig.stack.owners()[0].half_open;
    assert_eq!((half_open(&crowd), crowd.rig.count(Counter::TcpReqQFullDrop)), (4, 6));
    assert!(crowd.open(honest(Family::Ipv4, 0)), "the newest are kept");
    crowd.push(attacker(Family::Ipv4, 10), SYN, SeqNum(0), Options::default());
    crowd.turn();
    let before = crowd.rig.count(Counter::ListenDrops);
    assert!(!crowd.open(Client { to: 81, ..honest(Family::Ipv4, 1) }));
    assert!(crowd.rig.count(Counter::ListenDrops) > before);
    assert_eq!(half_open(&crowd), 4);
}
