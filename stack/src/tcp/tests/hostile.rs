//! Attacks from a hostile network, and the bound on each: forged resets, SYNs, ACKs and data (RFC 5961), reassembly attacks,
//! false ACKs, window manipulation, false ICMP (RFC 5927).

use alloc::vec;
use alloc::vec::Vec;

use ringway_shm::{Burst, Class};

use super::data::DEFAULT;
use super::rig::*;
use crate::config::{StackConfig, TcpOptions};
use crate::event::{Event, SocketError};
use crate::family::{Family, in_both_families};
use crate::stats::Counter;
use crate::tcp::State;
use crate::tcp::isn::mix;
use crate::tcp::reassembly::INTERVALS_MAX;
use crate::wire::checksum;
use crate::wire::tcp::{ACK, FIN, PSH, RST, SYN};
use crate::{Duration, Instant};

const NO_DELAY: TcpOptions = TcpOptions { no_delay: true, ..DEFAULT };

in_both_families! {
    reset_injection
    syn_injection
    challenge_limit
    ack_injection
    data_injection
    tiny_segments
    overlaps
    ack_division
    optimistic_ack
    duplicate_ack_spoofing
    sack_lies
    timestamp_lies
    shrunk_window
    zero_window_stall
    sockstress
    icmp_hard_errors
    icmp_mtu_lies
    path_mtu_is_remembered
    gaps_beyond_the_list_are_not_acknowledged
    ack_loop
}

fn open(family: Family) -> Rig {
    Rig::accepted_over(family, Rig::config(), TcpOptions::default())
}

/// A connection to a peer that takes `window` bytes and has got `sent` of them.
fn sending(family: Family, sent: u32, window: u16) -> Rig {
    let mut rig = Rig::of(family, Rig::config());
    let listener = rig.listen(NO_DELAY, 16);
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    rig.sent();
    rig.receive(seg(ACK, 1, 1).window(window));
    rig.id = rig.stack.accept(listener, NAME).expect("it is there");
    rig.send(1, sent);
    rig.sent();
    rig
}

/// RFC 5961 §3: resets all over the window, but not at RCV.NXT, do nothing; one in half a second is answered.
fn reset_injection(family: Family) {
    let mut rig = open(family);
    let mut answers = 0;
    for n in 0..10_000u32 {
        rig.receive(seg(RST, 2 + n * 6, 0));
        answers += rig.sent().len();
        rig.now += Duration::from_micros(100);
    }
    assert_eq!((rig.state(), answers), (State::Established, 2));
    assert_eq!(rig.count(Counter::TcpAckSkippedChallenge), 9_998);
}

/// RFC 5961 §4: SYNs anywhere do nothing; one in half a second is answered.
fn syn_injection(family: Family) {
    let mut rig = open(family);
    let mut answers = 0;
    for n in 0..10_000u32 {
        rig.receive(seg(SYN, mix(n.into()) as u32, 0));
        answers += rig.sent().len();
        rig.now += Duration::from_micros(100);
    }
    assert_eq!((rig.state(), answers), (State::Established, 2));
}

/// RFC 5961 §7: challenge ACKs per second are limited for the whole stack, by a number that no peer knows.
fn challenge_limit(family: Family) {
    let mut rig = Rig::of(family, StackConfig { replies_per_second: 20, ..Rig::config() });
    let listener = rig.listen(TcpOptions::default(), 64);
    let mut isses = vec![];
    for port in 1_000..1_060 {
        rig.ports.1 = port;
        rig.receive(seg(SYN, 0, 0).mss(1_460));
        rig.sent();
        isses.push(rig.iss);
        rig.receive(seg(ACK, 1, 1));
        rig.stack.accept(listener, u64::from(port)).expect("it is there");
    }
    let mut counts = vec![];
    for _ in 0..8 {
        rig.now = Instant::from_millis(rig.now.as_millis() + 1_000);
        let mut answers = 0;
        for (port, iss) in (1_000..1_060).zip(&isses) {
            (rig.ports.1, rig.iss) = (port, *iss);
            rig.receive(seg(RST, 100, 0));
            answers += rig.sent().len();
        }
        assert!((10..=20).contains(&answers), "{answers}");
        counts.push(answers);
    }
    counts.dedup();
    assert!(counts.len() > 1, "every second the same: {counts:?}");
}

