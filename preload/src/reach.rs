//! Would this library be in the program that an exec is about to start?
//!
//! Promises: the exec wrappers ask here before the program runs; in strict mode what the library cannot reach (static programs, Go,
//! another libc or processor, programs that gain rights when started) is not started: ENETDOWN. Else a line says so, once for an
//! image and all that fork from it (unless RINGWAY_QUIET is set), connections that it would inherit are handed over to the kernel, and a
//! program of another libc, whose loader would end at this library, is started without it. The kernel goes on with sockets, too, where a
//! process that has sockets of the stack is where its next image could not load the library or not attach (chroot(2), another mount
//! namespace). A program that has no use for the library is started without it: loading it is most of what it costs a small child.
//! Reads files into the stack only and allocates nothing, since the caller may be a child of `vfork` (which hands nothing over).
//! Calls the kernel itself: a child of `fork` begins without the pages of libc, and would fetch some for each function that it calls
//! between `fork` and exec. Does not do: look at an `LD_PRELOAD` that the program has set itself, or at paths behind the file actions
//! of a spawn.
//!
//! `cli/src/run/program.rs` looks for the same in the program that `ringway run` starts, and says it in words.

mod elf;

use crate::c::{errno, set_errno};
use crate::reading::{File, PathBuffer};
use libc::{c_char, c_int, c_long};
use ringway_posix::Errno;
use ringway_shm::system_call::system_call;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// How far `#!` lines are followed, as Linux does.
const INTERPRETERS_MAX: usize = 4;
/// Linux reads no more of a file to find out what it is.
const HEAD_BYTES: usize = 256;
/// What is read of a program at once: almost always all that is looked at.
const FIRST_BYTES: usize = 4096;
const DEFAULT_SEARCH_PATH: &[u8] = b"/bin:/usr/bin";
const SHELL: &CStr = c"/bin/sh";

/// How a program is to this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The loader puts the library into it, or it cannot be started.
    Reached,
    /// There is no loader, or it leaves the library out.
    Unreached,
    /// Its loader ends, or complains, when it is told to load the library.
    Repelled,
    /// It could load the library, and has no use for it: it can neither open a socket nor start a program (`cat`, `sleep`).
    Useless,
}

/// May the program called `name` be started, which `look` looks at? `None`: no, in strict mode this library has to reach it; errno is ENETDOWN
/// then. Else a line says once that it is not reached, and the kernel goes on with the sockets that it inherits.
///
/// # Safety
/// `name` is null or a C string.
pub(crate) unsafe fn permit(name: *const c_char, look: impl FnOnce() -> Reach) -> Option<Reach> {
    let Some(posix) = crate::shim::posix() else { return Some(Reach::Reached) };
    let reach = match look() {
        // It may inherit a socket.
        Reach::Reached | Reach::Useless if posix.has_sockets() => {
            match !posix.has_live_sockets() || crate::environment::is_within_reach() {
                true => return Some(Reach::Reached),
                false => Reach::Repelled,
            }
        }
        reach @ (Reach::Reached | Reach::Useless) => return Some(reach),
        reach @ (Reach::Unreached | Reach::Repelled) => reach,
    };
    if posix.is_strict() {
        set_errno(Errno::NETDOWN.0);
        return None;
    }
    let before = errno();
    if !posix.is_quiet() && !name.is_null() {
        // SAFETY: the caller's promise.
        say_once(unsafe { CStr::from_ptr(name) }.to_bytes());
    }
    posix.before_unreached();
    set_errno(before.0);
    Some(reach)
}

/// Hashes of the names that were said, in memory that this image shares with all that fork from it; null: there is none.
static SAID: AtomicPtr<[AtomicU64; NAMES_MAX]> = AtomicPtr::new(std::ptr::null_mut());
/// More names than this are not said.
const NAMES_MAX: usize = 64;

/// Before the first fork: what is said once is said once for all children. A program that never forks makes none.
pub(crate) fn prepare() {
    if !SAID.load(Ordering::Acquire).is_null() {
        return;
    }
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, of zeros, at an address of the kernel's choice.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<[AtomicU64; NAMES_MAX]>(), access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return;
    }
    if SAID.compare_exchange(std::ptr::null_mut(), page.cast(), Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: mapped above; another thread was faster, and no pointer to this one exists.
        unsafe { libc::munmap(page, size_of::<[AtomicU64; NAMES_MAX]>()) };
    }
}

fn say_once(name: &[u8]) {
    prepare();
    // SAFETY: null, or what `prepare` has mapped, which is never unmapped; zeros are atomics.
    let Some(said) = (unsafe { SAID.load(Ordering::Acquire).as_ref() }) else { return };
    // FNV-1a; never 0, which is a free place.
    let hash =
        name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)) | 1;
    for place in said {
        match place.compare_exchange(0, hash, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                let why = b": not accelerated: the library cannot be loaded into it, or not reach the service; its sockets are the kernel's\n";
                return crate::stderr::say([b"ringway: ", name, why]);
            }
            Err(known) if known == hash => return,
            Err(_) => {}
        }
    }
}

