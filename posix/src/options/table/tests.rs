//! Compares the table with docs/posix-deviations.md and with the headers of this machine.

use super::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/posix-deviations.md");
const BEGIN: &str = "<!-- options: UPDATE_OPTIONS=1 cargo test -p ringway-posix table -->\n";
const END: &str = "<!-- end of options -->\n";

fn word(rule: Rule, refused: fn(&str) -> String) -> String {
    match rule {
        Served => "served".into(),
        NoEffect => "no effect".into(),
        Rule::Kernels { errno, .. } => refused(Errno(errno).name()),
    }
}

/// The table in the document's form: options with equal treatment share a row.
fn rendered() -> String {
    let mut out = String::from("| level | TCP | UDP | options |\n|---|---|---|---|\n");
    for (_, level, rows) in LEVELS {
        let mut alike: BTreeMap<[String; 2], Vec<&str>> = BTreeMap::new();
        for (_, name, stream, datagram) in rows {
            let stream = word(*stream, |errno| format!("kernel's; {errno}"));
            let datagram = word(*datagram, |_| "kernel's".into());
            alike.entry([stream, datagram]).or_default().push(name);
        }
        for ([stream, datagram], names) in alike {
            writeln!(out, "| {level} | {stream} | {datagram} | {} |", names.join(", ")).expect("a string takes it");
        }
    }
    out
}

#[test]
fn the_document_shows_this_table() {
    let text = std::fs::read_to_string(DOCUMENT).expect("the document is there");
    let (before, rest) = text.split_once(BEGIN).expect("the table's begin is marked");
    let (shown, after) = rest.split_once(END).expect("the table's end is marked");
    if std::env::var_os("UPDATE_OPTIONS").is_some() {
        let anew = format!("{before}{BEGIN}{}{END}{after}", rendered());
        std::fs::write(DOCUMENT, anew).expect("the document can be written");
        return;
    }
    assert_eq!(shown, rendered(), "run: UPDATE_OPTIONS=1 cargo test -p ringway-posix table");
}

/// The names that a header of this machine gives to numbers.
fn defined(header: &str) -> BTreeMap<String, i32> {
    let text = std::fs::read_to_string(Path::new("/usr/include").join(header)).unwrap_or_default();
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let pairs = words.filter_map(|words| match words[..] {
        ["#define", name, number, ..] => Some((name.to_string(), number.parse().ok()?)),
        _ => None,
    });
    pairs.collect()
}

#[test]
fn numbers_are_those_of_the_headers() {
    let headers = ["asm-generic/socket.h", "linux/in.h", "linux/in6.h", "linux/tcp.h", "linux/udp.h"];
    for ((_, level, rows), header) in LEVELS.into_iter().zip(headers) {
        let known = defined(header);
        for (number, name, ..) in rows {
            assert_eq!(known.get(*name).unwrap_or(number), number, "{level} {name}");
        }
    }
}

#[test]
fn every_option_stands_once_and_what_does_not_is_the_kernels() {
    for (level, _, rows) in LEVELS {
        for (place, row) in rows.iter().enumerate() {
            let known = find(level, row.0).expect("a known level");
            assert_eq!(known.name(), row.1);
            assert_eq!(Known::of_code(known.code()), known);
            assert!(rows[place + 1..].iter().all(|other| other.0 != row.0 && other.1 != row.1), "{} twice", row.1);
        }
        let unknown = find(level, 9_999).expect("a known level");
        assert_eq!(unknown.stream().refusal(&[0]), Some(Errno::NOPROTOOPT));
    }
    assert!(find(libc::SOL_NETLINK, 1).is_none(), "a level of other sockets");
}

#[test]
fn what_a_worker_hears_of_is_served() {
    for known in ringway_channel::options::LINUX_OPTIONS {
        let option = find(known.level, known.name).expect("the table has all options of Linux");
        assert!(known.of_stream().is_none() || option.stream() == Served, "{} of a stream", option.name());
        assert!(known.of_datagram().is_none() || option.datagram() == Served, "{} of a datagram socket", option.name());
    }
}