/// RFC 5961 §5.2: ACKs beyond sent data, or older than a window, change nothing.
fn ack_injection(family: Family) {
    let mut rig = sending(family, 5_000, 60_000);
    let before = rig.info();
    for ack in [5_002, 100_000, 1 << 30, 1u32.wrapping_sub(70_000), 1u32.wrapping_sub(1 << 30)] {
        rig.receive(seg(ACK, 1, ack).window(10));
        rig.sent();
        let after = rig.info();
        assert_eq!((after.unacked_bytes, after.cwnd_bytes, after.send_window), (5_000, before.cwnd_bytes, before.send_window));
    }
}

/// RFC 9293 §3.10.7.4: data before or behind the window is not taken, whatever its ACK says.
fn data_injection(family: Family) {
    let mut rig = open(family);
    let window = rig.info().receive_window;
    for seq in [1 + window, 1 + 2 * window, 1u32.wrapping_sub(1_000), 1 << 31] {
        let forged = Seg { payload: vec![0xee; 500], ..seg(ACK, seq, 1) };
        rig.receive(forged);
    }
    assert_eq!(rig.read(1), Ok(0));
    rig.receive(seg(ACK, 1, 1).data(1_000));
    assert_eq!(rig.read(1), Ok(1_000));
}

/// Segments of one byte with a gap before each hold no more memory than the receive buffer allows, and the stream goes on.
fn tiny_segments(family: Family) {
    let options = TcpOptions { receive_buffer_bytes: 65_536, ..TcpOptions::default() };
    let mut rig = Rig::accepted_over(family, Rig::config(), options);
    let whole = rig.arena.free(Class::Large);
    for n in 0..30_000u32 {
        rig.receive(seg(ACK, 3 + 2 * (n % 15_000), 1).data(1));
        rig.sent();
    }
    let held = (whole - rig.arena.free(Class::Large)) as usize;
    assert!(held * 2_048 <= 4 * 65_536, "{held} frames");
    rig.receive(seg(ACK, 1, 1).data(2));
    assert!(rig.read(1).expect("the connection lives") >= 3);
}

/// Overlapping segments with other bytes: the first bytes stay, in any order of the pieces.
fn overlaps(family: Family) {
    for seed in 0..200u64 {
        let mut rig = open(family);
        let mut random = seed;
        let mut next = |bound: u32| {
            random = mix(random.wrapping_add(0x9e37_79b9_7f4a_7c15));
            (random >> 33) as u32 % bound
        };
        let mut model: Vec<Option<u8>> = vec![None; 3_000];
        let mut read = Vec::new();
        for turn in 0..60u8 {
            let (start, len) = (next(2_500) as usize, 1 + next(500) as usize);
            rig.receive(Seg { payload: vec![turn; len], ..seg(ACK, 1 + start as u32, 1) });
            rig.sent();
            model[start..start + len].iter_mut().for_each(|byte| _ = byte.get_or_insert(turn));
            while let Ok(frame) = rig.stack.take_frame(rig.id) {
                read.extend_from_slice(frame.bytes());
                rig.stack.consumed(rig.id, frame.len());
            }
            let whole: Vec<u8> = model.iter().map_while(|byte| *byte).collect();
            assert_eq!(read, whole, "seed {seed}, turn {turn}");
        }
    }
}

/// Savage et al. (1999), RFC 3465: into however many ACKs a segment is divided, the window grows by its bytes.
fn ack_division(family: Family) {
    let mut rig = sending(family, 14_600, 65_535);
    let before = rig.info().cwnd_bytes;
    for ack in 2..=1_461 {
        rig.receive(seg(ACK, 1, ack));
        rig.sent();
    }
    assert!(rig.info().cwnd_bytes <= before + 1_460);
}

/// An ACK of data not sent yet does not let the window grow.
fn optimistic_ack(family: Family) {
    let mut rig = sending(family, 50_000, 65_535);
    let (cwnd, flight) = (rig.info().cwnd_bytes, rig.info().unacked_bytes);
    for step in 1..=50 {
        rig.receive(seg(ACK, 1, 1 + flight + step * 1_460));
        assert!(rig.sent().iter().all(|segment| segment.payload.is_empty()));
    }
    assert_eq!((rig.info().cwnd_bytes, rig.info().unacked_bytes), (cwnd, flight));
}