/// The program at `path`, seen from `directory`; what is not there is the exec's to say.
///
/// # Safety
/// `path` is a C string.
pub(crate) unsafe fn at(directory: c_int, path: *const c_char) -> Reach {
    inspect(directory, path, INTERPRETERS_MAX)
}

/// The program behind a descriptor.
pub(crate) fn behind(fd: c_int) -> Reach {
    let mut path = PathBuffer::new();
    let mut digits = [0_u8; 10];
    let Ok(mut number) = u32::try_from(fd) else { return Reach::Reached };
    let mut at = digits.len();
    while at == digits.len() || number > 0 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    match path.push(b"/proc/self/fd/").and_then(|()| path.push(&digits[at..])) {
        Some(()) => inspect(libc::AT_FDCWD, path.as_ptr(), INTERPRETERS_MAX),
        None => Reach::Reached,
    }
}

/// The program that `execvp` finds for `file`.
///
/// # Safety
/// `file` is a C string.
pub(crate) unsafe fn found(file: *const c_char) -> Reach {
    // SAFETY: the caller's promise.
    search(unsafe { CStr::from_ptr(file) }.to_bytes(), INTERPRETERS_MAX)
}

/// The shell that `system` and `popen` start; what it starts goes through the exec wrappers of its own.
pub(crate) fn shell() -> Reach {
    inspect(libc::AT_FDCWD, SHELL.as_ptr(), INTERPRETERS_MAX)
}

fn search(file: &[u8], depth: usize) -> Reach {
    let mut path = PathBuffer::new();
    if file.contains(&b'/') {
        return path.push(file).map_or(Reach::Reached, |()| inspect(libc::AT_FDCWD, path.as_ptr(), depth));
    }
    // SAFETY: a C string of the environment, or null.
    let listed = unsafe { libc::getenv(c"PATH".as_ptr()).as_ref().map(|start| CStr::from_ptr(start).to_bytes()) };
    let before = errno();
    let is_there = listed.unwrap_or(DEFAULT_SEARCH_PATH).split(|byte| *byte == b':').any(|directory| {
        path.len = 0;
        let directory = if directory.is_empty() { &b"."[..] } else { directory };
        let whole = path.push(directory).and_then(|()| path.push(b"/")).and_then(|()| path.push(file));
        // SAFETY: a C string on the stack.
        whole.is_some() && unsafe { libc::access(path.as_ptr(), libc::X_OK) } == 0
    });
    set_errno(before.0);
    if is_there { inspect(libc::AT_FDCWD, path.as_ptr(), depth) } else { Reach::Reached }
}

/// The program at `path`. Where there is none, the exec will say so.
fn inspect(directory: c_int, path: *const c_char, depth: usize) -> Reach {
    let file = match File::open(directory, path) {
        Ok(file) => file,
        Err(Errno(libc::EACCES)) => return Reach::Unreached,
        Err(_) => return Reach::Reached,
    };
    let mut room = [MaybeUninit::uninit(); FIRST_BYTES];
    let first = file.read(0, &mut room);
    if let Some(line) = first[..first.len().min(HEAD_BYTES)].strip_prefix(b"#!") {
        return if depth == 0 { Reach::Reached } else { interpreter(line, depth - 1) };
    }
    if gains_rights(&file) {
        return Reach::Unreached;
    }
    // Not ELF: a shell reads it, or the exec fails.
    if first.starts_with(b"\x7fELF") { elf::reach_of(&file, first) } else { Reach::Reached }
}

fn gains_rights(file: &File) -> bool {
    let Some(status) = file.status() else { return false };
    // SAFETY: no arguments.
    let (uid, gid) = unsafe { (system_call(libc::SYS_getuid, [0; 6]), || system_call(libc::SYS_getgid, [0; 6])) };
    let other_user = status.st_mode & libc::S_ISUID != 0 && c_long::from(status.st_uid) != uid;
    let both = libc::S_ISGID | libc::S_IXGRP;
    let other_group = status.st_mode & both == both && c_long::from(status.st_gid) != gid();
    // Root has all capabilities anyway; nothing is gained.
    other_user || other_group || uid != 0 && file.has_capabilities()
}

/// The program of a `#!` line; `/usr/bin/env NAME` is followed to NAME.
fn interpreter(line: &[u8], depth: usize) -> Reach {
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let Some(program) = words.next() else { return Reach::Reached };
    if !program.ends_with(b"/env") {
        return search(program, depth);
    }
    let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    name.map_or(Reach::Reached, |name| search(name, depth))
}
