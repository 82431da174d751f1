//! The arrows of ARCHITECTURE.md are those of the manifests: the list between two marks is written from `[dependencies]`.

use super::{ARROWS, dependencies, manifests, read, report, room_of_crate, top};
use std::fs;

const DOCUMENT: &str = "ARCHITECTURE.md";
const UPDATE: &str = "UPDATE_ARROWS";
const BEGIN: &str = "<!-- arrows: written by `make arrows` -->\n";
const END: &str = "<!-- end of arrows -->";

/// One line for each room: the rooms that it depends on, without those of development.
fn drawing() -> String {
    let manifests = manifests();
    let mut text = String::from("```\n");
    for (room, _) in ARROWS.iter().filter(|(room, _)| !room.starts_with("fuzz")) {
        let mut targets: Vec<String> =
            dependencies(&manifests[*room]).iter().filter_map(|(_, name)| room_of_crate(name).map(str::to_string)).collect();
        targets.sort();
        let targets = if targets.is_empty() { "(none)".to_string() } else { targets.join(", ") };
        text.push_str(&format!("{room:<12} -> {targets}\n"));
    }
    text.push_str("```\n");
    text
}

/// The text with what stands between the marks replaced.
fn redrawn(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{}{END}{after}", drawing()))
}

#[test]
fn the_arrows_of_the_architecture_are_true() {
    let path = top().join(DOCUMENT);
    let text = read(&path);
    let Some(now) = redrawn(&text) else {
        return report(vec![format!("{DOCUMENT}: the marks of the arrows are missing")]);
    };
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, now).expect("the document can be written");
    } else if now != text {
        report(vec![format!("{DOCUMENT}: the arrows are not those of the manifests; run `make arrows`")]);
    }
}
