//! Conversations between a load and responders, with given times.
use super::*;
use crate::load::tuning::Tuning;
use std::net::SocketAddr;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A load and the servers' ends of its connections.
struct Rig {
    load: Load,
    servers: Vec<Responder>,
    touched: Vec<usize>,
    start: Instant,
}

impl Rig {
    fn new(connections: u32, depth: u32, pace: Pace) -> Rig {
        let server = SocketAddr::from(([10, 0, 0, 1], 1));
        let plan = Plan {
            server,
            sources: Vec::new(),
            connections,
            request: 64,
            reply: 100,
            depth,
            pace,
            streams: 0,
            http: false,
            log: None,
            tuning: Tuning::default(),
        };
        let start = Instant::now();
        let servers = (0..connections).map(|_| Responder::default()).collect();
        Rig { load: Load::new(plan, start), servers, touched: Vec::new(), start }
    }

    fn begin(&mut self, warmup: Duration, measure: Duration) {
        let touched = &mut self.touched;
        let from = self.start + warmup;
        self.load.begin(self.start, from..from + measure, 1, |index| touched.push(index));
    }

    fn tick(&mut self, at: Duration) {
        let touched = &mut self.touched;
        self.load.tick(self.start + at, |index| touched.push(index));
    }

    /// Carries all bytes of a connection to its server and back, arriving at `at`.
    fn carry(&mut self, index: usize, at: Duration) -> Next {
        let mut bytes = vec![0; self.load.outbox(index).len()];
        self.load.outbox(index).copy_to(&mut bytes);
        self.load.outbox(index).advance(bytes.len());
        let server = &mut self.servers[index];
        server.receive(&bytes).expect("our own requests");
        let mut reply = Vec::new();
        if let Some(outbox) = server.outbox() {
            reply = vec![0; outbox.len()];
            outbox.copy_to(&mut reply);
            outbox.advance(reply.len());
        }
        self.load.receive(index, self.start + at, &reply).expect("the right replies")
    }
}

#[test]
fn a_closed_loop_keeps_its_depth_and_counts_only_the_measured_time() {
    let mut rig = Rig::new(1, 2, Pace::Closed);
    rig.begin(10 * MS, 10 * MS);
    for at in 0..30 {
        rig.tick(at * MS);
        rig.carry(0, at * MS);
    }
    assert!(rig.load.is_over());
    let outcome = rig.load.outcome();
    // Two replies at each of 10 to 19 ms; at 20 ms the last two arrive and no request follows.
    assert_eq!((outcome.replies, outcome.replies_in_all), (20, 42));
    assert!((outcome.p50_us - 1000.0).abs() < 1.0 && outcome.seconds == 0.01, "{outcome:?}");
}

#[test]
fn an_open_loop_counts_from_the_intended_time_even_when_all_connections_are_busy() {
    let mut rig = Rig::new(1, 1, Pace::Fixed(1000.0));
    rig.begin(Duration::ZERO, 100 * MS);
    rig.tick(Duration::ZERO);
    // Intended for 1, 2, … ms; the server answers only at 50 ms.
    (1..=50).for_each(|at| rig.tick(at * MS));
    assert_eq!(rig.touched, [0]);
    for _ in 0..50 {
        rig.carry(0, 50 * MS);
    }
    let outcome = rig.load.outcome();
    assert_eq!((outcome.replies, outcome.late), (50, 49));
    assert!((outcome.max_us - 49_000.0).abs() < 50.0 && (outcome.p50_us - 25_000.0).abs() < 1100.0, "{outcome:?}");
}

#[test]
fn a_short_connection_is_replaced_after_its_share() {
    let mut rig = Rig::new(1, 1, Pace::Short(2));
    rig.begin(Duration::ZERO, 10 * MS);
    rig.tick(MS);
    assert_eq!((rig.carry(0, MS), rig.carry(0, 2 * MS)), (Next::Continue, Next::Replace));
    rig.load.reopened(0, rig.start + 2 * MS);
    rig.servers[0] = Responder::default();
    assert_eq!(rig.load.outbox(0).len(), 64);
    rig.carry(0, 5 * MS);
    let outcome = rig.load.outcome();
    assert_eq!((outcome.replies, outcome.opened), (3, 1));
    assert!((outcome.max_us - 3000.0).abs() < 5.0, "the latency includes the opening: {outcome:?}");
}

#[test]
fn a_reply_to_another_request_or_of_another_length_is_refused() {
    for (tag, wanted) in [(1, 100), (0, 101)] {
        let mut rig = Rig::new(1, 1, Pace::Closed);
        rig.begin(Duration::ZERO, MS);
        let mut other = Outbox::default();
        other.push(Header { length: wanted, wanted: 64, tag });
        let mut bytes = vec![0; wanted as usize];
        other.copy_to(&mut bytes);
        assert_eq!(rig.load.receive(0, rig.start, &bytes), Err(Corrupt::Tag(tag)));
    }
}

