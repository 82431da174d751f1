use std::io::{self, Cursor, Read, Write};

use ringway_channel::{KernelPath, KernelReason};
use ringway_shm::stats::SocketRecord;

use super::Place;
use super::families::Table;
use super::http::answer;

/// What a client sends, and what it gets.
struct Client(Cursor<Vec<u8>>, Vec<u8>);

impl Read for Client {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(1000);
        self.0.read(&mut buffer[..most])
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn asked(request: &str) -> String {
    let mut client = Client(Cursor::new(request.as_bytes().to_vec()), Vec::new());
    answer(&mut client, || Ok("page\n".to_owned())).expect("the client is in memory");
    String::from_utf8(client.1).expect("plain text")
}

#[test]
fn only_the_page_is_served() {
    let page = asked("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(
        page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text") && page.ends_with("\r\n\r\npage\n"),
        "{page}"
    );
    for (request, status) in [
        ("GET /metrics?name=a HTTP/1.0\r\n\r\n", "200"),
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("GET /metrics\r\n\r\n", "400"),
        ("GET /metrics SPDY/3\r\n\r\n", "400"),
        ("", "400"),
        ("GET /metrics HTTP/1.1\r\n", "400"),
        (&"a".repeat(100_000), "4"),
    ] {
        assert!(asked(request).starts_with(&format!("HTTP/1.1 {status}")), "{request:.40}");
    }
}

#[test]
fn places_are_addresses_and_paths() {
    assert_eq!("127.0.0.1:9481".parse(), Ok(Place::Tcp(([127, 0, 0, 1], 9481).into())));
    assert_eq!("./x".parse(), Ok(Place::Unix("./x".into())));
    assert!("9481".parse::<Place>().is_err());
}

/// The program's name is the program's word.
#[test]
fn sockets_are_summed_by_program_and_names_are_escaped() {
    let socket = |program: &str, kernel| SocketRecord {
        program: program.to_owned(),
        receive_queue: 5,
        kernel,
        ..crate::ss::tests::socket(1, "10.0.0.1:80", "10.0.0.2:4000")
    };
    let kernel = Some(KernelPath { reason: KernelReason::Firewall, count: 1 });
    let mut table = Table::default();
    let all = [socket("a", None), socket("a", None), socket("a", kernel), socket("\"\n\\", None)];
    table.sockets(all.into_iter().map(|socket| ("s".to_owned(), socket)));
    let page = table.into_page();
    let line = "ringway_sockets{service=\"s\",program=\"a\",protocol=\"tcp\",state=\"ESTAB\",path=\"stack\"} 2.0\n";
    assert!(page.contains(line), "{page}");
    assert!(page.contains("path=\"firewall\"} 1.0\n") && page.contains("program=\"\\\"\\n\\\\\""), "{page}");
    assert!(page.contains(
        "ringway_receive_queue_bytes{service=\"s\",program=\"a\",protocol=\"tcp\",state=\"ESTAB\",path=\"stack\"} 10.0\n"
    ));
    assert!(page.contains("# TYPE ringway_sockets gauge\n# HELP") || page.contains("# HELP ringway_sockets"), "{page}");
    assert!(page.ends_with("# EOF\n"));
}

/// Classes become buckets that count all up to their bound, in the unit of the name.
#[test]
fn classes_become_a_histogram() {
    let mut table = Table::default();
    let labels = [("service", "web"), ("worker", "0")];
    for (name, value) in [("RingwayRtt16us", 1), ("RingwayRtt64us", 2), ("RingwayRttMore", 4), ("RingwayRttSum", 2_000_000)] {
        table.add_part(ringway_engine::histogram_of(name).expect("it is of one"), &labels, value);
    }
    let page = table.into_page();
    for line in [
        "# TYPE ringway_round_trip_seconds histogram",
        "ringway_round_trip_seconds_sum{service=\"web\",worker=\"0\"} 2.0",
        "ringway_round_trip_seconds_count{service=\"web\",worker=\"0\"} 7",
        "ringway_round_trip_seconds_bucket{le=\"0.000016\",service=\"web\",worker=\"0\"} 1",
        "ringway_round_trip_seconds_bucket{le=\"+Inf\",service=\"web\",worker=\"0\"} 7",
    ] {
        assert!(page.lines().any(|found| found == line), "no {line}:\n{page}");
    }
}
