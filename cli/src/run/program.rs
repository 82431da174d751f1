//! Finds the program and checks whether a preloaded library can intercept its libc calls.
//!
//! Promises: distinguishes "missing" and "not executable" as a shell does (127, 126); follows `#!` lines to
//! the interpreter. Does not do: predict the program's calls; a program that makes system calls without libc
//! is recognized only when it is static, marked as a Go program, or makes io_urings (`rings`).

mod rings;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Number of `#!` lines followed, as on Linux.
const INTERPRETERS_MAX: usize = 4;
/// Bytes that Linux reads of a file to find its format.
const HEAD_BYTES: usize = 256;
const DEFAULT_SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why a program cannot be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// There is no such file: exit status 127.
    Missing,
    /// The file cannot be executed: exit status 126.
    NotExecutable(&'static str),
}

/// A program that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its file.
    pub(crate) path: PathBuf,
    /// The file that the kernel runs: of a script its interpreter.
    pub(crate) image: PathBuf,
    /// Why its libc calls cannot be intercepted; empty: they can.
    pub(crate) obstacles: Vec<String>,
}

/// Looks for `name` as `execvp` does and inspects the file.
pub(crate) fn find(name: &OsStr, search_path: Option<OsString>) -> Result<Program, Unusable> {
    let path = locate(name, search_path.as_deref())?;
    let mut obstacles = Vec::new();
    let image = inspect(&path, search_path.as_deref(), INTERPRETERS_MAX, &mut obstacles);
    Ok(Program { path, image, obstacles })
}

/// Why the libc calls of the program in `path` cannot be intercepted; empty: they can.
pub(crate) fn obstacles_of(path: &Path) -> Vec<String> {
    let mut obstacles = Vec::new();
    inspect(path, None, INTERPRETERS_MAX, &mut obstacles);
    obstacles
}

fn locate(name: &OsStr, search_path: Option<&OsStr>) -> Result<PathBuf, Unusable> {
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return executable(&path).map(|()| path);
    }
    let search_path = search_path.unwrap_or(OsStr::new(DEFAULT_SEARCH_PATH));
    let mut refusal = Unusable::Missing;
    for directory in std::env::split_paths(search_path) {
        let path = directory.join(name);
        match executable(&path) {
            Ok(()) => return Ok(path),
            Err(Unusable::Missing) => {}
            Err(other) => refusal = other,
        }
    }
    Err(refusal)
}

fn executable(path: &Path) -> Result<(), Unusable> {
    let metadata = std::fs::metadata(path).map_err(|_| Unusable::Missing)?;
    if metadata.is_dir() {
        return Err(Unusable::NotExecutable("is a directory"));
    }
    match access(path, Access::EXEC_OK) {
        Ok(()) => Ok(()),
        Err(_) => Err(Unusable::NotExecutable("permission denied")),
    }
}

/// Adds to `obstacles` the reasons why a preloaded library cannot work in `path`. Returns the file that the kernel runs.
fn inspect(path: &Path, search_path: Option<&OsStr>, depth: usize, obstacles: &mut Vec<String>) -> PathBuf {
    let name = path.display();
    let Ok(file) = File::open(path) else {
        obstacles.push(format!("{name} cannot be read to check that it is dynamically linked"));
        return path.to_owned();
    };
    if gains_rights(&file, path) {
        obstacles
            .push(format!("{name} gains privileges (setuid, setgid or capabilities): the dynamic linker ignores LD_PRELOAD"));
    }
    let mut head = vec![0; HEAD_BYTES];
    let len = (&file).take(HEAD_BYTES as u64).read(&mut head).unwrap_or(0);
    head.truncate(len);
    if let Some(line) = head.strip_prefix(b"#!") {
        if let (Some(interpreter), true) = (interpreter(line, search_path), depth > 0) {
            return inspect(&interpreter, search_path, depth - 1, obstacles);
        }
        return path.to_owned();
    }
    match linkage(&file, &head) {
        Some(Linkage::Dynamic) if rings::makes(&file, &executable_parts(&file, &head)) => {
            obstacles.push(format!("{name} makes io_urings by system calls of its own: requests in them do not pass Ringway"));
        }
        Some(Linkage::Dynamic) => {}
        Some(Linkage::Static) => obstacles.push(format!("{name} is statically linked: its libc calls cannot be intercepted")),
        Some(Linkage::Musl) => obstacles.push(format!("{name} uses musl: Ringway's library needs glibc")),
        Some(Linkage::Go) => obstacles.push(format!("{name} is a Go program: it makes system calls without libc")),
        Some(Linkage::OtherMachine) => obstacles.push(format!("{name} is for another processor or word size")),
        None => obstacles.push(format!("{name} is not an ELF program")),
    }
    path.to_owned()
}

