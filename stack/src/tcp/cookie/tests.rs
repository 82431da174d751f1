use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;
use crate::Duration;

fn key() -> FlowKey {
    let ip = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    FlowKey { local: ip(1), remote: ip(2), local_port: 80, remote_port: 4_000 }
}

fn at(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1_000)
}

/// A cookie encodes the MSS, rounded down to one of the table, in IPv4 and IPv6.
#[test]
fn tells_the_mss() {
    let secrets = Secrets::new(1);
    let (v6, irs) = (IpAddr::V6(Ipv6Addr::LOCALHOST), SeqNum(0xffff_fff0));
    let wide = FlowKey { local: v6, remote: v6, ..key() };
    for (mss, told) in [(1_460, 1_460), (1_459, 1_440), (1_400, 1_300), (600, 536), (100, 536), (65_495, 1_460)] {
        let cookie = make(&secrets, at(500), &key(), irs, mss);
        assert_eq!(check(&secrets, at(500), &key(), irs, cookie), Some(told));
    }
    let cookie = make(&secrets, at(500), &wide, irs, 9_000);
    assert_eq!(check(&secrets, at(500), &wide, irs, cookie), Some(8_940));
}

/// A cookie is valid for more than one minute and less than two.
#[test]
fn grows_old() {
    let secrets = Secrets::new(2);
    for start in [0, 59, 60, 119, 15_300, 15_359] {
        let cookie = make(&secrets, at(start), &key(), SeqNum(7), 1_460);
        let good = |age| check(&secrets, at(start + age), &key(), SeqNum(7), cookie).is_some();
        assert!(good(0) && good(59));
        assert!(!good(120) && !good(10_000));
    }
}

/// A cookie is valid for one flow, one ISN and one stack; hardly any random number is a cookie.
#[test]
fn cannot_be_guessed() {
    let (secrets, other) = (Secrets::new(3), Secrets::new(4));
    let cookie = make(&secrets, at(100), &key(), SeqNum(7), 1_460);
    assert_eq!(check(&other, at(100), &key(), SeqNum(7), cookie), None);
    assert_eq!(check(&secrets, at(100), &key(), SeqNum(70_000), cookie), None);
    assert_eq!(check(&secrets, at(100), &FlowKey { remote_port: 4_001, ..key() }, SeqNum(7), cookie), None);
    let mut random = Secrets::new(5);
    let hits = (0..1_000_000).filter(|_| check(&secrets, at(100), &key(), SeqNum(7), SeqNum(random.random() as u32)).is_some());
    // 4 MSS values x 2 minutes of 2^32 numbers: one in 500 million.
    assert_eq!(hits.count(), 0);
}

/// A late segment of an ended connection is no cookie, even when equal numbers of bytes went each way: the difference of
/// SEG.ACK and SEG.SEQ is then a cookie's (seed 24028501408 of the simulator).
#[test]
fn equal_bytes_each_way_are_no_cookie() {
    let secrets = Secrets::new(8);
    let cookie = make(&secrets, at(100), &key(), SeqNum(7), 1_440);
    let later = |up: u32, down: u32| check(&secrets, at(101), &key(), SeqNum(7) + up, cookie + down);
    assert_eq!(later(0, 0), Some(1_440));
    let taken = (1..100_000).filter(|&bytes| later(bytes, bytes).is_some() || later(bytes, bytes + 1).is_some());
    // 4 MSS values of 2^24, twice 100,000 times: one in 20.
    assert_eq!(taken.count(), 0);
}

/// The timestamp encodes window scale, SACK and ECN; it never lies in the future and at most 2^6 ms in the past.
#[test]
fn timestamps_tell_options() {
    let config = TcpConfig::default();
    for now in [0u32, 5, 63, 64, 1_000_000, u32::MAX] {
        for (scales, send_scale, sack) in [(true, 14, true), (true, 0, false), (false, 0, true), (false, 0, false)] {
            let agreed_on = Agreed {
                mss: 1_460,
                send_scale,
                receive_scale: if scales { 6 } else { 0 },
                timestamps: true,
                sack,
                scales,
                ts_recent: 99,
                syn_field: 0,
                ecn: if sack { EcnMode::Classic } else { EcnMode::Off },
            };
            let value = timestamp(now, &agreed_on);
            assert!(now.wrapping_sub(value) < 64, "{now} {value}");
            assert_eq!(agreed(&config, 1_460, Some(value), 99, 6), Some(agreed_on));
        }
    }
    assert_eq!(agreed(&config, 536, None, 0, 6), Some(Agreed { mss: 536, ..Agreed::default() }));
    let without = TcpConfig { sack: false, ..config };
    assert_eq!(agreed(&without, 536, Some(SACK_BIT | NO_SCALING), 0, 6), None, "we have not sent that");
}

/// The minute's number wraps in its eight bits.
#[test]
fn minutes_wrap() {
    let secrets = Secrets::new(6);
    let late = Instant::from_millis(60_000 * 255 + 59_000);
    let cookie = make(&secrets, late, &key(), SeqNum(7), 1_460);
    assert_eq!(check(&secrets, late + Duration::from_secs(30), &key(), SeqNum(7), cookie), Some(1_460));
}
