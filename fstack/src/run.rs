//! ff_init, and the loop of ff_run.
//!
//! F-Stack calls the program's function without a pause, and a core is busy with it. Here the loop notices rounds in which nothing happened:
//! after [`IDLE_ROUNDS`] of them the first look for events of a round waits for one, a millisecond at most.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libc::{c_char, c_int};
use ringway_cabi::{NOT_ON_RINGWAY, is_on_ringway, raise_descriptors};

use crate::config;

/// Rounds without an event until the loop sleeps.
const IDLE_ROUNDS: u32 = 16;
/// What a round may sleep: programs do other things in their loop too.
const NAP: Duration = Duration::from_millis(1);
/// A round that looks for no events sleeps this long.
const BLIND_NAP: Duration = Duration::from_micros(50);

static STOPS: AtomicBool = AtomicBool::new(false);

/// What a thread in ff_run knows of its rounds.
#[derive(Clone, Copy, Default)]
struct Rounds {
    is_running: bool,
    /// Since the last one with an event.
    idle: u32,
    has_worked: bool,
    has_waited: bool,
}

thread_local!(static ROUNDS: Cell<Rounds> = const {
    Cell::new(Rounds { is_running: false, idle: 0, has_worked: false, has_waited: false })
});

fn change(what: impl FnOnce(&mut Rounds)) {
    ROUNDS.with(|cell| {
        let mut rounds = cell.get();
        what(&mut rounds);
        cell.set(rounds);
    });
}

/// Notes that a call has moved something, if it has.
pub(crate) fn note_work(has_moved: bool) {
    if has_moved {
        change(|rounds| rounds.has_worked = true);
    }
}

/// Is this thread in its function of ff_run?
pub(crate) fn is_running() -> bool {
    ROUNDS.get().is_running
}

/// How long a call waits for events that is asked to wait so long: one that does not want to wait may do so where nothing happens.
pub(crate) fn waits(timeout: Duration) -> Duration {
    let mut rounds = ROUNDS.get();
    let is_first = !std::mem::replace(&mut rounds.has_waited, true);
    ROUNDS.set(rounds);
    let may_nap = rounds.is_running && is_first && rounds.idle >= IDLE_ROUNDS;
    if timeout.is_zero() && may_nap { NAP } else { timeout }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_init(count: c_int, arguments: *const *const c_char) -> c_int {
    let arguments: Vec<String> = (0..count.max(0) as usize)
        .map_while(|index| {
            // SAFETY: as the crate says: so many arguments, each a text.
            let argument = unsafe { arguments.add(index).read() };
            // SAFETY: the same.
            (!argument.is_null()).then(|| unsafe { CStr::from_ptr(argument) }.to_string_lossy().into_owned())
        })
        .collect();
    match config::load(&arguments) {
        Ok(ignored) if ignored.is_empty() => {}
        Ok(ignored) => eprintln!("f-stack: without effect here: {}", ignored.join(", ")),
        Err(text) => {
            eprintln!("f-stack: {text}");
            return -1;
        }
    }
    if !is_on_ringway() {
        eprintln!("f-stack: {NOT_ON_RINGWAY}");
    }
    raise_descriptors();
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_run(round: Option<extern "C" fn(*mut c_void) -> c_int>, argument: *mut c_void) {
    let Some(round) = round else { return };
    STOPS.store(false, Ordering::Release);
    change(|rounds| *rounds = Rounds { is_running: true, ..Rounds::default() });
    while !STOPS.load(Ordering::Acquire) {
        change(|rounds| (rounds.has_worked, rounds.has_waited) = (false, false));
        round(argument);
        change(|rounds| rounds.idle = if rounds.has_worked { 0 } else { rounds.idle.saturating_add(1) });
        let rounds = ROUNDS.get();
        if rounds.idle > IDLE_ROUNDS && !rounds.has_waited {
            std::thread::sleep(BLIND_NAP);
        }
    }
    change(|rounds| *rounds = Rounds::default());
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_stop_run() {
    STOPS.store(true, Ordering::Release);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    ringway_cabi::call!(libc::pthread_create(thread, attributes, start, argument))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_pthread_join(thread: libc::pthread_t, value: *mut *mut c_void) -> c_int {
    ringway_cabi::call!(libc::pthread_join(thread, value))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_gettimeofday(time: *mut libc::timeval, zone: *mut c_void) -> c_int {
    ringway_cabi::call!(libc::gettimeofday(time, zone.cast()))
}
