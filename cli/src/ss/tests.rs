use clap::Parser;
use ringway_channel::{KernelPath, KernelReason};
use ringway_shm::stats::{InfoRecord, TimerRecord};

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

fn arguments(line: &str) -> Arguments {
    Line::parse_from(std::iter::once("ss").chain(line.split_whitespace())).arguments
}

pub(crate) fn socket(state: u8, local: &str, remote: &str) -> SocketRecord {
    let endpoint = |text: &str| {
        let address: std::net::SocketAddr = text.parse().expect("an address of the test");
        Endpoint { ip: address.ip(), port: address.port() }
    };
    SocketRecord {
        state,
        datagrams: false,
        local: endpoint(local),
        remote: endpoint(remote),
        receive_queue: 0,
        send_queue: 511,
        interface: 0,
        pid: 42,
        uid: 0,
        program: "nginx".to_string(),
        region: 0,
        slot: 7,
        congestion_control: "cubic".to_string(),
        info: InfoRecord {
            rto_us: 204_000,
            rtt_us: 500,
            rtt_variance_us: 250,
            mss: 1448,
            cwnd_segments: 10,
            ssthresh_segments: u64::MAX,
            scale_send: 7,
            scale_receive: 8,
            options: 7,
            ..InfoRecord::default()
        },
        timer: None,
        memory: [1, 2, 3, 4],
        kernel: None,
        holders: [0; 8],
        descriptor: None,
    }
}

const NOW: Instant = Instant::from_millis(1_000_000);

pub(super) fn shown_of(socket: SocketRecord) -> Shown<'static> {
    Shown { socket, holders: Vec::new(), service: "default", interface: "eth0".to_string(), now: NOW }
}

fn printed(line: &str, sockets: Vec<SocketRecord>) -> String {
    let arguments = arguments(line);
    let filter = Filter::new(&arguments).expect("a filter of the test");
    let shown = sockets.into_iter().filter(|socket| filter.wants(socket));
    let mut shown: Vec<Shown<'_>> = shown.map(shown_of).collect();
    holders::find_in(&mut shown, |_| None);
    let mut out = Vec::new();
    table::Table::new().print(&mut out, &arguments, &shown, &Names::new(true)).expect("a vector takes all");
    String::from_utf8(out).expect("text")
}

fn both() -> Vec<SocketRecord> {
    vec![socket(LISTEN, "0.0.0.0:80", "0.0.0.0:0"), socket(1, "10.0.0.1:80", "10.0.0.2:40000")]
}

#[test]
fn sockets_without_values_of_tcp_show_none() {
    for state in [3, 6] {
        let small = SocketRecord { info: InfoRecord::default(), ..socket(state, "10.0.0.1:80", "10.0.0.2:40000") };
        let text = printed("-tainO state all", vec![small.clone()]);
        let rest = text.lines().nth(1).and_then(|line| line.split(":40000").nth(1)).expect("a line");
        assert_eq!(rest.trim(), "stack:ringway if:eth0");
        assert!(detail::json(&shown_of(small)).get("tcp").is_none());
    }
}

