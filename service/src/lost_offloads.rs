//! Offloads of cards that an XDP program has switched off, in the file `NAME@NETWORK.offloads` of the run directory.
//!
//! ```text
//!   boot  network-namespace  interface  number  features, 32 in a word
//! ```
//! The device notes what it takes before it takes it (`ringway_device::xdp::offloads`), and the file goes with the last line. A service
//! that is killed leaves the file; the next one on the run directory switches them on, and so does `ringway doctor --undo`. Promises: the file
//! is whole or not there; one that another user could have written, or of another form, says nothing; a line counts in its boot and
//! network namespace only, and stays for them. Does not do: stopping a service from starting.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ringway_device::xdp::offloads::{Journal, LostOffloads};
use rustix::fs::OFlags;

use crate::rundir::{network_here, unfinished};

/// Of a file, what is read; and the lines of one.
const BYTES_MAX: u64 = 64 << 10;
const LINES_MAX: usize = 256;
const NAME_LEN_MAX: usize = 15;
const WORDS_MAX: usize = 8;

/// Where and when a card has a number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Here {
    boot: String,
    network: String,
}

impl Here {
    fn now() -> io::Result<Here> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        Ok(Here { boot, network: network_here().ok_or(io::ErrorKind::NotFound)? })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    here: Here,
    lost: LostOffloads,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.lost.features.iter().map(|word| format!("{word:x}")).collect();
        let Here { boot, network } = &self.here;
        writeln!(f, "{boot} {network} {} {} {}", self.lost.interface, self.lost.index, words.join(","))
    }
}

impl Line {
    fn parse(line: &str) -> Option<Line> {
        let mut fields = line.split(' ');
        let mut field = || fields.next().filter(|field| !field.is_empty());
        let here = Here { boot: field()?.to_owned(), network: field()?.to_owned() };
        let interface = field().filter(|name| name.len() <= NAME_LEN_MAX && !name.chars().any(char::is_control))?.to_owned();
        let index = field()?.parse().ok()?;
        let words = field()?.split(',').map(|word| u32::from_str_radix(word, 16));
        let features: Vec<u32> = words.take(WORDS_MAX + 1).collect::<Result<_, _>>().ok()?;
        let is_whole = fields.next().is_none() && features.len() <= WORDS_MAX;
        is_whole.then_some(Line { here, lost: LostOffloads { interface, index, features } })
    }
}

/// The lines of a file; none where there is no file.
///
/// # Errors
/// It cannot be read, or is none of ours.
fn read(path: &Path) -> io::Result<Vec<Line>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    let is_trusted = [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid()) && metadata.mode() & 0o022 == 0;
    if !metadata.is_file() || !is_trusted || metadata.len() > BYTES_MAX {
        return Err(io::Error::other("it is no file of a service of ours"));
    }
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    let lines: Option<Vec<Line>> = text.lines().take(LINES_MAX).map(Line::parse).collect();
    lines.ok_or_else(|| io::Error::other("it has not the form of such a file"))
}

/// Puts these lines in place of those that are there; without any the file goes.
fn write<'a>(path: &Path, lines: impl Iterator<Item = &'a Line>) -> io::Result<()> {
    let text: String = lines.map(Line::to_string).collect();
    if text.is_empty() {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let unfinished = unfinished(path);
    // What a service left that was killed as it wrote.
    fs::remove_file(&unfinished).ok();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    fs::rename(unfinished, path)
}

/// The file of a living service.
#[derive(Debug)]
pub(crate) struct OffloadsFile {
    path: PathBuf,
    here: Here,
    /// Lines that were there: of other network namespaces.
    others: Vec<Line>,
    /// By number of the interface.
    ours: Mutex<BTreeMap<u32, Line>>,
}

impl OffloadsFile {
    /// The file `path`, whose name the service has.
    ///
    /// # Errors
    /// The kernel does not tell boot and network namespace.
    pub(crate) fn new(path: PathBuf) -> io::Result<OffloadsFile> {
        // `Err`: it is not ours; its place is.
        let others = read(&path).unwrap_or_default();
        Ok(OffloadsFile { path, here: Here::now()?, others, ours: Mutex::default() })
    }
}

impl Journal for OffloadsFile {
    fn note(&self, lost: &LostOffloads) -> io::Result<()> {
        let mut ours = self.ours.lock().expect("nobody panics while holding it");
        match lost.features.is_empty() {
            true => ours.remove(&lost.index),
            false => ours.insert(lost.index, Line { here: self.here.clone(), lost: lost.clone() }),
        };
        write(&self.path, self.others.iter().chain(ours.values())).map_err(|error| {
            io::Error::new(error.kind(), format!("what AF_XDP switches off cannot be noted in {}: {error}", self.path.display()))
        })
    }
}

/// What a dead service has left of `path` that is off here, a line each; or why that is not known.
pub(crate) fn describe(path: &Path) -> Vec<String> {
    match read(path).and_then(|lines| Ok((lines, Here::now()?))) {
        Ok((lines, here)) => lines.iter().filter(|line| line.here == here).filter_map(off).collect(),
        Err(error) => vec![format!("{} cannot be read: {error}", path.display())],
    }
}

fn off(line: &Line) -> Option<String> {
    let names = line.lost.off();
    (!names.is_empty()).then(|| format!("offloads of {} that AF_XDP switched off: {}", line.lost.interface, names.join(", ")))
}

/// Switches on what a dead service has left in `path`; says what is on again and what could not be done, a line each.
pub(crate) fn restore(path: &Path) -> Vec<String> {
    match read(path).and_then(|lines| Ok((lines, Here::now()?))) {
        Ok((lines, here)) => restore_by(path, lines, &here, &LostOffloads::off, &LostOffloads::restore),
        Err(error) => vec![format!("{}: {error}", path.display())],
    }
}

fn restore_by(
    path: &Path,
    lines: Vec<Line>,
    here: &Here,
    off: &dyn Fn(&LostOffloads) -> Vec<String>,
    restore: &dyn Fn(&LostOffloads) -> io::Result<bool>,
) -> Vec<String> {
    if lines.is_empty() {
        return Vec::new();
    }
    let (mut said, mut left) = (Vec::new(), Vec::new());
    // Numbers of another boot mean other cards.
    for line in lines.into_iter().filter(|line| line.here.boot == here.boot) {
        if line.here != *here {
            left.push(line);
            continue;
        }
        let (interface, names) = (&line.lost.interface, off(&line.lost).join(", "));
        match restore(&line.lost) {
            Ok(true) if !names.is_empty() => {
                said.push(format!("{interface}: on again, after a service that was killed: {names}"))
            }
            Ok(_) => {}
            Err(error) => {
                said.push(format!("{interface}: {names} stay off, after a service that was killed: {error}"));
                left.push(line);
            }
        }
    }
    if let Err(error) = write(path, left.iter()) {
        said.push(format!("{}: {error}", path.display()));
    }
    said
}

#[cfg(test)]
mod tests;
