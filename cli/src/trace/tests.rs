//! What a trace says of segments, from bytes as they are captured.
use clap::Parser;
use ringway_device::Medium;
use ringway_shm::capture::{Direction, Observed};
use ringway_shm::stats::{InfoRecord, TimerRecord};
use ringway_shm::{Instant, WaitsFor};
use ringway_trace::segment::{ACK, FIN, PSH, RST, SYN};

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

fn arguments(line: &str) -> Result<Arguments, String> {
    let words = ["trace"].into_iter().chain(line.split_whitespace());
    Line::try_parse_from(words).map(|line| line.arguments).map_err(|error| error.to_string())
}

#[test]
fn one_end_or_both_are_named() {
    let ends = |line: &str| arguments(line).map(|arguments| arguments.connections());
    let port = |port| End { ip: None, port };
    assert_eq!(ends(":80"), Ok(Some(Ends { one: port(80), other: None })));
    let one = End { ip: Some([192, 0, 2, 1].into()), port: 443 };
    assert_eq!(ends("192.0.2.1:443 :5000"), Ok(Some(Ends { one, other: Some(port(5000)) })));
    assert!(ends("[2001:db8::1]:80").is_ok());
    assert_eq!(ends("-r file"), Ok(None));
    let wrong = ["", "80", ":x", "host:80", ":1 :2 :3", ":1 -c 0", ":1 --print", ":1 -w a -r b", "-r a -i eth0"];
    for line in wrong {
        assert!(ends(line).is_err(), "{line}");
    }
}

/// A segment between the ports 80, ours, and 4000 of IPv4 without a link header.
fn packet(direction: Direction, flags: u16, sequence: u32, acknowledgment: u32, len: usize) -> Vec<u8> {
    let (local, remote) = (([10, 0, 0, 1], 80_u16), ([10, 0, 0, 2], 4_000_u16));
    let (from, to) = if direction == Direction::Sent { (local, remote) } else { (remote, local) };
    let mut bytes = vec![0x45, 0];
    bytes.extend((40 + len as u16).to_be_bytes());
    bytes.extend([0, 0, 0, 0, 64, 6, 0, 0]);
    bytes.extend([from.0, to.0].concat());
    bytes.extend([from.1.to_be_bytes(), to.1.to_be_bytes()].concat());
    bytes.extend([sequence.to_be_bytes(), acknowledgment.to_be_bytes()].concat());
    bytes.extend((5 << 12 | flags).to_be_bytes());
    bytes.extend([1, 0, 0, 0, 0, 0]);
    bytes.resize(bytes.len() + len, 0);
    bytes
}

/// Prints segments: direction, flags, sequence and acknowledgment number, length, state.
fn lines(segments: &[(Direction, u16, u32, u32, usize, &str)], json: bool) -> String {
    let line = if json { ":80 -j" } else { ":80" };
    let mut printer = Printer::new(&arguments(line).expect("a command line of the test"));
    for (number, (direction, flags, sequence, acknowledgment, len, state)) in segments.iter().enumerate() {
        let bytes = packet(*direction, *flags, *sequence, *acknowledgment, *len);
        let comment = (!state.is_empty()).then_some(*state);
        let nanos = 5_000 + number as u64 * 1_000_000;
        let record = Record { direction: Some(*direction), comment, ..Record::whole(nanos, &bytes) };
        let segment = Captured::of_record(&record, Medium::Ip).expect("a segment");
        assert!(printer.wants(&segment));
        printer.print(&segment);
    }
    printer.text
}

const IN: Direction = Direction::Received;
const OUT: Direction = Direction::Sent;

