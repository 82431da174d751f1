//! Rows computed from samples with known figures.
use super::*;
use crate::load::order::Pace;
use crate::load::tuning::Tuning;
use crate::measure::cpu::Used;

fn plan(pace: Pace) -> Plan {
    let server = std::net::SocketAddr::from(([10, 0, 0, 1], 1));
    Plan {
        server,
        sources: Vec::new(),
        connections: 64,
        request: 64,
        reply: 128,
        depth: 1,
        pace,
        streams: 0,
        http: false,
        log: None,
        tuning: Tuning::default(),
    }
}

/// A second with `replies` replies, each of which costs the server `cpu_us_per_request`.
fn sample(replies: u64, cpu_us_per_request: u64) -> Sample {
    let server = Used { processes_ns: replies * cpu_us_per_request * 1000, ..Used::default() };
    let outcome = Outcome { replies, replies_in_all: replies, seconds: 1.0, p50_us: 10.0, fairness: 0.5, ..Outcome::default() };
    Sample { outcome, server, client: server, ..Sample::default() }
}

fn series(samples: &[Sample]) -> Series {
    Series { samples: samples.to_vec(), ..Series::default() }
}

fn setting() -> Setting {
    Setting { scenario: "conns".into(), frequency_ghz: 2.5, ..Setting::default() }
}

#[test]
fn values_are_medians_and_ratios_are_of_the_same_round() {
    let point = Point::new("64".into(), &[("connections", 64.0)], plan(Pace::Closed), Figure::Requests);
    let linux = series(&[sample(100_000, 8), sample(50_000, 8), sample(90_000, 8)]);
    let ours = series(&[sample(150_000, 4), sample(75_000, 4), sample(135_000, 4)]);
    let row = point.row(&setting(), "embedded", &ours, Some(&linux));
    assert_eq!((row.value, row.unit.as_str(), row.ratio), (135_000.0, "requests/s", Some(1.5)));
    assert_eq!((row.server_cpu_us_per_request, row.client_cpu_us_per_request), (Some(4.0), Some(4.0)));
    assert_eq!(row.server_cpu_ratio, Some(0.5));
    assert_eq!((row.cycles_per_request, row.cycles_per_byte), (Some(10_000.0), Some(78.13)));
    assert_eq!(row.throughput_per_core, Some(250_000.0));
    assert_eq!((row.rounds, row.number("connections"), row.noise.as_str()), (3, Some(64.0), "quiet"));
    assert_eq!(point.row(&setting(), "embedded", &ours, None).ratio, None);
}

#[test]
fn bytes_connections_latency_and_shares_have_their_own_units() {
    let value = |figure, pace| {
        let row =
            Point::new("x".into(), &[], plan(pace), figure).row(&setting(), "linux", &series(&[sample(1_000_000, 1)]), None);
        (row.value, row.unit)
    };
    assert_eq!(value(Figure::Gigabits, Pace::Closed), (1.024, "Gbit/s".to_string()));
    assert_eq!(value(Figure::Connections, Pace::Short(4)), (250_000.0, "connections/s".to_string()));
    assert_eq!(value(Figure::Latency, Pace::Closed), (10.0, "us".to_string()));
    assert_eq!(value(Figure::Fairness, Pace::Closed).0, 0.5);
}

#[test]
fn nothing_measured_is_no_panic() {
    let point = Point::new("x".into(), &[], plan(Pace::Closed), Figure::Requests);
    let row = point.row(&setting(), "linux", &Series::default(), Some(&Series::default()));
    assert_eq!((row.value, row.ratio, row.p50_us), (0.0, None, None));
}

#[test]
fn figures_have_four_digits() {
    assert_eq!(
        [rounded(123_456.7), rounded(0.001_234_56), rounded(-98.765), rounded(f64::NAN)],
        [123_500.0, 0.001_235, -98.77, 0.0]
    );
}

