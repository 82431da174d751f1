use core::net::Ipv4Addr;

use super::*;

/// The cache has an upper bound, and the peer known longest is dropped first.
#[test]
fn the_cache_is_bounded() {
    let ip = |n: u32| IpAddr::V4(Ipv4Addr::from_bits(n));
    let mut cache = Cache::default();
    for n in 0..3 * PEERS_MAX as u32 {
        cache.peer(ip(n)).mss = 1_000;
        cache.peer(ip(n)).losses = 1;
    }
    assert_eq!((cache.peers.len(), cache.order.len()), (PEERS_MAX, PEERS_MAX));
    assert_eq!(cache.get(ip(2 * PEERS_MAX as u32)).mss, 1_000);
    assert_eq!(cache.get(ip(0)).mss, 0);
}