/// Sequence numbers count from each end's first, also past 2^32; what a segment brings is said, and what has changed.
#[test]
fn a_connection_is_told() {
    let iss = u32::MAX;
    let text = lines(
        &[
            (IN, SYN, 1_000, 0, 0, "state:SYN-RECV waits:handshake"),
            (OUT, SYN | ACK, iss, 1_001, 0, "state:SYN-RECV waits:handshake"),
            (IN, ACK, 1_001, 0, 0, "state:ESTAB cwnd:10 waits:application"),
            (IN, ACK | PSH, 1_001, 0, 5, ""),
            (IN, ACK | PSH, 1_009, 0, 5, ""),
            (OUT, ACK, 0, 1_006, 0, ""),
            (OUT, ACK, 0, 1_006, 0, ""),
            (OUT, ACK | PSH, 0, 1_006, 100, "state:ESTAB ca:open cwnd:10 timer:on,204ms waits:ack"),
            (IN, ACK, 1_014, 100, 0, "state:ESTAB ca:open cwnd:11 timer:off waits:application"),
            (OUT, ACK | FIN, 100, 1_006, 0, ""),
            (IN, RST, 1_006, 0, 0, ""),
        ],
        false,
    );
    let expected = "\
connection 1: 10.0.0.1:80 <> 10.0.0.2:4000
    0.000000 < [S] seq 0 win 256                                            opens
               state:SYN-RECV waits:handshake
    0.001000 > [S.] seq 0 ack 1 win 256                                     accepts
    0.002000 < [.] ack 1 win 256                                            acknowledges
               state:ESTAB cwnd:10 waits:application
    0.003000 < [P.] seq 1:6 (5) ack 1 win 256                               new data
    0.004000 < [P.] seq 9:14 (5) ack 1 win 256                              new data after a gap of 3
    0.005000 > [.] ack 6 win 256                                            acknowledges 5
    0.006000 > [.] ack 6 win 256                                            duplicate ack
    0.007000 > [P.] seq 1:101 (100) ack 6 win 256                           new data
               ca:open timer:on,204ms waits:ack
    0.008000 < [.] ack 101 win 256                                          acknowledges 100
               cwnd:11 timer:off waits:application
    0.009000 > [F.] seq 101 ack 6 win 256                                   closes
    0.010000 < [R] win 256                                                  resets
";
    assert_eq!(text, expected);
}

#[test]
fn what_is_sent_again_has_its_reason() {
    let again = |state: &'static str| {
        let text = lines(&[(OUT, ACK, 1, 1, 100, ""), (OUT, ACK, 1, 1, 100, state)], false);
        text.lines().nth(2).and_then(|line| line.split("win 256").nth(1)).map(|why| why.trim().to_owned())
    };
    assert_eq!(again("state:ESTAB ca:loss").as_deref(), Some("again, after a timeout"));
    assert_eq!(again("state:ESTAB ca:recovery").as_deref(), Some("again, found lost"));
    assert_eq!(again("state:ESTAB ca:open tlp:sent").as_deref(), Some("again, tail loss probe"));
    assert_eq!(again("").as_deref(), Some("again"));
    let probe = |state: &'static str| lines(&[(OUT, ACK, 1, 1, 1, ""), (OUT, ACK, 1, 1, 0, state)], false);
    assert!(probe("state:ESTAB waits:window").contains("window probe"));
    assert!(probe("state:ESTAB waits:application").contains("keepalive"));
    let opening = lines(&[(OUT, SYN, 7, 0, 0, ""), (OUT, SYN, 7, 0, 0, "")], false);
    assert!(opening.contains("SYN again, after a timeout"), "{opening}");
}

#[test]
fn json_has_numbers_where_the_state_has() {
    let text = lines(&[(OUT, ACK, 1, 1, 100, "state:ESTAB cwnd:10 rtt:0.2/0.1")], true);
    let object: serde_json::Value = serde_json::from_str(text.trim_end()).expect("JSON");
    assert_eq!((&object["direction"], &object["len"], &object["why"]), (&"sent".into(), &100.into(), &"new data".into()));
    assert_eq!(object["state"], serde_json::json!({ "state": "ESTAB", "cwnd": 10, "rtt": "0.2/0.1" }));
    assert_eq!((&object["local"], &object["remote"]), (&"10.0.0.1:80".into(), &"10.0.0.2:4000".into()));
}

#[test]
fn the_state_is_in_words_of_ss() {
    let info = InfoRecord {
        state: 1,
        mss: 1_448,
        congestion_state: 3,
        cwnd_segments: 12,
        ssthresh_segments: u64::MAX,
        rtt_us: 211,
        rtt_variance_us: 50,
        rto_us: 204_000,
        ..InfoRecord::default()
    };
    let timer = Some(TimerRecord { kind: TimerRecord::RETRANSMIT, retries: 0, due: Instant::from_millis(205) });
    let mut observed = Observed { info, timer, waits: WaitsFor::CongestionWindow, probing: true };
    let now = Instant::from_millis(1);
    assert_eq!(
        state::text(&observed, now),
        "state:ESTAB ca:recovery cwnd:12 ssthresh:- unacked:0 sacked:0 lost:0 retrans:0/0 notsent:0 snd_wnd:0 rcv_wnd:0 \
         rtt:0.211/0.05 rto:204 backoff:0 timer:on,204ms tlp:sent waits:cwnd"
    );
    let before = state::text(&observed, now);
    assert_eq!(state::changes(&before, &state::text(&observed, Instant::from_millis(2))), "", "the timer's time alone");
    observed.probing = false;
    observed.waits = WaitsFor::Acknowledgment;
    assert_eq!(state::changes(&before, &state::text(&observed, now)), "waits:ack tlp:-");
    observed.info = InfoRecord { state: 6, ..InfoRecord::default() };
    observed.timer = None;
    let record = state::text(&observed, now);
    assert_eq!(record, "state:TIME-WAIT backoff:0 timer:off waits:ack");
    assert_eq!(state::changes(&before, &record), "state:TIME-WAIT timer:off waits:ack");
}

