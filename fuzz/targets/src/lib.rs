//! The bodies of the fuzz targets: each takes untrusted bytes and must not panic, loop or lose memory.
//!
//! They are in a library of the ordinary workspace so that `cargo test` runs them over the seeds and a few thousand
//! mutations (`tests/smoke.rs`); cargo-fuzz runs the same functions (`fuzz/fuzz_targets`).
#![forbid(unsafe_code)]

mod channel;
mod control;
mod fragments;
mod frames;
mod groups;
mod host;
mod input;
mod segments;
mod texts;

/// Body of a target.
pub type Body = fn(&[u8]);

/// All targets by name: that of the file in `fuzz/fuzz_targets` and of the folder in `fuzz/seeds`.
pub const TARGETS: &[(&str, Body)] = &[
    ("frames", frames::run),
    ("tcp_options", segments::options),
    ("segments", segments::run),
    ("handover", segments::handover),
    ("reassembly", segments::reassembly),
    ("fragments", fragments::run),
    ("script", texts::script),
    ("channel", channel::run),
    ("groups", groups::run),
    ("control", control::run),
    ("netlink", texts::netlink),
    ("firewall", texts::firewall),
    ("config", texts::config),
    ("capture", texts::capture),
];

/// Runs the target of this name.
///
/// # Panics
/// When there is no such target, or when the target finds something.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, body) = TARGETS.iter().find(|(target, _)| *target == name).expect("the target is in the list");
    body(bytes);
}
