//! The environment variables that `ringway run` sets (or, for a program of the machine's list, `listed`), and keeping them for the programs
//! that this one starts.
//!
//! Promises: reading them takes no memory from the heap, since every program that starts does it, most of them without ever opening
//! a socket.

use crate::listed;
use crate::reach::Reach;
use crate::reading::{File, PathBuffer};
use crate::real::Strings;
use libc::{c_char, c_long};
use ringway_channel::attach::{DIRECTORY_VARIABLE, Door, LIST_BYTES};
use ringway_posix::channel::{Attach, Channel, NotAttached};
use ringway_posix::fallback::Fd;
use ringway_posix::{FirstUse, Settings};
use ringway_shm::system_call::system_call;
use std::borrow::Cow;
use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;

/// What a child needs.
#[expect(clippy::disallowed_types, reason = "the library's constructor sets it, before the program has threads")]
static KEPT: std::sync::OnceLock<Kept> = std::sync::OnceLock::new();

const NAMES: [&str; 8] =
    [PRELOAD, "RINGWAY_SOCKET", "RINGWAY_GROUP", "RINGWAY_STRICT", "RINGWAY_QUIET", "RINGWAY_LOG", DIRECTORY_VARIABLE, ASAN];
const PRELOAD: &str = "LD_PRELOAD";
/// AddressSanitizer ends a program whose first library is not its own, unless it is told not to look.
const ASAN: &str = "ASAN_OPTIONS";
const ASAN_LOOKS: &[u8] = b"verify_asan_link_order";
/// Of all programs of the machine.
const LOADERS_LIST: &CStr = c"/etc/ld.so.preload";
const LOADERS_LIST_BYTES: usize = 1024;
/// The file of this library. The loader knows the name too, but behind a lock, which a forked child may never get.
const LIBRARY: &[u8] = b"libringway_preload.so";
/// A path of a library, one of a socket, and short words.
const KEPT_BYTES: usize = 1024;

/// Copies of the strings of an environment that have one of [`NAMES`], since the program may write over its own.
pub(crate) struct Kept {
    /// `NAME=value` with its NUL, one behind the other.
    bytes: [u8; KEPT_BYTES],
    len: usize,
    /// What had no room there.
    long: Vec<CString>,
}

