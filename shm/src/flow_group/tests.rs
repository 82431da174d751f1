//! Both directions are one group, and flows spread.
use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn both_directions_of_a_flow_have_one_group_that_never_changes() {
    let (client, server) = ((ip("10.0.0.1"), 40_000), (ip("10.0.0.2"), 80));
    assert_eq!(FlowGroup::of(client, server), FlowGroup::of(server, client));
    // 0x0a000001 ^ 0x0a000002 ^ (40000 ^ 80) = 0x9c13; by hand: 0x9c13 * 0x9e3779b9 = ..., top seven bits.
    assert_eq!(FlowGroup::of(client, server).index(), (0x9c13u32.wrapping_mul(0x9e37_79b9) >> 25) as usize);
    let (client, server) = ((ip("fd00::1"), 40_000), (ip("fd00::2"), 80));
    assert_eq!(FlowGroup::of(client, server), FlowGroup::of_word(0x9c13), "the common prefix cancels");
}

#[test]
fn ports_that_follow_each_other_spread_over_all_groups() {
    // Linux's active opens take every second port.
    for step in [1, 2] {
        let mut flows = [0u32; GROUPS];
        for port in (0..4096u16).map(|n| 32_768 + n * step) {
            flows[FlowGroup::of((ip("10.0.0.1"), port), (ip("10.0.0.2"), 80)).index()] += 1;
        }
        let (least, most) = (flows.iter().min().expect("some"), flows.iter().max().expect("some"));
        assert!(*least >= 16 && *most <= 48, "32 on average, {least} to {most}");
    }
}

#[test]
fn sets_hold_what_was_put_in() {
    let (one, other) = (FlowGroup::new(0).expect("exists"), FlowGroup::new(127).expect("exists"));
    assert_eq!(FlowGroup::new(128), None);
    let mut set: GroupSet = [one, other].into_iter().collect();
    assert!(set.contains(one) && set.contains(other));
    set.remove(one);
    assert!(!set.contains(one) && set.contains(other));
    assert_eq!(FlowGroup::all().collect::<GroupSet>(), GroupSet::ALL);
}
