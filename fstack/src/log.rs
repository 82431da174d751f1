//! The log of F-Stack programs: levels, types and the file. `ff_log.h` prints; C's formats are its.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{FILE, c_char, c_int};
use ringway_cabi::call;

use crate::sockets::lock;

/// FF_LOG_INFO
const INFO: u32 = 7;
const TYPES: usize = 32;

static GLOBAL: AtomicU32 = AtomicU32::new(INFO);
static LEVELS: [AtomicU32; TYPES] = [const { AtomicU32::new(INFO) }; TYPES];

/// The program's file; `None`: stderr. `is_own`: this library has opened it.
struct File {
    stream: *mut FILE,
    is_own: bool,
}

// SAFETY: streams of libc lock themselves.
unsafe impl Send for File {}

static FILE: Mutex<Option<File>> = Mutex::new(None);

/// Opens a file for the log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_log_open_set(path: *const c_char) -> c_int {
    let stream = call!(libc::fopen(path, c"a".as_ptr()));
    if stream.is_null() {
        return -1;
    }
    ff_log_close();
    *lock(&FILE) = Some(File { stream, is_own: true });
    0
}

/// The log goes to a stream of the program's; null: to stderr.
#[unsafe(no_mangle)]
pub extern "C" fn ff_log_reset_stream(stream: *mut FILE) -> c_int {
    ff_log_close();
    *lock(&FILE) = (!stream.is_null()).then_some(File { stream, is_own: false });
    0
}

/// Closes the file that ff_log_open_set has opened; a stream of the program's stays.
#[unsafe(no_mangle)]
pub extern "C" fn ff_log_close() {
    let mut file = lock(&FILE);
    if let Some(own) = file.take_if(|file| file.is_own) {
        // SAFETY: it was opened here, and no one else has it.
        unsafe { libc::fclose(own.stream) };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_log_set_global_level(level: u32) {
    GLOBAL.store(level, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_log_set_level(kind: u32, level: u32) -> c_int {
    match LEVELS.get(kind as usize) {
        Some(place) => {
            place.store(level, Ordering::Relaxed);
            0
        }
        None => -1,
    }
}

/// May a message of this level and type be printed?
#[unsafe(no_mangle)]
pub extern "C" fn ff_log_is_printed(level: u32, kind: u32) -> c_int {
    let of_kind = LEVELS.get(kind as usize).map_or(INFO, |place| place.load(Ordering::Relaxed));
    c_int::from(level <= GLOBAL.load(Ordering::Relaxed) && level <= of_kind)
}

/// Where messages go; null: to stderr.
#[unsafe(no_mangle)]
pub extern "C" fn ff_log_stream() -> *mut FILE {
    lock(&FILE).as_ref().map_or(std::ptr::null_mut(), |file| file.stream)
}
