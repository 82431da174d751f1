//! The `.pkt` language: packets, system calls and assertions at points of time, run on a machine in virtual time (`machine`).
//!
//! Promises: a script's outcome depends on its text alone; no shell runs any of it (`sysctl` settings are understood, other
//! commands ignored). Does not do: UDP, fuzzing lines.
//!
//! `parse` makes events of the text, `packet` reads a packet's line, `bytes` converts it to bytes and back, `arguments`
//! reads a call's arguments, `evaluate` evaluates assertions, `run` executes all in order.

mod arguments;
mod bytes;
mod calls;
mod evaluate;
mod info;
mod packet;
mod parse;
mod run;

pub use parse::Family;

/// Runs one script over IPv4, unless it names another family. `Ok`: everything happened as written.
///
/// # Errors
/// Returns the first mismatch, with its line.
pub fn run(text: &str) -> Result<(), String> {
    run_as(text, Family::Ipv4)
}

/// Runs one script over `family`, unless it names another.
///
/// # Errors
/// Returns the first mismatch, with its line.
pub fn run_as(text: &str, family: Family) -> Result<(), String> {
    run::run(&parse::parse(text, family)?)
}

/// Reads a script without running it.
///
/// # Errors
/// Returns the first syntax error, with its line.
pub fn check(text: &str) -> Result<(), String> {
    parse::parse(text, Family::Ipv4).map(|_| ())
}

#[cfg(test)]
mod tests;
