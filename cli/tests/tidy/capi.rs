//! The C API's three descriptions agree: header, library and manual name the same functions, header and Cargo.toml the same version.

use super::{read, report, top};
use std::collections::BTreeSet;

/// Names that begin with `ringway_` and satisfy `holds`, which sees what stands before and after the name.
fn names(text: &str, holds: impl Fn(&str, &str) -> bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (start, _) in text.match_indices("ringway_") {
        let len = text[start..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len() - start);
        let (before, after) = (&text[..start], &text[start + len..]);
        if holds(before, after) {
            found.insert(text[start..start + len].to_string());
        }
    }
    found
}

fn without_comments(header: &str) -> String {
    header.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code)).collect()
}

#[test]
fn each_function_of_the_header_is_in_the_library_and_in_the_manual() {
    let header = without_comments(&read(&top().join("capi/include/ringway.h")));
    let declared = names(&header, |_, after| after.starts_with('('));
    assert!(declared.contains("ringway_attach"), "{declared:?}");
    let mut defined = BTreeSet::new();
    for file in std::fs::read_dir(top().join("capi/src")).expect("the folder is there") {
        let source = read(&file.expect("it can be listed").path());
        defined.extend(names(&source, |before, _| before.ends_with("extern \"C\" fn ")));
    }
    let manual = read(&top().join("packaging/ringway.3"));
    let described: String = manual.lines().filter(|line| line.starts_with(".B ") || line.starts_with(".BR ")).collect();
    let described = names(&described, |_, _| true);
    let mut findings = Vec::new();
    for (place, known) in [("capi/src", &defined), ("packaging/ringway.3", &described)] {
        findings.extend(declared.difference(known).map(|name| format!("{place}:1: {name} of ringway.h is missing")));
        findings.extend(known.difference(&declared).map(|name| format!("{place}:1: ringway.h lacks {name}")));
    }
    report(findings);
}

#[test]
fn the_header_has_the_version_of_the_crates() {
    let header = read(&top().join("capi/include/ringway.h"));
    let part = |name: &str| {
        let macro_name = format!("#define RINGWAY_VERSION_{name} ");
        let line = header.lines().find_map(|line| line.strip_prefix(&macro_name));
        line.unwrap_or_else(|| panic!("ringway.h lacks {macro_name}")).to_string()
    };
    let version = format!("{}.{}.{}", part("MAJOR"), part("MINOR"), part("PATCH"));
    assert_eq!(version, env!("CARGO_PKG_VERSION"), "capi/include/ringway.h: set the macros to the version in Cargo.toml");
}

#[test]
fn the_options_are_numbered_without_gaps() {
    let header = without_comments(&read(&top().join("capi/include/ringway.h")));
    let list = header.split_once("enum ringway_option {").expect("it is declared").1.split_once('}').expect("it ends").0;
    let numbers: Vec<usize> = list.split(',').filter_map(|entry| entry.split_once('=')?.1.trim().parse().ok()).collect();
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>());
    assert!(read(&top().join("capi/src/option.rs")).contains(&format!("[SocketOption; {}]", numbers.len())));
}
