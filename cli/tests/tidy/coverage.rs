//! Writes and checks `docs/rfc-coverage.md`, which lists the code and the tests of each RFC rule.
//!
//! A tag is `RFC 9293 MUST-17` (more follow after commas) or `RFC 5961 §3.2`, in a comment of code, of a test or of a
//! `.pkt` script. A tag in a test means that the test fails when the rule is broken. `rfc9293.txt` beside this file lists
//! the requirements of RFC 9293. `make rfc-coverage` rewrites the document; the test fails when it is out of date.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use super::{Source, files, read, relative, report, sources, top};

const DOCUMENT: &str = "docs/rfc-coverage.md";
const REQUIREMENTS: &str = include_str!("rfc9293.txt");
const UPDATE: &str = "UPDATE_RFC_COVERAGE";

/// One rule of RFC 9293.
struct Requirement {
    id: &'static str,
    section: &'static str,
    text: &'static str,
    waiver: &'static str,
}

/// The files that cite a rule.
#[derive(Default)]
struct Places {
    code: BTreeSet<String>,
    tests: BTreeSet<String>,
}

/// Citations by RFC number, then by section (`§3.2`) or rule (`MUST-17`).
type Citations = BTreeMap<u32, BTreeMap<String, Places>>;

fn requirements() -> Vec<Requirement> {
    let rows = REQUIREMENTS.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [id, section, text, waiver] = cells[..] else { panic!("rfc9293.txt: not four cells: {line}") };
        Requirement { id, section, text, waiver }
    })
    .collect()
}

/// The citations of one line: (RFC, section or rule).
fn citations_of(line: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for rest in line.split("RFC ").skip(1) {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let Ok(number) = rest[..digits].parse() else { continue };
        let mut words = rest[digits..].split([' ', ',', ';', ':', ')', '(']).filter(|word| !word.is_empty()).peekable();
        while let Some(word) = words.next_if(|word| is_rule(word) || word.starts_with('§')) {
            found.push((number, word.trim_end_matches("'s").trim_end_matches(['.', '\'', '`']).to_owned()));
        }
    }
    found
}

fn is_rule(word: &str) -> bool {
    ["MUST-", "SHLD-", "MAY-", "REC-"].iter().any(|kind| word.starts_with(kind))
}

fn collect() -> Citations {
    let mut all = Citations::new();
    let mut add = |path: &str, is_test: bool, text: &str| {
        for (number, what) in text.lines().flat_map(citations_of) {
            let places = all.entry(number).or_default().entry(what).or_default();
            if is_test { &mut places.tests } else { &mut places.code }.insert(path.to_owned());
        }
    };
    for Source { path, text, is_test, .. } in sources() {
        if !path.starts_with("cli/tests/tidy") {
            add(&path, is_test, &text);
        }
    }
    for script in files(".pkt") {
        add(&relative(&script), true, &read(&script));
    }
    all
}

/// Sort key of a section in document order: 3.9 before 3.10.
fn section_order(what: &str) -> Vec<u32> {
    what.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// Formats a cell's paths; files of one folder share one entry.
fn cell(paths: &BTreeSet<String>) -> String {
    let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in paths {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        folders.entry(folder).or_default().push(name);
    }
    let named = folders.iter().map(|(folder, names)| match names[..] {
        [name] => format!("`{folder}/{name}`"),
        _ => format!("`{folder}/{{{}}}`", names.join(",")),
    });
    named.collect::<Vec<_>>().join(" ")
}

fn document(all: &Citations) -> String {
    let mut text = String::from(
        "# RFC coverage\nWritten by `make rfc-coverage` from the tags in code, tests and scripts; `make tidy` fails when it is out of date.\n\
         [testing](testing.md) says what a tag is. A file under *tests* fails when the rule is broken.\n\n\
         ## RFC 9293, appendix B\n| rule | § | what | code | tests |\n|---|---|---|---|---|\n",
    );
    let none = Places::default();
    let empty = BTreeMap::new();
    let rules = all.get(&9293).unwrap_or(&empty);
    for Requirement { id, section, text: what, waiver } in requirements() {
        let places = rules.get(id).unwrap_or(&none);
        let tests = if waiver.is_empty() || !places.tests.is_empty() { cell(&places.tests) } else { format!("none: {waiver}") };
        writeln!(text, "| {id} | {section} | {what} | {} | {tests} |", cell(&places.code)).expect("a string takes all");
    }
    text.push_str("\n## All documents, by section\n| RFC | § | code | tests |\n|---|---|---|---|\n");
    for (number, cited) in all {
        let mut cited: Vec<_> = cited.iter().filter(|(what, _)| !is_rule(what) || *number != 9293).collect();
        cited.sort_by_key(|(what, _)| section_order(what));
        for (what, places) in cited {
            let what = what.trim_start_matches('§');
            writeln!(text, "| {number} | {what} | {} | {} |", cell(&places.code), cell(&places.tests))
                .expect("a string takes all");
        }
    }
    text
}

#[test]
fn every_must_of_rfc_9293_has_a_test_or_a_reason() {
    let all = collect();
    let known: BTreeSet<&str> = requirements().iter().map(|requirement| requirement.id).collect();
    let empty = BTreeMap::new();
    let rules = all.get(&9293).unwrap_or(&empty);
    let has_test = |id: &str| rules.get(id).is_some_and(|places| !places.tests.is_empty());
    let untested = requirements().into_iter().filter(|must| must.waiver.is_empty() && !has_test(must.id));
    let mut findings: Vec<String> = untested.map(|must| format!("{}: no test cites `RFC 9293 {}`", must.text, must.id)).collect();
    let strange = rules.keys().filter(|rule| rule.starts_with("MUST-") && !known.contains(rule.as_str()));
    findings.extend(strange.map(|rule| format!("RFC 9293 has no {rule}")));
    report(findings);
}

#[test]
fn the_coverage_document_is_true() {
    let path = top().join(DOCUMENT);
    let now = document(&collect());
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, now).expect("the document can be written");
    } else if fs::read_to_string(&path).unwrap_or_default() != now {
        report(vec![format!("{DOCUMENT}: not what the tags say; run `make rfc-coverage`")]);
    }
}

#[test]
fn tags_are_found() {
    let found = citations_of("/// RFC 5961 §3.2, §4.2: x. RFC 9293 MUST-17, MUST-38; y (RFC 7323).");
    let found: Vec<String> = found.iter().map(|(number, what)| format!("{number} {what}")).collect();
    assert_eq!(found, ["5961 §3.2", "5961 §4.2", "9293 MUST-17", "9293 MUST-38"]);
}
