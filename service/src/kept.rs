//! The interfaces that stay with the kernel because of its rules, in the file NAME.kernel of the run directory, for `ringway ss`.
//!
//! ```text
//!   interface TAB word TAB reason, a line each
//! ```
//! Promises: the file is whole or not there; what is read has no control characters. Does not do: interfaces that no rule concerns.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::plan::Plan;
use crate::printable;
use crate::rundir::write_whole;

/// Of a file, what is read.
const BYTES_MAX: u64 = 64 << 10;

/// An interface that the kernel serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its name.
    pub interface: String,
    /// The kind of reason, a word.
    pub word: String,
    /// The reason, with the subject left out.
    pub why: String,
}

/// Notes the interfaces of `plan` that stay with the kernel because of its rules; without any the file goes.
///
/// # Errors
/// It cannot be written.
pub(crate) fn note(path: &Path, plan: &Plan) -> io::Result<()> {
    let line = |skipped: &crate::plan::Skipped| {
        let word = skipped.guard?;
        Some(format!("{}\t{word}\t{}\n", printable(&skipped.name), printable(&skipped.reason)))
    };
    let text: String = plan.skipped.iter().filter_map(line).collect();
    if text.is_empty() {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    write_whole(path, &text)
}

/// What a service has noted in `path`; nothing, where there is no such file.
pub(crate) fn read(path: &Path) -> Vec<Kept> {
    let mut bytes = Vec::new();
    // `Err`: no interface stays with the kernel.
    if let Ok(file) = File::open(path) {
        file.take(BYTES_MAX).read_to_end(&mut bytes).ok();
    }
    let kept = |line: &str| {
        let mut columns = line.splitn(3, '\t').map(printable);
        Some(Kept { interface: columns.next()?, word: columns.next()?, why: columns.next()? })
    };
    String::from_utf8_lossy(&bytes).lines().filter_map(kept).collect()
}

#[cfg(test)]
mod tests;
