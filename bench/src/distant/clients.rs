//! Clients on further machines, which load the one server together with the client here.
//!
//! ```text
//!   bench SCENARIO --peer SERVER --clients A --clients B      connections of a point: a third here, a third at A, a third at B
//!       | order: prepare, run, release   | the same, to agents at A and B
//! ```
//! Promises: all begin a run within the time that an order takes to arrive; the warm-up is longer. Latencies are those of all replies. Does
//! not do: use the clocks of other machines; each client measures its own time.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Line, Peer, SHORT, greeted};
use crate::agent::call::{Call, Reply};
use crate::bed::{Counts, START};
use crate::load::latency::Latencies;
use crate::load::order::{Answer, Order, Outcome, Pace, Plan};
use crate::measure::cpu::{Core, Used};
use crate::measure::machine::Facts;

/// A machine with a client.
pub(super) struct Client {
    line: RefCell<Line>,
    pub(super) commit: String,
    pub(super) facts: Facts,
}

impl Client {
    /// Reaches the agent, and has it start a client of servers at `server`.
    ///
    /// # Errors
    /// It is not there, of another version, or refuses.
    pub(super) fn reach(peer: &Peer, server: SocketAddr) -> io::Result<Client> {
        let (mut line, _) = Line::to(peer)?;
        let (commit, _) = greeted(&mut line)?;
        let Reply::Facts(facts) = line.ask(&Call::Client(server), START + SHORT)? else {
            return Err(line.error("did not start a client"));
        };
        Ok(Client { line: RefCell::new(line), commit, facts })
    }

    /// Sends an order, whose answer [`answer`](Client::answer) waits for.
    pub(super) fn order(&self, order: Order) -> io::Result<()> {
        self.line.borrow_mut().tell(&Call::Order(order))
    }

    fn answer(&self, limit: Duration) -> io::Result<Answer> {
        let mut line = self.line.borrow_mut();
        // The agent has the limit itself, and says what was not done in it.
        match line.hear(limit + SHORT)? {
            Reply::Answer(answer) => Ok(answer),
            _ => Err(line.error("did not obey")),
        }
    }

    /// Waits until connections are open, or closed.
    pub(super) fn wait_ready(&self, limit: Duration) -> io::Result<()> {
        match self.answer(limit)? {
            Answer::Ready => Ok(()),
            _ => Err(self.line.borrow().error("is not ready")),
        }
    }

    /// Waits for the result of a run.
    pub(super) fn outcome(&self, limit: Duration) -> io::Result<Outcome> {
        match self.answer(limit)? {
            Answer::Done(outcome) => Ok(outcome),
            _ => Err(self.line.borrow().error("has no result")),
        }
    }

    pub(super) fn used(&self) -> io::Result<Used> {
        let mut line = self.line.borrow_mut();
        match line.ask(&Call::Used, SHORT)? {
            Reply::Used(used) => Ok(used),
            _ => Err(line.error("did not say what was used")),
        }
    }

    pub(super) fn counts(&self) -> io::Result<Counts> {
        let mut line = self.line.borrow_mut();
        match line.ask(&Call::Counts, SHORT)? {
            Reply::Counted(counts) => Ok(counts),
            _ => Err(line.error("did not say what was counted")),
        }
    }
}

/// Divides a load among `clients`, as evenly as whole connections are.
///
/// # Errors
/// There are fewer connections than clients, or the load is a log, whose lines belong together.
pub(super) fn shares(plan: &Plan, clients: usize) -> io::Result<Vec<Plan>> {
    if clients == 1 {
        return Ok(vec![plan.clone()]);
    }
    if plan.pace == Pace::Log {
        return Err(io::Error::other("a log is replayed by one client: measure it without --clients"));
    }
    let part = |all: u32, index: usize| {
        let (all, clients, index) = (u64::from(all), clients as u64, index as u64);
        (all * (index + 1) / clients - all * index / clients) as u32
    };
    let share = |index| {
        let (connections, streams) = (part(plan.connections, index), part(plan.streams, index));
        let rate = |rate: f64| rate * f64::from(connections) / f64::from(plan.connections.max(1));
        let pace = match plan.pace {
            Pace::Poisson(all) => Pace::Poisson(rate(all)),
            Pace::Fixed(all) => Pace::Fixed(rate(all)),
            other => other,
        };
        Plan { connections, streams, pace, ..plan.clone() }
    };
    let shares: Vec<Plan> = (0..clients).map(share).collect();
    match shares.iter().all(|share| share.connections > 0 && share.streams <= share.connections) {
        true => Ok(shares),
        false => Err(io::Error::other(format!("{} connections are too few for {clients} clients", plan.connections))),
    }
}

