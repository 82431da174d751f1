use std::collections::HashMap;
use std::net::IpAddr;

use ringway_engine::Division as _;
use ringway_shm::Duration;

use super::*;

const NOW: Instant = Instant::from_millis(10_000);

/// The tables as the filters would read them.
#[derive(Default)]
struct State {
    groups: HashMap<FlowGroup, (usize, bool)>,
    kept: HashMap<Flow, usize>,
    /// Space for so many connections; `None`: any number.
    room: Option<usize>,
}

#[derive(Clone, Default)]
struct Filters(Arc<Mutex<State>>);

impl Filters {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("not poisoned")
    }

    /// The worker that a packet comes to.
    fn worker_of(&self, flow: &Flow) -> usize {
        let state = self.state();
        let first = (Division::first_owner(flow.group(), 2), false);
        let (owner, scattered) = state.groups.get(&flow.group()).copied().unwrap_or(first);
        state.kept.get(flow).copied().filter(|_| scattered).unwrap_or(owner)
    }
}

impl Tables for Filters {
    fn assign(&mut self, group: FlowGroup, worker: usize, flows: Flows) -> io::Result<()> {
        self.state().groups.insert(group, (worker, flows == Flows::Scattered));
        Ok(())
    }

    fn keep(&mut self, flow: &Flow, worker: usize) -> io::Result<()> {
        let mut state = self.state();
        if state.room == Some(state.kept.len()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.kept.insert(*flow, worker);
        Ok(())
    }

    fn forget(&mut self, flow: &Flow) -> io::Result<()> {
        self.state().kept.remove(flow);
        Ok(())
    }
}

fn flow(port: u16) -> Flow {
    let ip = |last| IpAddr::from([10, 0, 0, last]);
    Flow { local: (ip(1), 80), remote: (ip(2), port) }
}

fn two() -> (Share, Share, Filters) {
    let filters = Filters::default();
    let mut shares = Share::shares(Box::new(filters.clone()), 2, 60);
    let mut next = || shares.next().expect("two were asked for");
    (next(), next(), filters)
}

/// The first worker is busy all the time, the second sleeps: what the first should give.
fn weighed(share: &mut Share, now: Instant) -> GroupSet {
    share.weigh(now, 1.0)
}

/// A quarter of the groups goes, and their new connections; those that are open stay until they end. Then nothing is scattered.
#[test]
fn groups_go_and_connections_stay() {
    let (mut first, second, filters) = two();
    let groups = weighed(&mut first, NOW);
    assert_eq!(groups.iter().count(), 16);
    let (open, late) = (
        (1..).map(flow).find(|flow| groups.contains(flow.group())),
        (1..).map(flow).filter(|flow| groups.contains(flow.group())).nth(1),
    );
    let (open, late) = (open.expect("ports enough"), late.expect("ports enough"));
    first.hand_over(NOW, groups, &[open]).expect("room");
    assert_eq!((first.groups().iter().count(), second.groups().iter().count()), (48, 80));
    assert!(groups.iter().all(|group| second.groups().contains(group)));
    assert_eq!((filters.worker_of(&open), filters.worker_of(&late)), (0, 1));
    first.keep(&late).expect("room");
    assert_eq!(filters.worker_of(&late), 0);
    for flow in [open, late] {
        first.forget(&flow);
        assert_eq!(filters.worker_of(&flow), 1);
    }
    assert!(filters.state().groups.values().all(|&(_, scattered)| !scattered));
    assert!(filters.state().kept.is_empty());
}

/// Each time other groups go, until none are left; when the second is the busy one they come back, and a connection that the
/// first kept meanwhile stays there.
#[test]
fn groups_go_on_until_the_load_is_even_and_come_back() {
    let (mut first, mut second, filters) = two();
    let mut now = NOW;
    let mut kept = Vec::new();
    while first.groups() != GroupSet::NONE {
        let groups = weighed(&mut first, now);
        let open = (1..).map(flow).find(|flow| groups.contains(flow.group())).expect("ports enough");
        first.hand_over(now, groups, &[open]).expect("room");
        assert_eq!(weighed(&mut first, now), GroupSet::NONE, "it waits for what this brings");
        kept.push(open);
        now += Duration::from_secs(1);
    }
    assert!(kept.len() > 4, "in steps");
    assert_eq!(weighed(&mut first, now), GroupSet::NONE, "nothing is left to give");
    now += Duration::from_secs(10);
    let groups = weighed(&mut second, now);
    assert_eq!(groups.iter().count(), 32);
    second.hand_over(now, groups, &[]).expect("it has none");
    assert!(kept.iter().all(|flow| filters.worker_of(flow) == 0));
}

/// Where the tables are full nothing is handed over and nothing stays behind; a hand-over without a request is refused.
#[test]
fn a_full_table_keeps_everything_as_it_was() {
    let (mut first, _second, filters) = two();
    let groups = weighed(&mut first, NOW);
    let open: Vec<Flow> = (1..).map(flow).filter(|flow| groups.contains(flow.group())).take(3).collect();
    filters.state().room = Some(2);
    let before: Vec<usize> = open.iter().map(|flow| filters.worker_of(flow)).collect();
    assert!(first.hand_over(NOW, groups, &open).is_err());
    assert_eq!(open.iter().map(|flow| filters.worker_of(flow)).collect::<Vec<_>>(), before);
    assert!(filters.state().kept.is_empty());
    assert_eq!(first.groups().iter().count(), 64);
    filters.state().room = None;
    assert!(first.hand_over(NOW, groups, &open).is_err(), "what was advised is past");
    let groups = weighed(&mut first, NOW);
    let crowd: Vec<Flow> = (0..=KEPT_MAX - LATE_MAX).map(|_| open[0]).collect();
    assert!(first.hand_over(NOW, groups, &crowd).is_err(), "room is left for who comes late");
    assert!(filters.state().kept.is_empty());
}