#[test]
fn all_processes_that_have_a_socket_are_named() {
    let shared = SocketRecord { holders: [7, 0, 42, 0, 0, 0, 0, 9], ..socket(LISTEN, "0.0.0.0:80", "0.0.0.0:0") };
    let text = printed("-tanp", vec![shared]);
    assert!(text.contains(r#"users:(("nginx",pid=7),("nginx",pid=42),("nginx",pid=9))"#), "{text}");
}

/// The lines equal those of ss for the same sockets.
#[test]
fn the_table_is_that_of_ss() {
    let expected = "\
State  Recv-Q Send-Q Local Address:Port Peer Address:Port  Process
LISTEN 0      511          0.0.0.0:80        0.0.0.0:*     users:((\"nginx\",pid=42))
ESTAB  0      511         10.0.0.1:80       10.0.0.2:40000 users:((\"nginx\",pid=42))
";
    assert_eq!(printed("-tanp", both()), expected);
}

/// IPv6 addresses are in brackets; a listener of both families has a star.
#[test]
fn ipv6_addresses_are_written_as_ss_writes_them() {
    let sockets = || {
        vec![
            socket(LISTEN, "[::]:80", "0.0.0.0:0"),
            socket(LISTEN, "[::]:81", "[::]:0"),
            socket(1, "[fd00::1]:80", "[fd00::2]:40000"),
        ]
    };
    let text = printed("-Htan", sockets());
    let ends: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().skip(3).collect()).collect();
    assert_eq!(ends, [["*:80", "*:*"], ["[::]:81", "[::]:*"], ["[fd00::1]:80", "[fd00::2]:40000"]]);
    for (line, count) in [("-Htan6", 3), ("-Htan4", 0), ("-Htan dst [fd00::2]:40000", 1), ("-Htan src fd00::1", 1)] {
        assert_eq!(printed(line, sockets()).lines().count(), count, "{line}");
    }
}

/// `-l` shows listeners, no flag shows connections, `-a` shows both; `-H` leaves out the header.
#[test]
fn flags_choose_sockets_as_in_ss() {
    for (line, states) in [("-Htln", &["LISTEN"][..]), ("-Htn", &["ESTAB"]), ("-Htan", &["LISTEN", "ESTAB"])] {
        let text = printed(line, both());
        let found: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(found, states, "{line}");
    }
}

/// States, ports and addresses filter in ss's syntax; unknown words are errors.
#[test]
fn filters_are_those_of_ss() {
    for (line, count) in [
        ("-Htn state listening", 1),
        ("-Htn state all sport = :80", 2),
        ("-Htn dport = :40000", 1),
        ("-Htn dport :40001", 0),
        ("-Htan dst 10.0.0.2", 1),
        ("-Htan src 10.0.0.1:81", 0),
        ("-Htan6", 0),
        ("-Htan ( sport = :80 or sport = :81 ) and dst 10.0.0.2", 1),
        ("-Htan (sport=:80|sport=:81)&dst=10.0.0.0/8", 1),
        ("-Htan not dport = :40000", 1),
        ("-Htan ! ( dport :40000 or sport :80 )", 0),
        ("-Htan dport >= :40000 dport < :40001", 1),
        ("-Htan dport gt :40000", 0),
        ("-Htan dport = :39000-40000", 1),
        ("-Htan dst != 10.0.0.2:40000", 1),
        ("-Htan dst [fe80::]/10", 0),
        ("-Htan dst [::1]:40000", 0),
        ("-Htan src :80", 2),
        ("-Htan exclude listening", 1),
        ("-Htan state big exclude established", 1),
    ] {
        assert_eq!(printed(line, both()).lines().count(), count, "{line}");
    }
    let deep = format!("-t {} sport :1", "( ".repeat(100_000));
    for wrong in [
        "-t state nowhere",
        "-t state",
        "-t sport",
        "-t sport = :99999",
        "-t sport >= :1-2",
        "-t ( sport :1",
        "-t sport :1 )",
        "-t and",
        "-t not",
        "-t src < 10.0.0.1",
        "-t src 10.0.0.0/33",
        "-t src [::1",
        "-t src [::1]x",
        "-t src [::1]:x",
        "-t sport :1 or",
        "-t nonsense",
        "-t sport = :é",
        &deep,
    ] {
        assert!(Filter::new(&arguments(wrong)).is_err(), "{wrong:.60}");
    }
}

/// `-i` and `-m` use ss's tokens.
#[test]
fn details_use_the_tokens_of_ss() {
    let text = printed("-Htnim", vec![socket(1, "10.0.0.1:80", "10.0.0.2:4")]);
    let details = text.lines().nth(1).expect("details stand on a line of their own");
    let expected = "\t skmem:(r1,rb2,t3,tb4,f0,w3,o0,bl0,d0) ts sack cubic wscale:7,8 rto:204 rtt:0.5/0.25 mss:1448 pmtu:0 rcvmss:0 advmss:0 \
                    cwnd:10 send 231680000bps stack:ringway if:eth0";
    assert_eq!(details, expected);
    assert_eq!(printed("-HtniO", vec![socket(1, "10.0.0.1:80", "10.0.0.2:4")]).lines().count(), 1);
}

/// Totals include the sockets that are counted but not listed.
#[test]
fn totals_count_what_is_not_listed() {
    let mut orphan = socket(4, "10.0.0.1:80", "10.0.0.2:5");
    orphan.pid = 0;
    let mut waiting = socket(6, "10.0.0.1:80", "10.0.0.2:6");
    waiting.pid = 0;
    let all = both().into_iter().chain([orphan, waiting]);
    let shown: Vec<Shown<'_>> = all.map(|socket| Shown { interface: "-".to_string(), ..shown_of(socket) }).collect();
    let mut out = Vec::new();
    Totals::of(&shown, &Unlisted { time_wait: 2_000, others: 30 }).print(&mut out).expect("a vector takes all");
    let text = String::from_utf8(out).expect("text");
    assert_eq!(text, "TCP:   2034 (estab 1, listening 1, orphaned 31, timewait 2001)\nUDP:   0\n");
}

/// Times are milliseconds without trailing zeros.
#[test]
fn times_are_short() {
    assert_eq!([0, 52, 500, 204_000, 1_000_500].map(detail::milliseconds), ["0", "0.052", "0.5", "204", "1000.5"]);
}

/// `-o` shows the running timer, the time left and its expirations, in iproute2's format.
#[test]
fn timers_are_those_of_ss() {
    let with = |kind: u8, retries: u8, left_ms: u64| {
        let due = Instant::from_millis(NOW.as_millis() + left_ms);
        let mut socket = socket(1, "10.0.0.1:80", "[fd00::2]:40000");
        socket.timer = Some(TimerRecord { kind, retries, due });
        printed("-Htano", vec![socket]).trim_end().rsplit(' ').next().expect("a word").to_string()
    };
    assert_eq!(with(TimerRecord::RETRANSMIT, 0, 204), "timer:(on,204ms,0)");
    assert_eq!(with(TimerRecord::RETRANSMIT, 3, 1_632), "timer:(on,1.632ms,3)");
    assert_eq!(with(TimerRecord::PERSIST, 5, 26_500), "timer:(persist,26sec,5)");
    assert_eq!(with(TimerRecord::KEEPALIVE, 0, 7_199_000), "timer:(keepalive,119min,0)");
    assert_eq!(with(TimerRecord::KEEPALIVE, 0, 75_000), "timer:(keepalive,1min15sec,0)");
    assert_eq!(with(TimerRecord::TIME_WAIT, 0, 60_000), "timer:(timewait,1min,0)");
    assert_eq!(with(TimerRecord::RETRANSMIT, 1, 0), "timer:(on,,1)");
    assert!(!printed("-Htano", both()).contains("timer"), "no timer runs");
    let mut socket = socket(1, "10.0.0.1:80", "10.0.0.2:40000");
    socket.timer = Some(TimerRecord { kind: TimerRecord::RETRANSMIT, retries: 0, due: NOW });
    assert!(!printed("-Htan", vec![socket.clone()]).contains("timer"));
    socket.timer = Some(TimerRecord { kind: 99, retries: 0, due: NOW });
    assert!(printed("-Htano", vec![socket]).contains("timer:(unknown,,0)"));
}

/// JSON has the timer as a name and numbers, with any flags; a socket without a timer has none.
#[test]
fn json_has_the_timer() {
    let json_of = |timer| {
        let socket = SocketRecord { timer, ..socket(1, "10.0.0.1:80", "10.0.0.2:40000") };
        detail::json(&shown_of(socket))
    };
    let due = Instant::from_millis(NOW.as_millis() + 204);
    let timer = &json_of(Some(TimerRecord { kind: TimerRecord::RETRANSMIT, retries: 2, due }))["timer"];
    assert_eq!(timer, &json!({ "name": "on", "left_ms": 204, "retries": 2 }));
    assert!(json_of(None).get("timer").is_none());
}

/// A row of the kernel's says so and why, and is no socket of Ringway's in totals. A count that was scribbled over is still a number.
#[test]
fn a_socket_of_the_kernels_names_the_reason() {
    let kernel = |state, reason, count| SocketRecord {
        kernel: Some(KernelPath { reason, count }),
        ..socket(state, "0.0.0.0:80", "0.0.0.0:0")
    };
    let rows = || vec![kernel(LISTEN, KernelReason::Firewall, 2), kernel(7, KernelReason::CgroupProgram, u32::MAX)];
    let text = printed("-Htanpi", rows());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("users:((\"nginx\",pid=42)) path:kernel reason:firewall count:2"), "{text}");
    assert_eq!(lines[1].trim(), "stack:kernel if:eth0");
    assert!(lines[2].ends_with("path:kernel reason:cgroup-bpf count:4294967295"), "{text}");
    assert_eq!(lines[3].trim(), "stack:kernel if:eth0", "no values of TCP");
    let shown: Vec<Shown<'_>> =
        rows().into_iter().map(|socket| Shown { interface: "-".to_string(), ..shown_of(socket) }).collect();
    let totals = Totals::of(&shown, &Unlisted::default());
    assert_eq!((totals.tcp, totals.listening, totals.udp), (0, 0, 0));
    assert_eq!(detail::json(&shown[0])["kernel"], json!({ "reason": "firewall", "count": 2 }));
}

/// An interface that rules leave to the kernel has a row like its sockets.
#[test]
fn an_interface_of_the_kernels_names_the_reason() {
    let kept = ringway_service::Kept {
        interface: "eth0".to_string(),
        word: "interface-bpf".to_string(),
        why: "has tcx program 7".to_string(),
    };
    assert_eq!(detail::kept_row(&kept), "interface:eth0 path:kernel reason:interface-bpf count:1 why:\"has tcx program 7\"");
    let json = json!({ "name": "eth0", "kernel": { "reason": "interface-bpf", "count": 1, "why": "has tcx program 7" } });
    assert_eq!(detail::kept_json(&kept), json);
}
