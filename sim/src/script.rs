//! The `.pkt` language: packets, system calls and assertions at points of time, run against one stack in virtual time.
//!
//! Promises: a script's outcome depends on its text alone; nothing in it is executed by a shell (settings by `sysctl` are
//! understood, other commands ignored). Does not do: UDP, fuzzing lines.
//!
//! `parse` makes events of the text, `packet` reads a packet's line, `bytes` makes bytes of it and back, `arguments` reads what
//! stands between a call's parentheses, `evaluate` knows assertions, `run` does it all in order.

mod arguments;
mod bytes;
mod calls;
mod evaluate;
mod packet;
mod parse;
mod run;

pub use parse::Family;

/// Runs one script over IPv4, unless it names another family. `Ok`: everything happened as written.
///
/// # Errors
/// What did not, with its line.
pub fn run(text: &str) -> Result<(), String> {
    run_as(text, Family::Ipv4)
}

/// As `run`, over `family` unless the script names another.
///
/// # Errors
/// As `run`.
pub fn run_as(text: &str, family: Family) -> Result<(), String> {
    let script = parse::parse(text, family)?;
    run::run(&script)
}

/// Reads a script without running it.
///
/// # Errors
/// What cannot be read, with its line.
pub fn check(text: &str) -> Result<(), String> {
    parse::parse(text, Family::Ipv4).map(|_| ())
}

#[cfg(test)]
mod tests;
