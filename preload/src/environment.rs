//! The environment variables that `ringway run` sets, and keeping them for the programs that this one starts.

use crate::real::Strings;
use libc::c_char;
use ringway_posix::channel::Attach;
use std::ffi::{CStr, CString};

/// `NAME=value` for each variable that a child needs.
#[expect(clippy::disallowed_types, reason = "the library's constructor sets it, before the program has threads")]
static KEPT: std::sync::OnceLock<Vec<CString>> = std::sync::OnceLock::new();

const NAMES: [&str; 6] = ["LD_PRELOAD", "RINGWAY_SOCKET", "RINGWAY_GROUP", "RINGWAY_STRICT", "RINGWAY_QUIET", "RINGWAY_LOG"];

/// How to attach; `None` when this process is not under Ringway.
pub(crate) fn read() -> Option<Box<dyn Attach>> {
    let socket = std::env::var_os("RINGWAY_SOCKET").filter(|path| !path.is_empty())?;
    let group = std::env::var("RINGWAY_GROUP").unwrap_or_default();
    let kept = NAMES.iter().filter_map(|name| {
        let value = std::env::var_os(name)?;
        CString::new([name.as_bytes(), b"=", value.as_encoded_bytes()].concat()).ok()
    });
    KEPT.set(kept.collect()).ok()?;
    Some(ringway_posix::client::from_environment(socket.into(), &group))
}

/// Is a switch on? (Set to anything but 0 and nothing.)
pub(crate) fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| !value.is_empty() && value != "0")
}

/// An environment for exec: the program's own, and what it lacks of ours.
pub(crate) enum Environment {
    /// The program's own is complete.
    Given(Strings),
    /// A new array; the strings are the program's and ours.
    Extended(Vec<*const c_char>),
}

impl Environment {
    /// # Safety
    /// `given` is null or an array of C strings that ends with null.
    pub(crate) unsafe fn complete(given: Strings) -> Environment {
        // SAFETY: the caller's promise.
        unsafe { Environment::with(KEPT.get().map_or(&[], Vec::as_slice), given) }
    }

    /// `given`, and of `kept` what it lacks.
    ///
    /// # Safety
    /// As for `complete`; `kept` outlives the answer.
    pub(crate) unsafe fn with(kept: &[CString], given: Strings) -> Environment {
        let mut program_count = 0;
        // SAFETY: the caller's promise: everything up to the null entry is there.
        while !given.is_null() && unsafe { !(*given.add(program_count)).is_null() } {
            program_count += 1;
        }
        let programs: &[*const c_char] = match program_count {
            0 => &[],
            // SAFETY: as above.
            _ => unsafe { std::slice::from_raw_parts(given, program_count) },
        };
        let lacks = |ours: &&CString| {
            let name_len = ours.to_bytes().iter().position(|byte| *byte == b'=').expect("made as NAME=value") + 1;
            let name = &ours.to_bytes()[..name_len];
            // SAFETY: an entry of the program's array is a C string.
            !programs.iter().any(|string| unsafe { CStr::from_ptr(*string) }.to_bytes().starts_with(name))
        };
        // Most programs pass on what they have: no memory is taken then, which may be a child of fork with a copy of all it touches.
        if !kept.iter().any(|ours| lacks(&ours)) {
            return Environment::Given(given);
        }
        let mut strings = programs.to_vec();
        strings.extend(kept.iter().filter(lacks).map(|ours| ours.as_ptr()));
        strings.push(std::ptr::null());
        Environment::Extended(strings)
    }

    /// The array to pass.
    pub(crate) fn as_ptr(&self) -> Strings {
        match self {
            Environment::Given(given) => *given,
            Environment::Extended(strings) => strings.as_ptr(),
        }
    }
}