/// Forged duplicate ACKs release no more than the peer's window holds, and with SACK nothing at all.
fn duplicate_ack_spoofing(family: Family) {
    let mut rig = sending(family, 60_000, 30_000);
    for _ in 0..10_000 {
        rig.receive(seg(ACK, 1, 1).window(30_000));
        rig.sent();
    }
    assert!(rig.info().unacked_bytes <= 30_000);
    let mut rig = Rig::of(family, StackConfig::default());
    rig.accept_with(NO_DELAY, seg(SYN, 0, 0).mss(1_460).sack_permitted());
    rig.send(1, 60_000);
    rig.sent();
    let before = rig.info();
    for _ in 0..10_000 {
        rig.receive(seg(ACK, 1, 1));
        assert_eq!(rig.brief(), vec![]);
    }
    assert_eq!((rig.info().cwnd_bytes, rig.info().unacked_bytes), (before.cwnd_bytes, before.unacked_bytes));
}

/// SACK blocks for data never sent, empty ones and reversed ones have no effect.
fn sack_lies(family: Family) {
    let mut rig = Rig::of(family, StackConfig::default());
    rig.accept_with(NO_DELAY, seg(SYN, 0, 0).mss(1_460).sack_permitted());
    rig.send(1, 10_000);
    rig.sent();
    for (left, right) in [(20_000, 30_000), (5_000, 30_000), (9_000, 3_000), (4_000, 4_000), (1 << 30, 1 << 31)] {
        rig.receive(seg(ACK, 1, 1).sack(left, right));
        assert_eq!(rig.info().sacked_bytes, 0, "{left}..{right}");
        assert_eq!(rig.brief(), vec![]);
    }
}

/// Timestamps that were never sent do not become a round trip.
fn timestamp_lies(family: Family) {
    let mut rig = Rig::of(family, StackConfig::default());
    rig.accept_with(NO_DELAY, seg(SYN, 0, 0).mss(1_460).time(100, 0));
    for (n, lie) in [0u32, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX].into_iter().enumerate() {
        let sent = 1 + n as u32 * 100;
        rig.send(sent, 100);
        rig.sent();
        rig.wait_ms(20);
        rig.receive(seg(ACK, 1, sent + 100).time(200, lie));
        assert!(rig.info().rtt_us <= 21_000, "{lie}: {}", rig.info().rtt_us);
        assert!(rig.info().rto_us <= 400_000);
    }
}

/// A window that shrinks below the bytes in flight stops new data, and nothing else.
fn shrunk_window(family: Family) {
    let mut rig = sending(family, 8_000, 6_000);
    assert_eq!(rig.info().unacked_bytes, 5_840);
    rig.receive(seg(ACK, 1, 1_461).window(100));
    assert_eq!(rig.brief(), vec![]);
    rig.receive(seg(ACK, 1, 5_841).window(10_000));
    assert_eq!(rig.sent().iter().map(|segment| segment.payload.len()).sum::<usize>(), 2_160);
}

/// A window that stays shut is probed again and again; the user timeout (RFC 5482) bounds that, and without an application a
/// connection ends.
fn zero_window_stall(family: Family) {
    let timeout = TcpOptions { user_timeout: Duration::from_secs(30), ..NO_DELAY };
    for (options, orphan) in [(timeout, false), (NO_DELAY, true)] {
        let mut rig = Rig::accepted_over(family, Rig::config(), options);
        rig.receive(seg(ACK, 1, 1).window(0));
        rig.send(1, 1_000);
        rig.sent();
        let start = rig.now;
        if orphan {
            rig.stack.close(rig.now, rig.id);
        }
        while let Some(at) = rig.stack.poll_timeout() {
            rig.now = rig.now.max(at);
            rig.stack.handle_timeout(rig.now);
            if !rig.sent().is_empty() {
                rig.receive(seg(ACK, 1, 1).window(0));
            }
            let lasted = rig.now.as_millis() - start.as_millis();
            assert!(lasted < if orphan { 1_000_000 } else { 70_000 }, "{lasted} ms");
        }
        let timed_out = Event::Failed { socket: rig.id, user_token: NAME, error: SocketError::TimedOut };
        assert_eq!(rig.events().contains(&timed_out), !orphan);
        if orphan {
            rig.assert_no_leak();
        }
    }
}

