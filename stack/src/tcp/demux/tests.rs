use super::*;
use alloc::collections::BTreeMap;
use core::net::Ipv4Addr;

fn key(n: u32) -> FlowKey {
    FlowKey {
        local: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        remote: IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 | (n >> 12))),
        local_port: 80,
        remote_port: (n & 0xfff) as u16,
    }
}

/// Compares with a map: insertions, removals and lookups while the table grows, with real hashes and with hashes of which
/// all but 6 bits are equal.
#[test]
fn like_a_map() {
    for (seed, mask) in [(1u64, u32::MAX), (2, u32::MAX), (3, 0x3f)] {
        let hasher = FlowHasher::new(seed);
        let mut table = FlowTable::new();
        let mut model = BTreeMap::new();
        let mut random = seed;
        let flows = if mask == u32::MAX { 20_000 } else { 400 };
        for _ in 0..flows * 3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let n = (random >> 33) as u32 % flows;
            let hash = hasher.hash(&key(n)) & mask;
            let found = table.find(hash, |target| target == Target::Connection(n));
            assert_eq!(found.is_some(), model.contains_key(&n), "seed {seed}");
            if model.remove(&n).is_some() {
                assert!(table.remove(hash, Target::Connection(n)));
            } else {
                table.insert(hash, Target::Connection(n));
                model.insert(n, ());
            }
            assert_eq!(table.len(), model.len());
        }
        for n in 0..flows {
            let hash = hasher.hash(&key(n)) & mask;
            assert_eq!(table.find(hash, |t| t == Target::Connection(n)).is_some(), model.contains_key(&n));
        }
    }
}

/// Kinds with the same index are different targets.
#[test]
fn kinds() {
    let mut table = FlowTable::new();
    for target in [Target::Connection(7), Target::HalfOpen(7), Target::TimeWait(7)] {
        table.insert(1, target);
    }
    assert!(table.remove(1, Target::HalfOpen(7)));
    assert!(!table.remove(1, Target::HalfOpen(7)));
    assert_eq!(table.find(1, |t| t == Target::TimeWait(7)), Some(Target::TimeWait(7)));
}

/// The hash depends on its key, and neighboring flows spread over the buckets.
#[test]
fn the_hash_is_keyed_and_spreads() {
    let (a, b) = (FlowHasher::new(1), FlowHasher::new(2));
    assert_ne!(a.hash(&key(1)), b.hash(&key(1)));
    let mut buckets = [0u32; 256];
    for n in 0..25_600 {
        buckets[a.hash(&key(n)) as usize & 255] += 1;
    }
    assert!(buckets.iter().all(|&count| (50..170).contains(&count)), "{buckets:?}");
}