impl Kept {
    /// Of a name that stands there twice the first counts, as for getenv(3).
    pub(crate) fn of<'a>(environment: impl Iterator<Item = &'a CStr>) -> Kept {
        let mut kept = Kept { bytes: [0; KEPT_BYTES], len: 0, long: Vec::new() };
        for string in environment {
            if let Some(name) = NAMES.iter().find(|name| value_of(string, name).is_some())
                && kept.value(name).is_none()
            {
                kept.push(string);
            }
        }
        kept
    }

    fn push(&mut self, string: &CStr) {
        let bytes = string.to_bytes_with_nul();
        match self.bytes.get_mut(self.len..self.len + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.long.push(string.to_owned()),
        }
    }

    /// A function of its own, whose large frame few programs need.
    #[inline(never)]
    fn add_listed_program(&mut self) -> Option<()> {
        self.add_listed(listed::service_of_this_program(&mut [MaybeUninit::uninit(); LIST_BYTES])?)
    }

    /// Adds what a listed program is started without: its service, and a group for itself and its children.
    pub(crate) fn add_listed(&mut self, service: &[u8]) -> Option<()> {
        let mut token = [0_u8; 16];
        // SAFETY: a local of that length.
        let count =
            unsafe { system_call(libc::SYS_getrandom, [token.as_mut_ptr() as c_long, token.len() as c_long, 0, 0, 0, 0]) };
        let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
        let mut digits = [0_u8; 32];
        digits.iter_mut().enumerate().for_each(|(at, to)| *to = digit(token[at / 2] >> (4 * (1 - at % 2)) & 15));
        if usize::try_from(count) != Ok(token.len()) {
            return None;
        }
        self.add(&[b"RINGWAY_SOCKET=", service, b"\0"])?;
        match self.value("RINGWAY_GROUP") {
            Some(_) => Some(()),
            None => self.add(&[b"RINGWAY_GROUP=", &digits, b"\0"]),
        }
    }

    /// `None`: there is no room.
    fn add(&mut self, parts: &[&[u8]]) -> Option<()> {
        for part in parts {
            let end = self.len + part.len();
            self.bytes.get_mut(self.len..end)?.copy_from_slice(part);
            self.len = end;
        }
        Some(())
    }

    fn strings(&self) -> impl Iterator<Item = &CStr> {
        let short = self.bytes[..self.len].split_inclusive(|byte| *byte == 0);
        short.filter_map(|bytes| CStr::from_bytes_with_nul(bytes).ok()).chain(self.long.iter().map(CString::as_c_str))
    }

    pub(crate) fn value(&self, name: &str) -> Option<&[u8]> {
        self.strings().find_map(|string| value_of(string, name))
    }

    /// What a child gets in place of a string of its environment; `None`: the string.
    ///
    /// # Safety
    /// `string` is a C string.
    unsafe fn in_place_of(&self, string: *const c_char, reach: Reach) -> Option<Cow<'static, CStr>> {
        // SAFETY: the caller's promise.
        let value =
            |name: &str| unsafe { has_prefix(string, name.as_bytes()).then(|| value_of(CStr::from_ptr(string), name)).flatten() };
        let other = match reach {
            Reach::Repelled | Reach::Useless if value(PRELOAD).is_some_and(is_alone) => {
                return Some(Cow::Borrowed(c"LD_PRELOAD="));
            }
            Reach::Useless => return None,
            Reach::Repelled => without_library(value(PRELOAD)?)?,
            _ if self.value(ASAN).is_none() => return None,
            _ => {
                let options = value(ASAN).filter(|options| !options.windows(ASAN_LOOKS.len()).any(|word| word == ASAN_LOOKS))?;
                [ASAN.as_bytes(), b"=", options, b":", ASAN_LOOKS, b"=0"].concat()
            }
        };
        CString::new(other).ok().map(Cow::Owned)
    }

    /// Is a switch on? (Set to anything but 0 and nothing.)
    fn is_set(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| !matches!(value, b"" | b"0"))
    }
}

/// `None`: the string has another name.
fn value_of<'a>(string: &'a CStr, name: &str) -> Option<&'a [u8]> {
    string.to_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// Could a program that this process becomes load the library, and reach the service? Both are looked for where the process is now.
pub(crate) fn is_within_reach() -> bool {
    let Some(kept) = KEPT.get() else { return true };
    let mut room = [MaybeUninit::uninit(); LOADERS_LIST_BYTES];
    let preloaded = match kept.value(PRELOAD).filter(|preloaded| paths(preloaded).any(is_ours)) {
        Some(preloaded) => preloaded,
        None => File::open(libc::AT_FDCWD, LOADERS_LIST.as_ptr()).map(|list| list.read(0, &mut room)).unwrap_or_default(),
    };
    let library = paths(preloaded).find(|path| is_ours(path));
    // What is named without a folder is the loader's to find.
    library.is_some_and(|path| !path.contains(&b'/') || is_there(path))
        && door(kept).path().is_ok_and(|door| is_there(door.as_os_str().as_bytes()))
}

fn is_there(path: &[u8]) -> bool {
    let mut whole = PathBuffer::new();
    // SAFETY: a C string on the stack.
    whole.push(path).is_some() && unsafe { libc::access(whole.as_ptr(), libc::F_OK) } == 0
}

/// Names of libraries stand between colons or spaces, in a file also on lines of their own (ld.so(8)).
fn paths(preloaded: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    preloaded.split(|byte| matches!(byte, b':' | b' ' | b'\t' | b'\n')).filter(|path| !path.is_empty())
}