/// What is written is printed again from the file.
#[test]
fn a_file_says_the_same() {
    let state = "state:ESTAB ca:open cwnd:10 waits:ack";
    let bytes = packet(OUT, ACK, 1, 1, 100);
    let record = Record {
        direction: Some(OUT),
        drop_reason: Some("RingwayDropNoSocket"),
        comment: Some(state),
        ..Record::whole(7, &bytes)
    };
    let mut file = Vec::new();
    let interface = ringway_device::pcap::Interface { name: "tun", medium: Medium::Ip };
    Writer::new(&mut file, &[interface], 65_600).and_then(|mut writer| writer.write(&record)).expect("memory does not fail");
    let mut seen = 0;
    let ending = ringway_trace::read(&file[..], &mut |packet| {
        let segment = Captured::of_file(packet).expect("a segment");
        assert_eq!((segment.direction, segment.dropped, segment.state), (Some(OUT), Some("RingwayDropNoSocket"), Some(state)));
        seen += 1;
    });
    assert_eq!((ending.map(|ending| ending.truncated), seen), (Ok(false), 1));
}

/// Connections that the kernel serves are said once each, those of other ports never.
#[test]
fn what_the_kernel_serves_is_said() {
    use ringway_channel::{KernelPath, KernelReason};
    let ends = arguments("192.0.2.1:80").expect("a command line of the test").connections().expect("an end");
    let record = |state, remote, count| ringway_shm::stats::SocketRecord {
        kernel: Some(KernelPath { reason: KernelReason::Bulk, count }),
        ..crate::ss::tests::socket(state, "192.0.2.1:80", remote)
    };
    let mut absent = Absent::default();
    let line = absent.note(&record(1, "198.51.100.7:5000", 1), ends).expect("it is new");
    assert!(line.starts_with("the kernel serves 192.0.2.1:80 <> 198.51.100.7:5000, reason bulk"), "{line}");
    assert_eq!(absent.note(&record(1, "198.51.100.7:5000", 1), ends), None);
    assert!(absent.note(&record(1, "198.51.100.7:5000", 2), ends).is_some());
    let listener = absent.note(&record(10, "0.0.0.0:0", 1), ends).expect("it is new");
    assert!(listener.contains("connections to 192.0.2.1:80"), "{listener}");
    let other = arguments(":81").expect("a command line of the test").connections().expect("an end");
    assert_eq!(absent.note(&record(1, "198.51.100.7:5001", 1), other), None);
    assert_eq!(absent.note(&crate::ss::tests::socket(1, "192.0.2.1:80", "198.51.100.7:5002"), ends), None);
}

/// A file of another program has no directions: the first sender is on the left, and both ends are still told apart.
#[test]
fn a_file_without_directions_is_told_too() {
    let mut printer = Printer::new(&arguments("-r file").expect("a command line of the test"));
    for (direction, sequence, acknowledgment, len) in [(IN, 1_000, 500, 10), (OUT, 500, 1_010, 0), (IN, 1_000, 500, 10)] {
        let bytes = packet(direction, ACK, sequence, acknowledgment, len);
        let found = ringway_trace::Packet::bare(1, 0, 101, (&bytes, bytes.len() as u32));
        printer.print(&Captured::of_file(&found).expect("a segment"));
    }
    let lines: Vec<&str> = printer.text.lines().collect();
    assert_eq!(lines[0], "connection 1: 10.0.0.2:4000 <> 10.0.0.1:80");
    assert!(lines[1].contains("4000 > [.] seq 0:10 (10)") && lines[1].ends_with("new data"), "{}", printer.text);
    assert!(lines[2].contains("80 > [.] ack 10"), "{}", printer.text);
    assert!(lines[3].contains("4000 > ") && lines[3].ends_with("again") && lines.len() == 4, "{}", printer.text);
}