/// The result of all clients, each with its share.
pub(super) fn together(parts: Vec<(Plan, Outcome)>) -> Outcome {
    let mut sum = Outcome { fewest: u64::MAX, ..Outcome::default() };
    let (mut latencies, mut askers, mut squares) = (Latencies::default(), 0.0, 0.0);
    for (share, part) in parts {
        sum.replies += part.replies;
        sum.replies_in_all += part.replies_in_all;
        sum.stream_bytes += part.stream_bytes;
        sum.opened += part.opened;
        sum.late += part.late;
        sum.seconds = sum.seconds.max(part.seconds);
        (sum.most, sum.fewest) = (sum.most.max(part.most), sum.fewest.min(part.fewest));
        let own = f64::from(share.connections - share.streams);
        if part.fairness > 0.0 {
            squares += (part.replies as f64).powi(2) / (own * part.fairness);
        }
        askers += own;
        latencies.add_all(&part.latencies);
    }
    if squares > 0.0 {
        sum.fairness = (sum.replies as f64).powi(2) / (askers * squares);
    }
    latencies.tell(&mut sum);
    sum
}

/// The times of all clients; of their cores, too.
pub(super) fn sum(used: impl IntoIterator<Item = Used>) -> Used {
    used.into_iter().fold(Used::default(), |sum, used| Used {
        processes_ns: sum.processes_ns + used.processes_ns,
        core: Core {
            busy_ns: sum.core.busy_ns + used.core.busy_ns,
            user_ns: sum.core.user_ns + used.core.user_ns,
            softirq_ns: sum.core.softirq_ns + used.core.softirq_ns,
            steal_ns: sum.core.steal_ns + used.core.steal_ns,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::tuning::Tuning;

    fn plan(connections: u32, streams: u32, pace: Pace) -> Plan {
        let server = ([192, 0, 2, 1], 8080).into();
        let tuning = Tuning::default();
        Plan {
            server,
            sources: Vec::new(),
            connections,
            request: 64,
            reply: 64,
            depth: 1,
            pace,
            http: false,
            streams,
            log: None,
            tuning,
        }
    }

    #[test]
    fn a_load_is_divided_without_a_rest() {
        let shared = shares(&plan(10, 4, Pace::Poisson(1000.0)), 3).expect("enough for all");
        assert_eq!(shared.iter().map(|share| (share.connections, share.streams)).collect::<Vec<_>>(), [(3, 1), (3, 1), (4, 2)]);
        let rates = shared.iter().map(|share| if let Pace::Poisson(rate) = share.pace { rate } else { 0.0 });
        assert_eq!(rates.collect::<Vec<_>>(), [300.0, 300.0, 400.0]);
        assert_eq!(shares(&plan(2, 0, Pace::Closed), 1).expect("one is enough"), [plan(2, 0, Pace::Closed)]);
        assert!(shares(&plan(2, 0, Pace::Closed), 3).expect_err("too few").to_string().contains("too few"));
        assert!(shares(&plan(9, 0, Pace::Log), 2).expect_err("a log").to_string().contains("one client"));
    }

    /// As if one client had had all connections.
    #[test]
    fn results_add_up() {
        let part = |replies: &[u64], slow_us: u64| {
            let mut latencies = Latencies::default();
            (0..99).for_each(|_| latencies.add(Duration::from_micros(10)));
            latencies.add(Duration::from_micros(slow_us));
            let (sum, squares) = (replies.iter().sum::<u64>(), replies.iter().map(|count| (count * count) as f64).sum::<f64>());
            let fairness = (sum * sum) as f64 / (replies.len() as f64 * squares);
            let (most, fewest) = (*replies.iter().max().expect("some"), *replies.iter().min().expect("some"));
            let mut outcome =
                Outcome { replies: sum, replies_in_all: sum + 5, seconds: 1.0, most, fewest, fairness, ..Outcome::default() };
            latencies.tell(&mut outcome);
            (plan(replies.len() as u32, 0, Pace::Closed), outcome)
        };
        let all = together(vec![part(&[10, 30], 500), part(&[20], 900)]);
        assert_eq!((all.replies, all.replies_in_all, all.most, all.fewest), (60, 70, 30, 10));
        assert!((all.fairness - 3600.0 / (3.0 * 1400.0)).abs() < 1e-9, "{}", all.fairness);
        assert!((all.p50_us / 10.0 - 1.0).abs() < 0.002 && (all.max_us / 900.0 - 1.0).abs() < 0.002, "{all:?}");
        assert!(all.p999_us > 400.0 && all.p99_us < 11.0, "two in two hundred are slow: {all:?}");
    }
}