fn is_ours(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next() == Some(LIBRARY)
}

/// Is this library there, and no other?
fn is_alone(preloaded: &[u8]) -> bool {
    let mut paths = paths(preloaded).peekable();
    paths.peek().is_some() && paths.all(is_ours)
}

/// A variable with this value but for this library; `None`: the library is not there.
fn without_library(preloaded: &[u8]) -> Option<Vec<u8>> {
    let has_ours = paths(preloaded).any(is_ours);
    let others: Vec<&[u8]> = paths(preloaded).filter(|path| !is_ours(path)).collect();
    has_ours.then(|| [PRELOAD.as_bytes(), b"=", &others.join(&b':')].concat())
}

/// Reads the program's environment, when it starts, and without a service in it the machine's list of programs; `None` when this process is
/// not under Ringway. A program that gains rights is not, whatever its caller has set.
pub(crate) fn read() -> Option<Settings> {
    // SAFETY: reads the vector that the kernel has given to the program.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    // SAFETY: glibc's environ, before the program runs.
    let own = unsafe { strings_of(crate::process::own_environment()) };
    // SAFETY: entries of environ are C strings.
    let ours = own.iter().filter(|string| NAMES.iter().any(|name| unsafe { has_prefix(**string, name.as_bytes()) }));
    // SAFETY: as above.
    let mut kept = Kept::of(ours.map(|string| unsafe { CStr::from_ptr(*string) }));
    match kept.value("RINGWAY_SOCKET") {
        Some([]) => return None,
        Some(_) => {}
        None => kept.add_listed_program()?,
    }
    let settings = Settings {
        strict: kept.is_set("RINGWAY_STRICT"),
        quiet: kept.is_set("RINGWAY_QUIET"),
        log_fallback: kept
            .value("RINGWAY_LOG")
            .is_some_and(|value| value.split(|byte| *byte == b',').any(|word| word == b"fallback")),
    };
    KEPT.set(kept).ok()?;
    Some(settings)
}

/// The way to the service that the environment names.
fn door(kept: &Kept) -> Door {
    let [socket, directory] =
        ["RINGWAY_SOCKET", DIRECTORY_VARIABLE].map(|name| OsStr::from_bytes(kept.value(name).unwrap_or_default()));
    Door::of(socket, Some(directory))
}

/// The service that the environment names, of which nothing is made before the first socket.
pub(crate) struct NamedService;

impl NamedService {
    fn get() -> &'static dyn Attach {
        static NAMED: FirstUse<Box<dyn Attach>> = FirstUse::new();
        &**NAMED.get_or_init(|| {
            let kept = KEPT.get().expect("a process under Ringway has it");
            let group = String::from_utf8_lossy(kept.value("RINGWAY_GROUP").unwrap_or_default());
            Box::new(ringway_posix::client::from_environment(door(kept), &group))
        })
    }
}

impl Attach for NamedService {
    fn attach(&self, floor: Fd, earlier: u32) -> Result<Box<dyn Channel>, NotAttached> {
        NamedService::get().attach(floor, earlier)
    }

    fn service(&self) -> String {
        NamedService::get().service()
    }
}

/// Looks no further than the first byte that differs.
///
/// # Safety
/// `string` is a C string.
unsafe fn has_prefix(string: *const c_char, prefix: &[u8]) -> bool {
    // SAFETY: the caller's promise: no byte behind the NUL is read, because none of `prefix` is one.
    prefix.iter().enumerate().all(|(at, byte)| unsafe { *string.add(at) }.cast_unsigned() == *byte)
}

