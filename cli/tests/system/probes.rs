//! Static probes: the program has those of the document, and they are passed while something is attached.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::harness::*;
use crate::http::{fetch, nginx_config, site};

const COUNT: &str = include_str!("probes/count.py");

/// The names in the notes of a program, as readelf(1) prints them.
fn probes_of(program: &str) -> BTreeSet<String> {
    let output = Command::new("readelf").args(["-n", program]).output().expect("binutils are installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut provider = "";
    let mut names = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("Provider: ") {
            provider = name;
        }
        if let Some(name) = line.strip_prefix("Name: ").filter(|_| provider == "ringway") {
            names.insert(name.to_owned());
        }
        // A point without a semaphore would compute its arguments each time.
        if let Some((_, semaphore)) = line.split_once("Semaphore: ").filter(|_| provider == "ringway") {
            assert_ne!(semaphore.trim_start_matches("0x").trim_start_matches('0'), "", "{line}");
        }
    }
    names
}

#[test]
fn the_service_has_the_probes_of_the_document() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/probes.md");
    let document = fs::read_to_string(document).expect("the document is there");
    let named = document.lines().filter_map(|line| line.strip_prefix("| `tcp_")).filter_map(|rest| rest.split('`').next());
    let named: BTreeSet<String> = named.map(|name| format!("tcp_{name}")).collect();
    assert!(named.len() >= 8, "{named:?}");
    assert_eq!(probes_of(RINGWAY), named);
}

/// What perf(1) and bpftrace(8) do; a download over a wire that loses packets passes the points.
#[test]
fn probes_are_passed_while_a_tool_is_attached() {
    let net = Net::new();
    let [large, _] = site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let wanted = ["tcp_set_state", "tcp_set_congestion_state", "tcp_retransmit", "tcp_receive_reset"];
    let script = net.file("count.py", COUNT);
    let mut tool = net.spawn(Server, &[&["python3", &script, RINGWAY][..], &wanted].concat());
    net.wait_printed(&mut tool, "attached");
    let loss = "add table ip t; add chain ip t in { type filter hook prerouting priority 0; }; \
                add rule ip t in tcp sport 80 numgen inc mod 97 == 50 drop";
    net.output(Client, &["nft", loss]);
    assert_eq!(fetch(&net, Client, &[], &net.url(80, "large.bin")), large);
    tool.signal(Signal::USR1);
    net.wait_printed(&mut tool, "end");
    let printed = tool.stdout();
    let count = |name: &str| -> u64 {
        let line = printed.lines().find(|line| line.split(' ').next() == Some(name));
        line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or_else(|| panic!("no count of {name}: {printed}"))
    };
    assert!(count("tcp_set_state") >= 3, "opened and closed: {printed}");
    assert!(count("tcp_set_congestion_state") >= 2, "recovery and back: {printed}");
    assert!(count("tcp_retransmit") > 0, "{printed}");
    assert_eq!(count("tcp_receive_reset"), 0);
}
