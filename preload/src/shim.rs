//! The one instance of the room in this process: made when the library is loaded, never dropped.

use crate::environment::{self, NamedService};
use crate::kernel::LibcKernel;
use libc::c_int;
use ringway_posix::Posix;
use ringway_posix::fd_table::{Entry, SocketRef};
use std::sync::atomic::{AtomicBool, Ordering};

/// Not on the heap, which a program may start without.
#[expect(clippy::disallowed_types, reason = "the library's constructor sets it, before the program has threads")]
static SHIM: std::sync::OnceLock<Posix> = std::sync::OnceLock::new();

/// The room; `None` when RINGWAY_SOCKET is not set, and before the constructor has run.
#[inline]
pub(crate) fn posix() -> Option<&'static Posix> {
    #[cfg(test)]
    if let Some(posix) = crate::fake::posix() {
        return Some(posix);
    }
    SHIM.get()
}

/// The socket of ours behind a descriptor, for calls that carry bytes. Two loads: the call itself finds out whether the kernel has got
/// the socket ([`Posix::settled`]).
#[inline]
pub(crate) fn ours_fast(fd: c_int) -> Option<(&'static Posix, SocketRef)> {
    let posix = posix()?;
    posix.table().socket(fd).map(|socket| (posix, socket))
}

/// The socket of ours behind a descriptor, which is the kernel's if it has been handed over.
pub(crate) fn ours(fd: c_int) -> Option<(&'static Posix, SocketRef)> {
    let posix = posix()?;
    posix.socket_of(fd).map(|socket| (posix, socket))
}

/// What a descriptor stands for; see [`ours`].
pub(crate) fn entry(fd: c_int) -> Entry {
    posix().map_or(Entry::None, |posix| posix.entry_of(fd))
}

/// A copy of the library serves this program. `ringway run` and /etc/ld.so.preload may name two, which have this variable together: the
/// loader binds references to exported data, other than to functions (`build.rs`), to the first one that it finds.
#[unsafe(no_mangle)]
pub static RINGWAY_PRELOAD_SERVES: AtomicBool = AtomicBool::new(false);

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = load;

/// Runs when the loader has mapped the library, before `main`.
extern "C" fn load() {
    let Some(settings) = environment::read() else { return };
    if RINGWAY_PRELOAD_SERVES.swap(true, Ordering::Relaxed) {
        return;
    }
    let posix = SHIM.get_or_init(|| Posix::new(Box::new(LibcKernel), Box::new(NamedService), settings));
    // SAFETY: the three handlers are plain functions that live as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    posix.adopt_inherited();
    if posix.attached().is_some() {
        (0..=2).for_each(crate::stdio::follow);
    }
}

unsafe extern "C" fn prepare() {
    if let Some(posix) = posix() {
        if !posix.is_quiet() {
            crate::reach::prepare();
        }
        crate::real::find_for_children();
        posix.before_fork();
    }
}

unsafe extern "C" fn parent() {
    if let Some(posix) = posix() {
        posix.fork_is_over();
    }
}

unsafe extern "C" fn child() {
    if let Some(posix) = posix() {
        posix.after_fork_in_child();
    }
}