/// Many connections with windows that stay shut (sockstress): they leave frames to others, and end some time after the
/// application has closed them.
fn sockstress(family: Family) {
    let mut rig = Rig::of(family, Rig::config());
    let listener = rig.listen(NO_DELAY, 1_000);
    let mut ids = vec![];
    for port in 1_000..1_400 {
        rig.ports.1 = port;
        rig.receive(seg(SYN, 0, 0).mss(1_460));
        rig.sent();
        rig.receive(seg(ACK, 1, 1).window(0));
        rig.id = rig.stack.accept(listener, u64::from(port)).expect("it is there");
        rig.send(1, 200_000);
        ids.push(rig.id);
    }
    assert!(rig.arena.free(Class::Large) >= rig.arena.capacity(Class::Large) / 4);
    rig.ports.1 = 2_000;
    rig.receive(seg(SYN, 0, 0).mss(1_460));
    while rig.stack.transmit(rig.now, &mut rig.out) {}
    rig.out[0].clear();
    ids.into_iter().for_each(|id| rig.stack.close(rig.now, id));
    let start = rig.now.as_millis();
    while let Some(at) = rig.stack.poll_timeout() {
        rig.now = rig.now.max(at);
        rig.stack.handle_timeout(rig.now);
        while rig.stack.transmit(rig.now, &mut rig.out) {}
        rig.out[0].clear();
        assert!(rig.now.as_millis() - start < 1_000_000);
    }
    rig.assert_no_leak();
}

/// Delivers an ICMP error about a segment of ours at `sequence`; `word` is the second one of its header.
pub(super) fn icmp(rig: &mut Rig, kind: u8, code: u8, word: u32, sequence: u32) {
    let iss = rig.iss.expect("the stack has sent a SYN");
    let (family, local, remote) = (rig.family, rig.family.local(), rig.family.remote());
    let header_len = family.header_len();
    let mut body = vec![kind, code, 0, 0];
    body.extend_from_slice(&word.to_be_bytes());
    let mut quoted = vec![0; header_len];
    Family::write_header((local, remote), 6, 0, 1_480, &mut quoted);
    body.extend_from_slice(&quoted);
    body.extend_from_slice(&rig.ports.0.to_be_bytes());
    body.extend_from_slice(&rig.ports.1.to_be_bytes());
    body.extend_from_slice(&(iss + sequence).0.to_be_bytes());
    let pseudo = match family {
        Family::Ipv4 => 0,
        Family::Ipv6 => checksum::pseudo_header(remote, local, family.icmp(), body.len() as u32),
    };
    let sum = !checksum::add(pseudo, checksum::sum(&body));
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = rig.arena.alloc(Class::Large).expect("the arena is large enough");
    frame.extend(body.len()).copy_from_slice(&body);
    Family::write_header((remote, local), family.icmp(), 0, body.len(), frame.push(header_len));
    let mut burst = Burst::default();
    burst.push(frame);
    rig.stack.receive(rig.now, 0, &mut burst);
}

/// Delivers a router's message that no more than `mtu` bytes pass.
fn too_big(rig: &mut Rig, mtu: u32, sequence: u32) {
    match rig.family {
        Family::Ipv4 => icmp(rig, 3, 4, mtu, sequence),
        Family::Ipv6 => icmp(rig, 2, 0, mtu, sequence),
    }
}

/// RFC 5927 §5, RFC 5461: an error about data not in flight is ignored; one about data in flight is a hint only.
fn icmp_hard_errors(family: Family) {
    let mut rig = sending(family, 5_000, 60_000);
    let errors: &[(u8, u8)] = match family {
        Family::Ipv4 => &[(3, 0), (3, 1), (3, 2), (3, 3), (3, 13), (11, 0), (12, 0)],
        Family::Ipv6 => &[(1, 0), (1, 1), (1, 3), (1, 4), (1, 6), (3, 0), (4, 0), (4, 1)],
    };
    for &(kind, code) in errors {
        for sequence in [1, 4_000, 5_001, 100_000, 0u32.wrapping_sub(10)] {
            icmp(&mut rig, kind, code, 0, sequence);
        }
    }
    assert_eq!((rig.state(), rig.info().unacked_bytes), (State::Established, 5_000));
    assert!(rig.events().iter().all(|event| !matches!(event, Event::Failed { .. })));
}

