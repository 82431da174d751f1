use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ringway_shm::stats::{InterfaceRecord, SocketRecord};

use super::cell::Cell;
use super::model::{Action, Overlay, View};
use super::sample::WorkerSample;
use super::sheet::Order;
use super::*;
use crate::ss::tests::socket;

const MIB: u64 = 1 << 20;

/// Two seconds apart: 16,000 packets, 2 MiB in and 8 MiB out at one of two connections, five drops.
fn two() -> [Sample; 2] {
    let first = Sample {
        at: std::time::Instant::now(),
        time: std::time::UNIX_EPOCH + Duration::from_secs(3_723),
        workers: vec![worker(&[("IpInReceives", 100), ("RingwayTurns", 50), ("RingwayDropNoSocket", 7)], [10, 20])],
        sockets: std::collections::HashMap::new(),
    };
    let mut before = first.clone();
    connections(0, 0).into_iter().for_each(|socket| before.add("main", 0, socket));
    let counters =
        [("IpInReceives", 16_100), ("RingwayTurns", 2_050), ("RingwayDropNoSocket", 12), ("RingwayBusyNanos", 500_000_000)];
    let mut now = Sample { workers: vec![worker(&counters, [10 + 2 * MIB, 20 + 8 * MIB])], ..first };
    now.at += Duration::from_secs(2);
    connections(2 * MIB, 8 * MIB).into_iter().for_each(|socket| now.add("main", 0, socket));
    [before, now]
}

fn worker(counters: &[(&str, u64)], [rx_bytes, tx_bytes]: [u64; 2]) -> WorkerSample {
    WorkerSample {
        service: "main".to_owned(),
        worker: 0,
        counters: counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        interfaces: vec![InterfaceRecord { name: "eth0".to_owned(), rx_bytes, tx_bytes, ..InterfaceRecord::default() }],
    }
}

/// A listener, an idle connection, and one that has received and sent so much.
fn connections(received: u64, sent: u64) -> Vec<SocketRecord> {
    let mut busy = SocketRecord { program: "redis".to_owned(), pid: 77, slot: 9, ..socket(1, "10.0.0.1:6379", "10.0.0.9:50000") };
    (busy.info.received_bytes, busy.info.sent_bytes, busy.info.rtt_us) = (received, sent, 1_250);
    let idle = SocketRecord { slot: 8, ..socket(1, "[2001:db8::1]:80", "[2001:db8:0:1:2:3:4:5]:40000") };
    vec![socket(10, "0.0.0.0:80", "0.0.0.0:0"), idle, busy]
}

fn model() -> Model {
    let mut model = Model::new(&[], Duration::from_secs(2)).expect("no words are a filter");
    two().into_iter().for_each(|sample| model.add(sample));
    model
}

fn press(model: &mut Model, keys: &str) -> Action {
    let code = |letter: char| match letter {
        '\n' => KeyCode::Enter,
        '\x1b' => KeyCode::Esc,
        'v' => KeyCode::Down,
        letter => KeyCode::Char(letter),
    };
    keys.chars().map(|letter| model.key(KeyEvent::new(code(letter), KeyModifiers::NONE))).last().expect("keys")
}

fn drawn(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
    terminal.draw(|frame| screen::draw(frame, model)).expect("a terminal in memory takes all");
    let lines = terminal.backend().buffer().content().chunks(usize::from(width));
    let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
    lines.map(|cells| line(cells).trim_end().to_owned() + "\n").collect()
}

#[test]
fn workers_and_interfaces_fit_on_80_columns() {
    let screen = drawn(&model(), 80, 24);
    let lines: Vec<&str> = screen.lines().collect();
    assert_eq!(lines[0], "ringway top  01:02:03 UTC  1 service, 1 worker, 2 programs, 2 connections");
    assert_eq!(lines[1], "busy 25%  drop 0/s  retr 0/s  in 8.39M bit/s 0 pkt/s  out 33.6M bit/s 0 pkt/s");
    assert_eq!(lines[3], "WORKER BUSY IN pkt/s OUT pkt/s RETR/s DROP/s BATCH WAKE/s CALL/s SOCKETS GROUPS");
    assert_eq!(lines[4], "main/0  25%       8k         0      0      0     8      0      0       0      0");
    assert_eq!(lines[6], "INTERFACE IN bit/s IN pkt/s DROP/s OUT bit/s OUT pkt/s DROP/s SERVICE");
    assert_eq!(lines[7], "eth0         8.39M        0      0     33.6M         0      0 main");
}

