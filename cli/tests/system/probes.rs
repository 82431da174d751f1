//! Static probes: the program has those of the document.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::*;

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