#[test]
fn cpu_is_split_by_what_the_core_did() {
    let mut one = sample(1000, 8);
    one.server.core = Core { busy_ns: 100, user_ns: 20, softirq_ns: 50, steal_ns: 0 };
    let point = Point::new("64".into(), &[], plan(Pace::Closed), Figure::Requests);
    // The core has at most 50 ns of softirqs beyond the processes; the shares are of 8 us.
    let row = point.row(&setting(), "linux", &series(&[one]), None);
    let parts = (row.server_user_us_per_request, row.server_system_us_per_request, row.server_softirq_us_per_request);
    assert_eq!(parts, (Some(1.6), Some(2.4), Some(4.0)));
}

#[test]
fn an_open_loop_beyond_capacity_says_so() {
    let mut one = sample(1000, 8);
    one.outcome.late = 250;
    let point = Point::new("64".into(), &[], plan(Pace::Poisson(1.0)), Figure::Requests);
    let noted = Series { note: "odd".into(), ..series(&[one]) };
    assert_eq!(point.row(&setting(), "linux", &noted, None).note, "odd; 25 % of the requests found every connection busy");
}

#[test]
fn what_could_not_be_measured_is_a_row_that_says_why() {
    let point = Point::new("64".into(), &[("connections", 64.0)], plan(Pace::Closed), Figure::Requests);
    let row = point.absent(&setting(), "linux-uring", "linux-uring server: io_uring: Operation\nnot permitted");
    assert!(!row.is_measured());
    assert_eq!(row.note, "not measured: linux-uring server: io_uring: Operation not permitted");
    assert_eq!((row.scenario.as_str(), row.unit.as_str(), row.number("connections")), ("conns", "requests/s", Some(64.0)));
}

#[test]
fn a_row_says_how_busy_both_cores_were_and_what_the_path_lost() {
    let path = Path::new(20_000, crate::path::Loss::Random(10_000), None, None);
    let point = Point::new("x".into(), &[], plan(Pace::Closed), Figure::Requests).over(path).with_congestion(Congestion::Bbr);
    let mut one = sample(100_000, 5);
    one.passage = Passage { forwarded: 1000, lost: 10, overflowed: 3 };
    let row = point.row(&setting(), "linux", &series(&[one.clone(), one]), None);
    assert_eq!((row.server_core_percent, row.client_core_percent), (Some(50.0), Some(50.0)));
    assert_eq!((row.lost_on_path, row.overflowed_on_path, row.wire.as_str()), (Some(20), Some(6), "path"));
    assert_eq!((row.number("loss"), row.number("rtt_ms"), row.text("congestion")), (Some(0.01), Some(20.0), Some("bbr")));
    let absent = point.absent(&setting(), "linux", "this kernel has no bbr");
    assert!(!absent.is_measured() && absent.point == row.point && absent.wire == "path");
}

#[test]
fn both_ways_counts_requests_and_streams() {
    let plan = Plan { streams: 1, ..plan(Pace::Closed) };
    let mut one = sample(1_000_000, 1);
    one.outcome.stream_bytes = 64_000_000;
    let row = Point::new("x".into(), &[], plan, Figure::BothWays).row(&setting(), "linux", &series(&[one]), None);
    assert_eq!((row.value, row.unit.as_str()), (1.024, "Gbit/s"));
}

#[test]
fn a_stream_alone_has_a_rate_per_core() {
    let plan = Plan { streams: 1, ..plan(Pace::Closed) };
    let server = Used { processes_ns: 500_000_000, ..Used::default() };
    let stream_bytes = 1000 * u64::from(PIECE);
    let outcome = Outcome { replies_in_all: 1000, stream_bytes, seconds: 1.0, ..Outcome::default() };
    let one = Sample { outcome, server, ..Sample::default() };
    let row = Point::new("x".into(), &[], plan, Figure::Stream).row(&setting(), "linux", &series(&[one]), None);
    assert_eq!((row.value, row.throughput_per_core, row.server_core_percent), (2.097, Some(4.194), Some(50.0)));
}
