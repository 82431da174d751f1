//! The `.pkt` language: packets, system calls and assertions at points of time, run against one stack in virtual time.
//!
//! Promises: a script's outcome depends on its text alone; nothing in it is executed by a shell (settings by `sysctl` are
//! understood, other commands ignored). Does not do: IPv6, UDP, fuzzing lines.
//!
//! `parse` makes events of the text, `packet` makes bytes of a packet's line and a line of bytes, `arguments` reads what
//! stands between a call's parentheses, `evaluate` knows assertions, `run` does it all in order.

mod arguments;
mod calls;
mod evaluate;
mod packet;
mod parse;
mod run;

/// Runs one script. `Ok`: everything happened as written.
///
/// # Errors
/// What did not, with its line.
pub fn run(text: &str) -> Result<(), String> {
    let script = parse::parse(text)?;
    run::run(&script)
}

#[cfg(test)]
mod tests;
