use super::*;
use std::net::IpAddr;

fn flow(port: u16) -> Flow {
    let ip = |last| IpAddr::from([10, 0, 0, last]);
    Flow { local: (ip(1), 80), remote: (ip(2), port) }
}

/// A group with more connections than one hand-over may keep stays; later ones that fit go, each with all its
/// connections.
#[test]
fn a_hand_over_takes_whole_groups_with_few_connections() {
    let crowded = flow(1).group();
    let flows: Vec<Flow> = (1..20_000).map(flow).collect();
    let crowd = flows.iter().filter(|flow| flow.group() == crowded).cycle().take(FLOWS_MAX as usize + 1).copied();
    let all: Vec<(Flow, State)> = crowd
        .chain(flows.iter().filter(|flow| flow.group() != crowded).copied())
        .map(|flow| (flow, State::Established))
        .collect();
    let (groups, few) = choose(GroupSet::ALL, all.clone());
    assert!(!groups.contains(crowded));
    assert!(groups.iter().count() > 10, "{groups:?}");
    assert!(few.len() <= FLOWS_MAX as usize && few.len() > FLOWS_MAX as usize / 2, "{}", few.len());
    let whole = all.into_iter().map(|(flow, _)| flow).filter(|flow| groups.contains(flow.group()));
    assert_eq!(few, whole.collect::<Vec<_>>());
}

/// Far more short connections are in TIME-WAIT than open. Only the open ones need to be kept for a group to go.
#[test]
fn a_crowd_in_time_wait_keeps_no_group() {
    let over = (1..20_000).map(|port| (flow(port), State::TimeWait));
    let open = [(flow(30_000), State::Established), (flow(30_001), State::SynReceived)];
    let (groups, kept) = choose(GroupSet::ALL, over.chain(open).collect());
    assert_eq!((groups, kept), (GroupSet::ALL, vec![flow(30_000), flow(30_001)]));
    let (groups, kept) = choose(GroupSet::ALL, vec![(flow(1), State::TimeWait), open[0]]);
    assert_eq!((groups, kept), (GroupSet::ALL, vec![flow(1), flow(30_000)]), "few are kept as well");
}
