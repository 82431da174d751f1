//! setsockopt(2) and getsockopt(2) with numbers and structures of plain words.

use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::{Agreed, Info, Windows};
use crate::sys::check;

/// Level and name of an option.
pub(super) type Name = (libc::c_int, libc::c_int);

pub(super) const REPAIR: Name = (libc::SOL_TCP, libc::TCP_REPAIR);
pub(super) const REPAIR_QUEUE: Name = (libc::SOL_TCP, libc::TCP_REPAIR_QUEUE);
pub(super) const QUEUE_SEQUENCE: Name = (libc::SOL_TCP, libc::TCP_QUEUE_SEQ);
pub(super) const TIMESTAMP: Name = (libc::SOL_TCP, libc::TCP_TIMESTAMP);
pub(super) const UPPER_PROTOCOL: Name = (libc::SOL_TCP, libc::TCP_ULP);
const REPAIR_OPTIONS: Name = (libc::SOL_TCP, libc::TCP_REPAIR_OPTIONS);
const REPAIR_WINDOW: Name = (libc::SOL_TCP, 29);
/// TCPI_OPT_TIMESTAMPS, TCPI_OPT_SACK, TCPI_OPT_ECN
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const ECN: u8 = 8;
/// Linux 5.14.
pub(super) const SO_BUF_LOCK: libc::c_int = 72;

/// # Safety
/// The value is plain data of the size that the kernel takes for the option, or it refuses it.
unsafe fn set_value<T>(socket: BorrowedFd<'_>, (level, name): Name, value: &T) -> io::Result<()>
where
    T: ?Sized,
{
    let (place, bytes) = (std::ptr::from_ref(value).cast(), size_of_val(value) as libc::socklen_t);
    // SAFETY: the kernel reads at most so many bytes of what this call borrows.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, place, bytes) })?;
    Ok(())
}

pub(super) fn set(socket: BorrowedFd<'_>, name: Name, value: i32) -> io::Result<()> {
    // SAFETY: four bytes without pointers.
    unsafe { set_value(socket, name, &value) }
}

pub(super) fn set_large(socket: BorrowedFd<'_>, name: Name, value: u64) -> io::Result<()> {
    // SAFETY: eight bytes; the options of this module that take so many have no pointers.
    unsafe { set_value(socket, name, &value) }
}

/// Codes and values of TCP_REPAIR_OPTIONS.
pub(super) fn set_pairs(socket: BorrowedFd<'_>, pairs: &[[u32; 2]]) -> io::Result<()> {
    // SAFETY: `struct tcp_repair_opt` is two words, and the option takes an array of it.
    unsafe { set_value(socket, REPAIR_OPTIONS, pairs) }
}

pub(super) fn set_windows(socket: BorrowedFd<'_>, windows: Windows) -> io::Result<()> {
    // SAFETY: the structure is the kernel's, five words.
    unsafe { set_value(socket, REPAIR_WINDOW, &windows) }
}

/// # Safety
/// The kernel writes plain data of the size of `T` for the option, or less, and any bytes are a `T`.
unsafe fn read_value<T>(socket: BorrowedFd<'_>, (level, name): Name, value: &mut T) -> io::Result<()> {
    let mut bytes = size_of_val(value) as libc::socklen_t;
    let place = std::ptr::from_mut(value).cast();
    // SAFETY: the kernel writes at most so many bytes into what this call borrows, and their number into a local.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, place, &mut bytes) })?;
    Ok(())
}

pub(super) fn get(socket: BorrowedFd<'_>, name: Name) -> io::Result<i32> {
    let mut value = 0;
    // SAFETY: a number.
    unsafe { read_value(socket, name, &mut value) }?;
    Ok(value)
}

/// Bytes of an option that is a text; 0: it is not set.
pub(super) fn length(socket: BorrowedFd<'_>, (level, name): Name) -> io::Result<usize> {
    let mut text = [0_u8; 16];
    let mut bytes = text.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most so many bytes into a local, and their number into another.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, text.as_mut_ptr().cast(), &mut bytes) })?;
    Ok(bytes as usize)
}

pub(super) fn windows(socket: BorrowedFd<'_>) -> io::Result<Windows> {
    let mut windows = Windows::default();
    // SAFETY: the structure is the kernel's, five words.
    unsafe { read_value(socket, REPAIR_WINDOW, &mut windows) }?;
    Ok(windows)
}

pub(super) fn info(socket: BorrowedFd<'_>) -> io::Result<Info> {
    // The beginning of `struct tcp_info`; the kernel writes as much as there is room for. Words of bytes, then words.
    let mut words = [0u32; 37];
    // SAFETY: numbers.
    unsafe { read_value(socket, (libc::SOL_TCP, libc::TCP_INFO), &mut words) }?;
    let (state, options) = (words[0].to_ne_bytes()[0], words[1].to_ne_bytes()[1]);
    // Two fields of four bits, the first of which is the first of the byte where the machine is little-endian.
    let scales = words[1].to_ne_bytes()[2];
    let (first, second) = if cfg!(target_endian = "little") { (scales & 15, scales >> 4) } else { (scales >> 4, scales & 15) };
    let (timestamps, sack) = (options & TIMESTAMPS != 0, options & SACK != 0);
    let agreed = Agreed { mss: words[4] as u16, send_scale: first, receive_scale: second, sack, timestamps };
    Ok(Info {
        state,
        agreed,
        unacknowledged: words[6],
        round_trip_us: words[17],
        round_trip_variance_us: words[18],
        unsent: words[36],
        silent_ms: words[11].min(words[13]),
        ecn: options & ECN != 0,
    })
}
