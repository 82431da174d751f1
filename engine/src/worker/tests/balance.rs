//! One of several workers hands flow groups over, and goes on with its open connections.

use ringway_channel::{ControlAnswer, Flags, Operation, SlotRef};
use ringway_shm::{Duration, FlowGroup, GroupSet};

use super::harness::{Asked, Net, Recorder, pattern, socket};

/// Takes the requests since the last call.
fn asked(others: &Recorder) -> Vec<Asked> {
    std::mem::take(&mut others.others().asked)
}

/// Lets more than the time between two looks pass, with work at the end.
fn work_after_a_while(net: &mut Net, from: (usize, SlotRef), to: (usize, SlotRef)) {
    net.run_for_ms(150);
    let bytes = pattern(10, 3);
    assert_eq!(net.exchange(from, to, &bytes, &bytes).1, bytes);
}

/// The open connection is kept, and a late one too, before it is answered; both go on. When they have ended, after
/// TIME-WAIT, they are forgotten.
#[test]
fn connections_stay_where_they_are_when_their_groups_go() {
    let others = Recorder::default();
    let mut net = Net::divided(&others);
    let listener = net.listen_everywhere(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    others.others().better_off = GroupSet::ALL;
    work_after_a_while(&mut net, (1, client), (0, server));
    assert_eq!(asked(&others), [Asked::HandOver(GroupSet::ALL, 1)]);
    let late_client = net.connect(1, 80);
    net.run_until(|_| !others.others().asked.is_empty());
    let [Asked::Keep(late)] = asked(&others)[..] else { panic!("one has come late") };
    assert_eq!(late.local.1, 80);
    let late_server = net.accept(0, listener);
    for (client, server) in [(client, server), (late_client, late_server)] {
        let (up, down) = (pattern(50_000, 1), pattern(50_000, 2));
        assert!(net.exchange((1, client), (0, server), &up, &down) == (down, up), "the streams differ");
        net.close(0, server);
        net.run_until(|net| net.apps[1].client.slot(client.index).flags().has(Flags::PEER_CLOSED));
        net.close(1, client);
    }
    // Later connections are not kept: the groups' packets no longer come here.
    net.run_for_ms(70_000);
    let (client, server) = (net.connect(1, 80), net.accept(0, listener));
    work_after_a_while(&mut net, (1, client), (0, server));
    work_after_a_while(&mut net, (1, client), (0, server));
    let forgotten = asked(&others);
    assert_eq!(forgotten.len(), 2, "{forgotten:?}");
    assert!(forgotten.contains(&Asked::Forget(late)));
}

/// Connections that the program has opened come to this worker by their port, whichever worker has the group, and need
/// no keeping. A second hand-over does not keep a connection twice.
#[test]
fn only_connections_of_a_common_listener_are_kept_and_once() {
    let others = Recorder::default();
    let mut net = Net::divided(&others);
    let (listener, common) = (net.listen(1, 81), net.listen_everywhere(0, 80));
    let opened = net.open(0);
    let connect = Operation::Connect { remote: socket([10, 0, 0, 2], 81) };
    assert_eq!(net.control(0, opened, connect), ControlAnswer::Done);
    let accepted = net.accept(1, listener);
    others.others().better_off = GroupSet::ALL;
    work_after_a_while(&mut net, (1, accepted), (0, opened));
    assert_eq!(asked(&others), [Asked::HandOver(GroupSet::ALL, 0)]);
    net.run_for_ms(2_000);
    let (client, server) = (net.connect(1, 80), net.accept(0, common));
    let half: GroupSet = FlowGroup::all().filter(|group| group.index() < 64).collect();
    for (groups, kept) in [(GroupSet::ALL, 1), (half, 0)] {
        others.others().better_off = groups;
        work_after_a_while(&mut net, (1, client), (0, server));
        assert_eq!(asked(&others), [Asked::HandOver(groups, kept)]);
    }
}

/// Without space for the connections that would have to be kept, no group moves, and no late connection is kept.
#[test]
fn a_hand_over_that_finds_no_room_changes_nothing() {
    let others = Recorder::default();
    let mut net = Net::divided(&others);
    let listener = net.listen_everywhere(0, 80);
    let (client, server) = (net.connect(1, 80), net.accept(0, listener));
    others.others().better_off = GroupSet::ALL;
    others.others().full = true;
    work_after_a_while(&mut net, (1, client), (0, server));
    assert_eq!(others.others().better_off, GroupSet::NONE, "it was told");
    others.others().full = false;
    let (late_client, late_server) = (net.connect(1, 80), net.accept(0, listener));
    work_after_a_while(&mut net, (1, late_client), (0, late_server));
    assert_eq!(asked(&others), []);
}

/// A worker publishes its load to the others and to its programs: fully busy if each iteration finds work for long
/// enough, hardly at all if it sleeps in between.
#[test]
fn a_worker_tells_how_busy_it_is() {
    let others = Recorder::default();
    let mut net = Net::divided(&others);
    let listener = net.listen_everywhere(0, 80);
    let (client, server) = (net.connect(1, 80), net.accept(0, listener));
    work_after_a_while(&mut net, (1, client), (0, server));
    assert!(others.others().busy < 0.1, "{}", others.others().busy);
    let (up, down) = (pattern(1_000, 1), pattern(1_000, 2));
    let before = net.now;
    while net.now.since(before) < Duration::from_millis(600) {
        assert!(net.exchange((1, client), (0, server), &up, &down) == (down.clone(), up.clone()), "the streams differ");
    }
    let busy = others.others().busy;
    assert!(busy > 0.3, "{busy}");
    assert_eq!(net.apps[0].client.busy(), (busy * 1_000.0) as u32);
}
