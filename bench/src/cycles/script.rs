//! Parses the output of `perf script` as a stream.
//!
//! Promises: lines that belong to no sample are skipped; a sample is passed on when the next
//! one begins. Does not do: store samples.

use std::io::{self, BufRead};

/// One function of a call chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Demangled name; `[unknown]` when perf found none.
    pub(super) symbol: String,
    /// Its file, or `[kernel.kallsyms]`.
    pub(super) file: String,
}

impl Frame {
    /// Returns true for functions of the kernel, a module or an eBPF program.
    pub(super) fn is_kernel(&self) -> bool {
        self.file.starts_with('[') && self.file != "[unknown]" && self.file != "[vdso]" && self.file != "[heap]"
            || self.file.ends_with(".ko")
            || self.symbol.starts_with("bpf_prog_")
    }
}

/// One recorded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Start of a process.
    Fork { parent: i32, child: i32 },
    /// State of a core at one tick.
    Sample(Sample),
}

/// State of a core at one tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) command: String,
    pub(super) process: i32,
    pub(super) core: u32,
    /// Innermost first.
    pub(super) chain: Vec<Frame>,
}

/// Fields that `perf script` prints.
pub(super) const FIELDS: &str = "comm,pid,tid,cpu,ip,sym,dso";
/// Largest number of frames kept per sample.
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

/// Parses `nginx   311/311   [001] `; the command may contain spaces and slashes.
fn header(line: &str) -> Option<Sample> {
    let (rest, core) = line.strip_suffix(']')?.rsplit_once('[')?;
    let (command, ids) = rest.trim_end().rsplit_once(' ')?;
    let (process, _) = ids.split_once('/')?;
    let (process, core) = (process.parse().ok()?, core.parse().ok()?);
    Some(Sample { command: command.trim().to_string(), process, core, chain: Vec::new() })
}

/// Parses `ffffffff81 tcp_sendmsg ([kernel.kallsyms])`; the symbol may contain spaces and parentheses.
fn frame(line: &str) -> Option<Frame> {
    let (_, rest) = line.split_once(' ')?;
    let (symbol, file) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    Some(Frame { symbol: symbol.trim().to_string(), file: file.to_string() })
}

/// Parses `… PERF_RECORD_FORK(child:thread):(parent:thread)`.
fn fork(line: &str) -> Option<(i32, i32)> {
    let (_, rest) = line.split_once("PERF_RECORD_FORK(")?;
    let (child, parent) = rest.split_once("):(")?;
    let process = |text: &str| text.split(':').next().and_then(|text| text.parse().ok());
    Some((process(parent)?, process(child)?))
}

#[cfg(test)]
mod tests;