/// RFC 5927 §7, RFC 1191, RFC 8201 §4: a smaller MTU is accepted for data in flight alone, never below 552 (1280 in IPv6),
/// and none makes segments larger.
fn icmp_mtu_lies(family: Family) {
    let mut rig = sending(family, 5_000, 60_000);
    for sequence in [5_001, 100_000, 0u32.wrapping_sub(10)] {
        too_big(&mut rig, 600, sequence);
    }
    assert_eq!(rig.info().send_mss, 1_460);
    let least = if family == Family::Ipv4 { 552 - 40 } else { 1_280 - 60 };
    for mtu in [0, 1, 68, 296, 551, 1_279, 9_000, 65_535, 65_536] {
        let before = rig.info().send_mss;
        too_big(&mut rig, mtu, 1);
        assert!((least..=before).contains(&rig.info().send_mss), "{mtu}: {}", rig.info().send_mss);
    }
}

/// RFC 1191 §6, RFC 8201 §5.2: the next connection starts with the path MTU that an earlier one has learnt; ten minutes
/// later it is searched anew.
fn path_mtu_is_remembered(family: Family) {
    let mut rig = sending(family, 5_000, 60_000);
    too_big(&mut rig, 1_300, 1);
    let smaller = 1_300 - 20 - family.header_len() as u32;
    assert_eq!(rig.info().send_mss, smaller);
    for (port, wait_ms, mss) in [(2_001, 1_000, smaller), (2_002, 600_000, 1_460)] {
        rig.wait_ms(wait_ms);
        rig.ports = (rig.ports.0 + 1, port);
        rig.listen_and_accept(TcpOptions::default(), seg(SYN, 0, 0).mss(1_460));
        assert_eq!(rig.info().send_mss, mss);
        let (now, id) = (rig.now, rig.id);
        rig.stack.abort(now, id);
        while rig.stack.transmit(now, &mut rig.out) {}
        rig.out[0].clear();
    }
}

/// Two ends that are out of step answer each other's pure ACKs once in half a second, not for ever.
fn ack_loop(family: Family) {
    let mut rig = open(family);
    let mut answers = 0;
    for _ in 0..1_000 {
        rig.receive(seg(ACK, 1u32.wrapping_sub(5_000), 1));
        answers += rig.sent().len();
    }
    assert_eq!((answers, rig.count(Counter::TcpAckSkippedSeq)), (1, 999));
    // Data is answered each time: its sender waits for that.
    rig.receive(seg(ACK, 1u32.wrapping_sub(5_000), 1).window(100));
    assert_eq!(rig.brief(), vec![]);
    rig.receive(Seg { payload: vec![0; 10], ..seg(ACK | PSH, 1u32.wrapping_sub(5_000), 1) });
    assert_eq!(rig.sent().len(), 1);
    rig.receive(seg(ACK | FIN, 1, 1));
    assert_eq!(rig.state(), State::CloseWait);
}

/// Each of a peer's gaps is acknowledged at once, as long as the list of gaps has place. Data beyond is dropped like a lost
/// segment, without an ACK, so that gaps do not cost a packet each; what fills a gap is acknowledged as ever.
fn gaps_beyond_the_list_are_not_acknowledged(family: Family) {
    let mut rig = open(family);
    let most = INTERVALS_MAX as u32;
    for n in 1..=most {
        rig.receive(seg(ACK | PSH, 1 + 2 * n, 1).data(1));
        assert_eq!(rig.brief(), vec![(ACK, 1, 1, 0)]);
    }
    rig.receive(seg(ACK | PSH, 1 + 2 * (most + 1), 1).data(1));
    assert_eq!((rig.brief(), rig.count(Counter::TcpOfoDrop)), (vec![], 1));
    rig.receive(seg(ACK | PSH, 3, 1).data(1));
    assert_eq!(rig.brief(), vec![(ACK, 1, 1, 0)], "a byte that is held");
    rig.receive(seg(ACK | PSH, 1, 1).data(2));
    assert_eq!(rig.brief(), vec![(ACK, 1, 4, 0)]);
}
