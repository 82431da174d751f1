//! The field's words: identifiers that docs/glossary.md has replaced do not come back, and comments speak of things.

use super::{report, sources};

/// Parts of identifiers that have a standard name, and that name.
const OLD: &[(&str, &str)] = &[
    ("bell", "wake_fd"),
    ("bells", "wake_fds"),
    ("bury", "reap"),
    ("complaint", "icmp_error"),
    ("courtesy", "yield_policy"),
    ("hasty", "quick_acks"),
    ("heed", "on_ce, on_ece, on_ace"),
    ("ledger", "port_registry, frame_accounting, rare statistics"),
    ("newcomers", "migrating_flows"),
    ("roster", "process_table"),
    ("strays", "orphans"),
    ("tally", "conn_stats"),
    ("tallies", "conn_stats"),
    ("twin", "shadow"),
    ("uniqueness", "dad"),
];

/// Words of people that no identifier has, of tests neither, and what to say.
const IN_NO_NAME: &[(&str, &str)] =
    &[("stranger", "what it is: other_user, foreign_program"), ("strangers", "what they are: foreign_programs")];

/// Words for people. The subject of a comment is a thing: a worker, a segment, a caller.
const PEOPLE: &[&str] = &["who", "whoever", "whom", "nobody", "somebody", "anybody", "he", "him", "his", "stranger", "strangers"];

/// Splits identifiers into lower-case parts: `makeBell` and `make_bell` have `make` and `bell`.
fn parts(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for character in line.chars() {
        if !character.is_ascii_alphanumeric() || character.is_ascii_uppercase() {
            parts.push(String::new());
        }
        if character.is_ascii_alphanumeric() {
            parts.last_mut().expect("it begins with one").push(character.to_ascii_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[test]
fn identifiers_use_the_fields_words() {
    let mut findings = Vec::new();
    for source in sources() {
        let replaced = if source.is_test { &[] } else { OLD };
        for (number, line) in source.code.lines().enumerate() {
            let parts = parts(line);
            let found = replaced.iter().chain(IN_NO_NAME).filter(|(old, _)| parts.iter().any(|part| part == old));
            findings.extend(found.map(|(old, say)| format!("{}:{}: {old}: say {say}", source.path, number + 1)));
        }
    }
    report(findings);
}

#[test]
fn comments_speak_of_things() {
    let mut findings = Vec::new();
    for source in sources() {
        for (number, line) in source.text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//")) {
            // What stands between backticks is code.
            let prose: String = line.split('`').step_by(2).collect();
            let words = prose.split(|c: char| !c.is_alphabetic()).map(str::to_lowercase);
            let found = words.filter(|word| PEOPLE.contains(&word.as_str()));
            findings.extend(found.map(|word| format!("{}:{}: \"{word}\" in a comment: name the thing", source.path, number + 1)));
        }
    }
    report(findings);
}

#[test]
fn identifiers_are_split_into_parts() {
    assert_eq!(parts("fn make_bell(MakeBell) -> door"), ["fn", "make", "bell", "make", "bell", "door"]);
    assert_eq!(parts("doorbell"), ["doorbell"]);
}
