//! Tells the command which commit it is built of, and for which machine.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RINGWAY_COMMIT");
    // It changes with each commit; a folder without a repository has none.
    let log = Path::new("../.git/logs/HEAD");
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    let given = std::env::var("RINGWAY_COMMIT").ok();
    println!("cargo::rustc-env=RINGWAY_COMMIT={}", given.or_else(head).unwrap_or_else(|| "unknown".to_owned()));
    println!("cargo::rustc-env=RINGWAY_TARGET={}", std::env::var("TARGET").expect("cargo sets it"));
}

/// The commit of the repository that this folder is in.
fn head() -> Option<String> {
    let asked = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(asked.stdout).ok()?;
    asked.status.success().then(|| commit.trim().to_owned())
}