#[test]
fn streams_beside_small_requests_are_counted_apart() {
    let mut rig = Rig::new(2, 1, Pace::Closed);
    rig.load.plan.streams = 1;
    rig.begin(Duration::ZERO, 10 * MS);
    rig.tick(Duration::ZERO);
    assert_eq!(rig.load.outbox(0).len(), 64 * PIECES as usize, "a stream always has pieces under way");
    rig.carry(0, MS);
    rig.carry(1, MS);
    let outcome = rig.load.outcome();
    assert_eq!((outcome.replies, outcome.stream_bytes), (1, u64::from(PIECE) * u64::from(PIECES)));
    assert_eq!((outcome.fairness, outcome.replies_in_all), (1.0, 1 + u64::from(PIECES)));
}

#[test]
fn http_is_answered_by_the_same_server_and_counted_alike() {
    let mut rig = Rig::new(1, 2, Pace::Closed);
    rig.load.plan.http = true;
    rig.begin(Duration::ZERO, 3 * MS);
    for at in 0..5 {
        rig.tick(at * MS);
        rig.carry(0, at * MS);
    }
    assert!(rig.load.is_over());
    let outcome = rig.load.outcome();
    assert_eq!((outcome.replies, outcome.replies_in_all), (6, 8));
    assert_eq!(rig.servers[0].answered(), 8);
}

#[test]
fn fairness_is_one_when_all_got_the_same_and_small_when_one_got_all() {
    let mut rig = Rig::new(4, 1, Pace::Closed);
    rig.begin(Duration::ZERO, 10 * MS);
    rig.tick(Duration::ZERO);
    for index in 0..4 {
        assert_eq!(rig.carry(index, MS), Next::Continue);
    }
    assert!((rig.load.outcome().fairness - 1.0).abs() < 1e-9);
    for _ in 0..1000 {
        assert_eq!(rig.carry(2, MS), Next::Continue);
    }
    let outcome = rig.load.outcome();
    assert!(outcome.fairness < 0.26 && (outcome.most, outcome.fewest) == (1001, 1), "{outcome:?}");
}

#[test]
fn a_log_begins_each_request_when_it_says_on_a_connection_of_its_own() {
    let folder = std::env::temp_dir().join(format!("ringway-bench-log-{}", std::process::id()));
    std::fs::write(&folder, "0 20\n5 30\n5 40\n900 50\n").expect("a file in the temporary folder");
    let server = std::net::SocketAddr::from(([10, 0, 0, 1], 1));
    let plan = Plan {
        server,
        sources: Vec::new(),
        connections: 2,
        request: 64,
        reply: 64,
        depth: 1,
        pace: Pace::Log,
        streams: 0,
        http: false,
        log: Some((crate::load::log::Source::File(folder.clone()), 1)),
        tuning: Tuning::default(),
    };
    let begun = Instant::now();
    let mut load = Load::new(plan, begun);
    load.load_log(Duration::from_millis(500), 1).expect("it is a log");
    std::fs::remove_file(folder).expect("it was made above");
    let mut touched = Vec::new();
    load.begin(begun, begun..begun + Duration::from_millis(500), 1, |index| touched.push(index));
    load.tick(begun, |index| touched.push(index));
    assert_eq!(touched, [0]);
    // Two more are due and one connection is free: the third request waits.
    load.tick(begun + Duration::from_millis(5), |index| touched.push(index));
    assert_eq!(touched, [0, 1]);
    let (now, mut server) = (begun + Duration::from_millis(8), Responder::default());
    answer(&mut load, &mut server, 0, now);
    load.tick(now, |index| touched.push(index));
    assert_eq!(touched, [0, 1, 0]);
    answer(&mut load, &mut Responder::default(), 0, now);
    answer(&mut load, &mut Responder::default(), 1, now);
    // The last request is beyond the run.
    load.tick(begun + Duration::from_millis(500), |index| touched.push(index));
    assert!(load.is_over() && touched.len() == 3);
    let outcome = load.outcome();
    assert_eq!((outcome.replies, outcome.opened, outcome.late), (3, 3, 1));
    assert!((outcome.max_us - 8_000.0).abs() < 10.0, "latency from the intended time: {}", outcome.max_us);
}

/// Carries a connection's request to the server and the reply back.
fn answer(load: &mut Load, server: &mut Responder, index: usize, now: Instant) {
    let mut bytes = [0; 256];
    let count = load.outbox(index).copy_to(&mut bytes);
    load.outbox(index).advance(count);
    server.receive(&bytes[..count]).expect("a request");
    let replies = server.outbox().expect("a reply");
    let count = replies.copy_to(&mut bytes);
    replies.advance(count);
    assert_eq!(load.receive(index, now, &bytes[..count]), Ok(Next::Continue));
}
