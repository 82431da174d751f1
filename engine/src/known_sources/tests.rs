use super::*;

fn known_sources() -> KnownSources {
    KnownSources::with_keys([0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9])
}

/// Addresses that are next to each other, as those of one network are.
fn address(number: u32) -> IpAddr {
    IpAddr::V4((0xc612_0000 + number).into())
}

#[test]
fn accepted_sources_are_known_and_others_are_not() {
    let mut known = known_sources();
    assert!(!known.contains(address(0)));
    (0..GENERATION).for_each(|number| known.add(address(number)));
    assert!((0..GENERATION).all(|number| known.contains(address(number))));
    let strange = (GENERATION..2 * GENERATION).filter(|number| known.contains(address(*number))).count();
    assert!(strange < GENERATION as usize / 20, "{strange}");
}

#[test]
fn a_source_is_known_until_two_generations_have_come() {
    let mut known = known_sources();
    known.add(address(0));
    (1..2 * GENERATION - 1000).for_each(|number| known.add(address(number)));
    assert!(known.contains(address(0)));
    (0..GENERATION).for_each(|number| known.add(address(1 << 16 | number)));
    (0..GENERATION).for_each(|number| known.add(address(1 << 17 | number)));
    assert!(!known.contains(address(0)));
}

/// A source that comes again and again takes no room from others.
#[test]
fn a_source_counts_once() {
    let mut known = known_sources();
    known.add(address(1));
    (0..4 * GENERATION).for_each(|_| known.add(address(2)));
    assert!(known.contains(address(1)) && known.contains(address(2)));
}

#[test]
fn an_ipv6_prefix_is_one_source() {
    let mut known = known_sources();
    known.add("2001:db8:1:1::7".parse().expect("an address"));
    assert!(known.contains("2001:db8:1:1:ffff::1".parse().expect("an address")));
    assert!(!known.contains("2001:db8:1:2::7".parse().expect("an address")));
}
