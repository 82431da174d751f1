//! Parts of the log: what the code names is what `ringway log` knows and the document explains.

use std::collections::BTreeSet;

use super::{read, report, sources, top};

const MARK: &str = "target: \"ringway::";

#[test]
fn each_part_of_the_log_is_known_and_explained() {
    let list = read(&top().join("service/src/log.rs"));
    let document = read(&top().join("docs/deploy.md"));
    let (mut findings, mut used) = (Vec::new(), BTreeSet::new());
    for source in sources().iter().filter(|source| !source.is_test) {
        for (at, mark) in source.text.match_indices(MARK) {
            let rest = &source.text[at + mark.len()..];
            let part = format!("ringway::{}", &rest[..rest.find('"').unwrap_or(0)]);
            if !list.contains(&format!("    \"{part}\",")) || !document.contains(&format!("| `{part}` |")) {
                findings.push(source.at(at, &format!("{part} is not in service/src/log.rs or docs/deploy.md")));
            }
            used.insert(part);
        }
    }
    assert!(used.len() > 5, "{used:?}");
    report(findings);
}