/// # Safety
/// `strings` is null or an array of C strings that ends with null, and lives as long as the caller likes.
unsafe fn strings_of<'a>(strings: Strings) -> &'a [*const c_char] {
    let mut count = 0;
    // SAFETY: the caller's promise: everything up to the null entry is there.
    while !strings.is_null() && unsafe { !(*strings.add(count)).is_null() } {
        count += 1;
    }
    match count {
        0 => &[],
        // SAFETY: as above.
        _ => unsafe { std::slice::from_raw_parts(strings, count) },
    }
}

/// An environment for exec: the program's own, and what it lacks of ours.
pub(crate) struct Environment {
    strings: Strings,
    /// An array that has no room on the stack.
    _array: Vec<*const c_char>,
    /// Strings that are neither the program's nor kept.
    _made: Vec<CString>,
}

/// Where an array is made that is not too long: a child of fork that takes memory from the heap pays for a copy of each page it touches.
pub(crate) struct Room([MaybeUninit<*const c_char>; ROOM]);
const ROOM: usize = 128;

impl Room {
    pub(crate) const fn new() -> Room {
        Room([MaybeUninit::uninit(); ROOM])
    }
}

impl Environment {
    /// # Safety
    /// `given` is null or an array of C strings that ends with null. `room` outlives the answer's array.
    pub(crate) unsafe fn complete(given: Strings, reach: Reach, room: &mut Room) -> Environment {
        match KEPT.get() {
            // SAFETY: the caller's promise.
            Some(kept) => unsafe { Environment::with(kept, given, reach, room) },
            None => Environment::given(given),
        }
    }

    fn given(strings: Strings) -> Environment {
        Environment { strings, _array: Vec::new(), _made: Vec::new() }
    }

    /// `given`, and of `kept` what it lacks; without this library for a program that it repels, or that has no use for it and none for others.
    ///
    /// # Safety
    /// As for `complete`; `kept` outlives the answer.
    pub(crate) unsafe fn with(kept: &Kept, given: Strings, reach: Reach, room: &mut Room) -> Environment {
        // SAFETY: the caller's promise.
        let programs = unsafe { strings_of(given) };
        let lacks = |ours: &&CStr| {
            let name_len = ours.to_bytes().iter().position(|byte| *byte == b'=').expect("made as NAME=value") + 1;
            let name = &ours.to_bytes()[..name_len];
            let is_left_out = name.strip_suffix(b"=") == Some(PRELOAD.as_bytes())
                && match reach {
                    Reach::Repelled => true,
                    Reach::Useless => kept.value(PRELOAD).is_some_and(is_alone),
                    Reach::Reached | Reach::Unreached => false,
                };
            // SAFETY: entries of the program's array are C strings.
            !is_left_out && !programs.iter().any(|string| unsafe { has_prefix(*string, name) })
        };
        // SAFETY: as above.
        let other = |string: &*const c_char| unsafe { kept.in_place_of(*string, reach) };
        // Most programs pass on what they have.
        if !kept.strings().any(|ours| lacks(&ours)) && !programs.iter().any(|string| other(string).is_some()) {
            return Environment::given(given);
        }
        let (mut array, mut made) = (Vec::new(), Vec::new());
        let count = programs.len() + NAMES.len() + 1;
        let places = if count <= ROOM {
            &mut room.0[..]
        } else {
            array.reserve_exact(count);
            array.spare_capacity_mut()
        };
        let changed = programs.iter().map(|string| match other(string) {
            None => *string,
            Some(Cow::Borrowed(other)) => other.as_ptr(),
            Some(Cow::Owned(other)) => {
                made.push(other);
                made.last().map_or(*string, |other| other.as_ptr())
            }
        });
        let strings = changed.chain(kept.strings().filter(lacks).map(CStr::as_ptr)).chain([std::ptr::null()]);
        for (place, string) in places.iter_mut().zip(strings) {
            place.write(string);
        }
        Environment { strings: places.as_ptr().cast(), _array: array, _made: made }
    }

    /// The array to pass.
    pub(crate) fn as_ptr(&self) -> Strings {
        self.strings
    }
}