/// The interpreter of a `#!` line; for `/usr/bin/env NAME`, NAME.
fn interpreter(line: &[u8], search_path: Option<&OsStr>) -> Option<PathBuf> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let interpreter = Path::new(OsStr::from_bytes(words.next()?)).to_owned();
    if interpreter.file_name() != Some(OsStr::new("env")) {
        return Some(interpreter);
    }
    let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
    locate(OsStr::from_bytes(name), search_path).ok()
}

fn gains_rights(file: &File, path: &Path) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let other_user = metadata.mode() & 0o4000 != 0 && metadata.uid() != uid;
    let other_group = metadata.mode() & 0o2010 == 0o2010 && metadata.gid() != gid;
    // Root has all capabilities already and gains none.
    let mut capabilities = [0u8; 64];
    let capable = uid != 0 && rustix::fs::getxattr(path, "security.capability", &mut capabilities).is_ok_and(|len| len > 0);
    other_user || other_group || capable
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linkage {
    Dynamic,
    Static,
    Musl,
    Go,
    OtherMachine,
}

const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const SEGMENTS_MAX: u16 = 256;
const SEGMENT_BYTES_MAX: u64 = 64 << 10;
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;
/// A segment that is executed.
const PF_X: u64 = 1;

/// Finds out how a file is linked; `None` when it is not ELF. Reads only 64-bit little-endian files; see elf(5).
fn linkage(file: &File, head: &[u8]) -> Option<Linkage> {
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let machine = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };
    if head.get(4..6) != Some(&[2, 1]) || number::<2>(head, 18).map(|found| found as u16) != Some(machine) {
        return Some(Linkage::OtherMachine);
    }
    let segments = segments(file, head)?;
    let Some(interpreter) = segments.get(&PT_INTERP).and_then(|found| found.first()) else { return Some(Linkage::Static) };
    let notes = segments.get(&PT_NOTE).map(Vec::as_slice).unwrap_or_default();
    if notes.iter().any(|note| note.windows(4).any(|name| name == b"Go\0\0")) {
        return Some(Linkage::Go);
    }
    let musl = interpreter.windows(7).any(|name| name == b"ld-musl");
    Some(if musl { Linkage::Musl } else { Linkage::Dynamic })
}

/// One of a file's segments.
struct Segment {
    kind: u32,
    is_executed: bool,
    bytes: Range<u64>,
}

fn headers(file: &File, head: &[u8]) -> Option<Vec<Segment>> {
    let (table, size, count) = (number::<8>(head, 32)?, number::<2>(head, 54)?, number::<2>(head, 56)? as u16);
    if size < 56 || count > SEGMENTS_MAX {
        return None;
    }
    let segment = |index: u64| {
        let mut header = [0; 56];
        file.read_exact_at(&mut header, table.checked_add(index * size)?).ok()?;
        let (offset, len) = (number::<8>(&header, 8)?, number::<8>(&header, 32)?);
        Some(Segment {
            kind: number::<4>(&header, 0)? as u32,
            is_executed: number::<4>(&header, 4)? & PF_X != 0,
            bytes: offset..offset.checked_add(len)?,
        })
    };
    (0..u64::from(count)).map(segment).collect()
}

/// The contents of the PT_INTERP and PT_NOTE segments, by type.
fn segments(file: &File, head: &[u8]) -> Option<BTreeMap<u32, Vec<Vec<u8>>>> {
    let mut segments: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
    for Segment { kind, bytes, .. } in headers(file, head)? {
        let len = bytes.end - bytes.start;
        if (kind == PT_INTERP || kind == PT_NOTE) && len <= SEGMENT_BYTES_MAX {
            let mut content = vec![0; len as usize];
            file.read_exact_at(&mut content, bytes.start).ok()?;
            segments.entry(kind).or_default().push(content);
        }
    }
    Some(segments)
}

fn executable_parts(file: &File, head: &[u8]) -> Vec<Range<u64>> {
    let segments = headers(file, head).unwrap_or_default();
    segments.into_iter().filter(|segment| segment.kind == PT_LOAD && segment.is_executed).map(|segment| segment.bytes).collect()
}

/// The little-endian number of `N` bytes at `offset`.
fn number<const N: usize>(bytes: &[u8], offset: usize) -> Option<u64> {
    let mut whole = [0; 8];
    whole[..N].copy_from_slice(bytes.get(offset..offset.checked_add(N)?)?);
    Some(u64::from_le_bytes(whole))
}

#[cfg(test)]
mod tests;
