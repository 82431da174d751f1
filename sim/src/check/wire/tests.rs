use super::*;
use ringway_shm::{Arena, ArenaConfig, Class};
use ringway_stack::wire::ethernet;

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];

/// A segment for the checker: sender, flags, sequence, length, acknowledgment, window, timestamp.
struct Sent {
    from: [u8; 4],
    flags: u8,
    sequence: u32,
    len: usize,
    acknowledgment: u32,
    window: u16,
    timestamp: Option<u32>,
    scale: Option<u8>,
}

fn a(flags: u8, sequence: u32, len: usize) -> Sent {
    Sent { from: A, flags, sequence, len, acknowledgment: 501, window: 100, timestamp: None, scale: None }
}

fn b(acknowledgment: u32, window: u16) -> Sent {
    Sent { from: B, flags: ACK, sequence: 501, len: 0, acknowledgment, window, timestamp: None, scale: None }
}

fn see(check: &mut WireCheck, sent: &Sent) {
    let arena = Arena::new(ArenaConfig { large: 1, small: 0 });
    let mut options = Vec::new();
    options.extend(sent.scale.map(|scale| vec![3, 3, scale, 1]).into_iter().flatten());
    let timestamp = |value: u32| [vec![1, 1, 8, 10], value.to_be_bytes().to_vec(), vec![0; 4]].concat();
    options.extend(sent.timestamp.map(timestamp).into_iter().flatten());
    let to = if sent.from == A { B } else { A };
    let mut tcp = vec![0u8; 20];
    let ports = if sent.from == A { [0x13, 0x88, 0, 80] } else { [0, 80, 0x13, 0x88] };
    tcp[..4].copy_from_slice(&ports);
    tcp[4..8].copy_from_slice(&sent.sequence.to_be_bytes());
    tcp[8..12].copy_from_slice(&sent.acknowledgment.to_be_bytes());
    tcp[12] = ((20 + options.len()) / 4 * 16) as u8;
    tcp[13] = sent.flags;
    tcp[14..16].copy_from_slice(&sent.window.to_be_bytes());
    tcp.extend(options);
    tcp.resize(tcp.len() + sent.len, 7);
    let pseudo = checksum::pseudo_header(sent.from.into(), to.into(), 6, tcp.len() as u32);
    let sum = !checksum::add(pseudo, checksum::sum(&tcp));
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut frame = arena.alloc(Class::Large).expect("a frame");
    let bytes = frame.extend(34 + tcp.len());
    bytes[12..14].copy_from_slice(&ethernet::TYPE_IPV4.to_be_bytes());
    ipv4::Header::atomic(sent.from.into(), to.into(), 6, 64, 20 + tcp.len() as u16).write(&mut bytes[14..34]);
    bytes[34..].copy_from_slice(&tcp);
    check.see(Instant::ZERO, ethernet::HEADER_LEN, &[&frame]);
}

/// A connection whose B end has offered up to 1101 (A's SYN is 1000).
fn opened() -> WireCheck {
    let mut check = WireCheck::default();
    see(&mut check, &a(SYN, 1_000, 0));
    see(&mut check, &Sent { flags: SYN | ACK, sequence: 500, ..b(1_001, 100) });
    assert_eq!(check.violation(), None);
    check
}

fn verdict(segments: &[Sent]) -> Option<String> {
    let mut check = opened();
    segments.iter().for_each(|sent| see(&mut check, sent));
    check.violation().map(|text| text.split(':').next().expect("split yields one").to_string())
}

/// Valid behavior passes: filling the window, a probe beyond a closed one, retransmitting, closing.
#[test]
fn honest_ends_pass() {
    assert_eq!(verdict(&[a(ACK, 1_001, 100), b(1_101, 0), a(ACK, 1_101, 1), b(1_101, 200), a(ACK, 1_001, 100)]), None);
    assert_eq!(verdict(&[a(ACK | FIN, 1_001, 10), b(1_012, 100), a(RST, 9_999_999, 0)]), None);
}

/// Detects a violation of each rule.
#[test]
fn broken_rules_are_seen() {
    assert_eq!(verdict(&[a(ACK, 1_001, 101)]).as_deref(), Some("1 bytes beyond the window"));
    assert_eq!(verdict(&[b(1_001, 99)]).as_deref(), Some("the window shrank by 1"));
    assert_eq!(verdict(&[b(1_050, 100), b(1_049, 101)]).as_deref(), Some("acknowledgment went back from 1050"));
    let stamped = |timestamp| Sent { timestamp, ..a(ACK, 1_001, 1) };
    assert_eq!(verdict(&[stamped(Some(7)), stamped(Some(6))]).as_deref(), Some("timestamp went back from 7"));
}

/// Timestamps stay once both SYNs have offered them, and only then.
#[test]
fn timestamps() {
    for (theirs, missing) in [(Some(1), true), (None, false)] {
        let mut check = WireCheck::default();
        see(&mut check, &Sent { timestamp: Some(5), ..a(SYN, 1_000, 0) });
        see(&mut check, &Sent { flags: SYN | ACK, sequence: 500, timestamp: theirs, ..b(1_001, 100) });
        see(&mut check, &a(ACK, 1_001, 1));
        assert_eq!(check.violation().is_some_and(|text| text.starts_with("timestamp missing")), missing);
    }
}

/// Scaled windows are read as scaled only when both ends offered, and never in SYNs.
#[test]
fn window_scaling() {
    for (theirs, beyond) in [(Some(4), None), (None, Some("1 bytes beyond the window"))] {
        let mut check = WireCheck::default();
        see(&mut check, &Sent { scale: Some(2), ..a(SYN, 1_000, 0) });
        see(&mut check, &Sent { flags: SYN | ACK, sequence: 500, scale: theirs, ..b(1_001, 100) });
        see(&mut check, &b(1_001, 100));
        see(&mut check, &a(ACK, 1_001, 101));
        assert_eq!(check.violation().map(|text| &text[..text.find(':').expect("a colon")]), beyond);
    }
}

/// Detects a wrong checksum, unless the device has still to write it.
#[test]
fn checksums_are_seen() {
    let arena = Arena::new(ArenaConfig { large: 1, small: 0 });
    let mut frame = arena.alloc(Class::Large).expect("a frame");
    let bytes = frame.extend(54);
    bytes[12..14].copy_from_slice(&ethernet::TYPE_IPV4.to_be_bytes());
    ipv4::Header::atomic(A.into(), B.into(), 6, 64, 40).write(&mut bytes[14..34]);
    bytes[46] = 0x50;
    for (state, wrong) in [(Checksum::Partial { start: 34, offset: 16 }, false), (Checksum::Complete, true)] {
        let mut check = WireCheck::default();
        frame.set_checksum(state);
        check.see(Instant::ZERO, ethernet::HEADER_LEN, &[&frame]);
        assert_eq!(check.violation().is_some(), wrong);
    }
}