#[test]
fn connections_stand_by_what_they_send_and_long_addresses_are_cut() {
    let mut model = model();
    press(&mut model, "3");
    let wide = drawn(&model, 200, 24);
    let rows: Vec<&str> = wide.lines().skip(4).take(3).collect();
    assert!(rows[0].starts_with("redis   10.0.0.1:6379"), "{wide}");
    assert!(rows[0].contains("8.39M 33.6M 1.25ms"), "{wide}");
    assert!(rows[1].contains("LISTEN") || rows[2].contains("LISTEN"), "{wide}");
    let narrow = drawn(&model, 60, 24);
    assert!(narrow.lines().nth(4).expect("a row").starts_with("redis   10.0.0.1:6379"), "{narrow}");
}

/// A datagram socket has rates, and no values of TCP.
#[test]
fn datagram_sockets_have_rates() {
    let resolver = |received: u64| {
        let mut socket = SocketRecord { datagrams: true, program: "named".to_owned(), ..socket(7, "10.0.0.1:53", "0.0.0.0:0") };
        (socket.info.received_bytes, socket.info.received_segments) = (received, received / 500);
        socket
    };
    let mut model = Model::new(&[], Duration::from_secs(2)).expect("no words are a filter");
    for (mut sample, received) in two().into_iter().zip([1_000, 251_000]) {
        sample.sockets.clear();
        sample.add("main", 0, resolver(received));
        model.add(sample);
    }
    press(&mut model, "3");
    let wide = drawn(&model, 200, 24);
    let row: Vec<&str> = wide.lines().nth(4).expect("a row").split_whitespace().collect();
    assert_eq!(row[..6], ["named", "10.0.0.1:53", "0.0.0.0:*", "UNCONN", "1M", "0"], "{wide}");
    let programs = model.rates().expect("two samples").programs;
    assert!(programs.json().to_string().contains("1000000"), "{}", programs.json());
}

#[test]
fn a_table_shows_as_many_columns_as_fit_and_any_size_is_drawn() {
    let mut model = model();
    for view in ["1", "2", "3", "4", "3\n", "?"] {
        press(&mut model, "\x1b");
        press(&mut model, view);
        for (width, height) in [(80, 24), (20, 5), (1, 1), (300, 100)] {
            drawn(&model, width, height);
        }
    }
}

#[test]
fn a_program_leads_to_its_connections_and_one_to_its_history() {
    let mut model = model();
    press(&mut model, "2");
    // By what they send: redis is first.
    press(&mut model, "\n");
    assert_eq!((model.view, model.program.as_deref()), (View::Connections, Some("redis")));
    assert_eq!(model.rates().expect("two samples").connections.rows.len(), 1);
    press(&mut model, "\n");
    let screen = drawn(&model, 80, 24);
    assert!(
        screen.contains("ESTAB 10.0.0.1:6379 10.0.0.9:50000") && screen.contains("redis (pid 77, uid 0) of service main"),
        "{screen}"
    );
    assert!(screen.contains("out bit/s 33.6M") && screen.contains("most 33.6M") && screen.contains("rtt 1.25ms"), "{screen}");
    assert!(screen.contains("rto:204") && screen.contains("█"), "{screen}");
    // When it ends the screen says so, and Esc goes back twice.
    model.add(Sample { sockets: std::collections::HashMap::new(), ..two()[1].clone() });
    assert!(drawn(&model, 80, 24).contains("This socket has gone"));
    press(&mut model, "\x1b\x1b");
    assert_eq!((&model.overlay, &model.program), (&Overlay::None, &None));
}

