//! The text of `perf script`, read as it comes.
//!
//! Promises: lines that are no part of a sample are passed over; a sample is handed on when the next
//! one begins. Does not do: keeping samples.

use std::io::{self, BufRead};

/// One function of a call chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Demangled; `[unknown]` when perf found none.
    pub(super) symbol: String,
    /// The file it is from, or `[kernel.kallsyms]`.
    pub(super) file: String,
}

impl Frame {
    /// Whether it is the kernel's, a module's or a program of eBPF.
    pub(super) fn is_kernel(&self) -> bool {
        self.file.starts_with('[') && self.file != "[unknown]" && self.file != "[vdso]" && self.file != "[heap]"
            || self.file.ends_with(".ko")
            || self.symbol.starts_with("bpf_prog_")
    }
}

/// One thing that perf saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A process began.
    Fork { parent: i32, child: i32 },
    /// What a core was doing at one tick.
    Sample(Sample),
}

/// What a core was doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) command: String,
    pub(super) process: i32,
    pub(super) core: u32,
    /// Innermost first.
    pub(super) chain: Vec<Frame>,
}

/// What `perf script` is asked to print.
pub(super) const FIELDS: &str = "comm,pid,tid,cpu,ip,sym,dso";
/// Frames of one sample that are kept.
const CHAIN_MAX: usize = 128;

/// Reads events until the text ends.
///
/// # Errors
/// The text cannot be read.
pub(super) fn read(text: &mut dyn BufRead, take: &mut dyn FnMut(Event)) -> io::Result<()> {
    let mut sample: Option<Sample> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        if text.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let line = String::from_utf8_lossy(&line);
        if line.starts_with(['\t', ' ']) && sample.is_some() {
            if let Some((frame, sample)) =
                frame(line.trim()).zip(sample.as_mut()).filter(|(_, sample)| sample.chain.len() < CHAIN_MAX)
            {
                sample.chain.push(frame);
            }
            continue;
        }
        if let Some(whole) = sample.take() {
            take(Event::Sample(whole));
        }
        if let Some((parent, child)) = fork(&line) {
            take(Event::Fork { parent, child });
        } else if !line.contains("PERF_RECORD_") {
            sample = header(line.trim());
        }
    }
    if let Some(whole) = sample {
        take(Event::Sample(whole));
    }
    Ok(())
}

/// `nginx   311/311   [001] `: the command may hold spaces and slashes.
fn header(line: &str) -> Option<Sample> {
    let (rest, core) = line.strip_suffix(']')?.rsplit_once('[')?;
    let (command, ids) = rest.trim_end().rsplit_once(' ')?;
    let (process, _) = ids.split_once('/')?;
    let (process, core) = (process.parse().ok()?, core.parse().ok()?);
    Some(Sample { command: command.trim().to_string(), process, core, chain: Vec::new() })
}

/// `ffffffff81 tcp_sendmsg ([kernel.kallsyms])`; the symbol may hold spaces and parentheses.
fn frame(line: &str) -> Option<Frame> {
    let (_, rest) = line.split_once(' ')?;
    let (symbol, file) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    Some(Frame { symbol: symbol.trim().to_string(), file: file.to_string() })
}

/// `… PERF_RECORD_FORK(child:thread):(parent:thread)`.
fn fork(line: &str) -> Option<(i32, i32)> {
    let (_, rest) = line.split_once("PERF_RECORD_FORK(")?;
    let (child, parent) = rest.split_once("):(")?;
    let process = |text: &str| text.split(':').next().and_then(|text| text.parse().ok());
    Some((process(parent)?, process(child)?))
}

#[cfg(test)]
mod tests;
