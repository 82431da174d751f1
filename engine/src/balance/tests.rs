use super::*;
use std::net::IpAddr;

fn flow(port: u16) -> Flow {
    let ip = |last| IpAddr::from([10, 0, 0, last]);
    Flow { local: (ip(1), 80), remote: (ip(2), port) }
}

/// A group with more connections than one hand-over may keep stays, those behind it that fit go, each with all of its own.
#[test]
fn a_hand_over_takes_whole_groups_with_few_connections() {
    let crowded = flow(1).group();
    let flows: Vec<Flow> = (1..20_000).map(flow).collect();
    let crowd = flows.iter().filter(|flow| flow.group() == crowded).cycle().take(FLOWS_MAX as usize + 1).copied();
    let all: Vec<Flow> = crowd.chain(flows.iter().filter(|flow| flow.group() != crowded).copied()).collect();
    let (groups, few) = few_enough(GroupSet::ALL, all.clone());
    assert!(!groups.contains(crowded));
    assert!(groups.iter().count() > 10, "{groups:?}");
    assert!(few.len() <= FLOWS_MAX as usize && few.len() > FLOWS_MAX as usize / 2, "{}", few.len());
    assert_eq!(few, all.into_iter().filter(|flow| groups.contains(flow.group())).collect::<Vec<_>>());
}