#[test]
fn the_selection_stays_with_its_row_and_the_order_follows_keys() {
    let mut model = model();
    press(&mut model, "3vv");
    let row_of = |model: &Model| {
        let rates = model.rates().expect("two samples");
        let row = &rates.connections.rows[model.selected(&rates.connections)];
        (row.cells[0].text(), row.cells[1].text())
    };
    let chosen = row_of(&model);
    press(&mut model, "r");
    assert_eq!(row_of(&model), chosen);
    press(&mut model, "sS");
    assert_eq!(model.order(), Order { column: 5, descending: false });
    for _ in 0..14 {
        press(&mut model, "s");
    }
    assert_eq!(model.order().column, 5, "the columns go round");
}

#[test]
fn a_filter_is_typed_and_a_wrong_one_changes_nothing() {
    let mut model = model();
    press(&mut model, "/sport = :6379\n");
    assert_eq!((model.view, model.rates().expect("two samples").connections.rows.len()), (View::Connections, 1));
    // The text stands there again.
    press(&mut model, "/ or banana\n");
    assert!(model.message.is_some());
    assert_eq!(model.rates().expect("two samples").connections.rows.len(), 1);
    press(&mut model, "\x1b");
    assert_eq!(model.rates().expect("two samples").connections.rows.len(), 3);
    assert!(Model::new(&["banana".to_owned()], Duration::from_secs(1)).is_err());
}

#[test]
fn drops_tell_their_meaning_and_what_is_no_trouble_is_not_there() {
    let mut model = model();
    press(&mut model, "4");
    let screen = drawn(&model, 100, 24);
    assert!(screen.contains("RingwayDropNoSocket 2.50    12 "), "{screen}");
    assert!(!screen.contains("IpInReceives"), "{screen}");
}

/// A service that comes, goes, or starts again under its name gives no rates from nothing.
#[test]
fn counters_that_begin_again_give_no_rate() {
    let [before, now] = two();
    let mut model = Model::new(&[], Duration::from_secs(2)).expect("no words are a filter");
    for sample in [now.clone(), before, Sample { workers: Vec::new(), ..now }] {
        model.add(sample);
        let total = model.rates().expect("samples").total;
        assert_eq!((total.busy, total.bits), (0.0, [0.0, 0.0]));
    }
    assert_eq!(model.message.as_deref(), Some("no service is running in this network namespace"));
    model.nothing = crate::services::Choice { net: Some("red".into()), ..Default::default() }.nothing().to_string();
    model.add(model.latest().expect("three").clone());
    assert_eq!(model.message.as_deref(), Some("no service is running in network namespace red"));
}

#[test]
fn numbers_have_three_digits_and_one_unit() {
    let number = |number: f64| Cell::Number(number).text();
    assert_eq!(
        [0.0, 0.5, 7.0, 12.34, 999.4, 999.6, 1_234_567.0].map(number),
        ["0", "0.50", "7", "12.3", "999", "1.00k", "1.23M"]
    );
    assert_eq!([1, 1_023, 1_024, 1 << 30].map(|bytes| Cell::Bytes(bytes).text()), ["1", "1023", "1Ki", "1Gi"]);
    assert_eq!([999, 1_000, 65_400, 2_000_000].map(|us| Cell::Time(us).text()), ["999µs", "1ms", "65.4ms", "2s"]);
}

#[test]
fn text_and_json_hold_the_same_rows() {
    let [before, now] = two();
    let rates = Rates::between(&before, &now, Model::new(&[], Duration::from_secs(2)).expect("no words").filter());
    let json: serde_json::Value = serde_json::from_str(&rates.json()).expect("JSON");
    assert_eq!((json["seconds"].as_f64(), json["workers"][0]["busy"].as_f64()), (Some(2.0), Some(0.25)));
    let redis = json["connections"].as_array().expect("rows").iter().find(|row| row["program"] == "redis").expect("its row");
    assert_eq!((redis["out_bits_per_s"].as_f64(), redis["rtt_us"].as_u64()), (Some(33_554_432.0), Some(1_250)));
    let text = rates.text();
    for word in ["WORKER", "INTERFACE", "PROGRAM", "10.0.0.9:50000", "RingwayDropNoSocket"] {
        assert!(text.contains(word), "{word} is missing in {text}");
    }
}
