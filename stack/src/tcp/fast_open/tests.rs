use core::net::IpAddr;

use super::*;

/// The key of Linux's own packetdrill tests (net.ipv4.tcp_fastopen_key).
const KEY: [u8; 16] = *b"\xa1\xa1\xa1\xa1\xb2\xb2\xb2\xb2\xc3\xc3\xc3\xc3\xd4\xd4\xd4\xd4";

fn flow(remote: &str, local: &str) -> FlowKey {
    let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
    FlowKey { local: ip(local), remote: ip(remote), local_port: 80, remote_port: 1_000 }
}

/// The cookies are Linux's: its tests expect these values for that key, and for a key of zeros.
#[test]
fn cookies_are_those_of_linux() {
    let flow = flow("192.0.2.1", "192.168.0.1");
    assert_eq!(cookie(&KEY, &flow), 0x3021_b9d8_8901_7eeb_u64.to_be_bytes());
    assert_eq!(cookie(&[0; 16], &flow), 0xb7c1_2350_a90d_c8f5_u64.to_be_bytes());
}

/// A cookie depends on both addresses and the key, not on ports.
#[test]
fn what_cookies_depend_on() {
    let one = flow("2001:db8::1", "fd3d::1");
    assert_ne!(cookie(&KEY, &one), cookie(&KEY, &flow("2001:db8::2", "fd3d::1")));
    assert_ne!(cookie(&KEY, &one), cookie(&KEY, &flow("2001:db8::1", "fd3d::2")));
    assert_ne!(cookie(&KEY, &one), cookie(&[1; 16], &one));
    assert_eq!(cookie(&KEY, &one), cookie(&KEY, &FlowKey { remote_port: 9, ..one }));
    assert_ne!(Shared::new(1, None).keys, Shared::new(2, None).keys);
    let own = FastOpenKeys { primary: KEY, backup: Some([1; 16]) };
    assert_eq!(Shared::new(1, Some(own)).keys, own, "the configured keys");
}
