//! close, dup, fcntl, ioctl: what happens to descriptors.

use crate::c::{self, checked, number, status};
use crate::real;
use crate::shim::{entry, ours, posix};
use libc::{c_int, c_uint, c_ulong};
use ringway_posix::fallback::OnExec;
use ringway_posix::fd_table::Entry;
use ringway_posix::{Answer, Control, Errno};

/// close(2). Our own descriptors are not the program's to close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    match posix().and_then(|posix| posix.close(fd)) {
        Some(answer) => status(answer),
        // SAFETY: the program's own call.
        None => unsafe { real::close(fd) },
    }
}

/// close_range(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let (from, to) = (c_int::try_from(first), c_int::try_from(last).unwrap_or(c_int::MAX));
    let closes = flags & !UNSHARE == 0;
    let close_range = |first, last| close_kernel_range(first, last, flags);
    if let (Some(posix), Ok(from), true) = (posix(), from, closes)
        && from <= to
    {
        // UNSHARE gives the calling thread a table of its own first; it often is the only thread, before exec.
        let apart = if flags & UNSHARE != 0 { posix.close_range_apart(from, to, close_range) } else { None };
        if let Some(answer) = apart.or_else(|| posix.close_range(from, to, close_range)) {
            return status(answer);
        }
    }
    // SAFETY: the program's own call. With CLOEXEC nothing of ours changes before exec.
    let answer = unsafe { real::close_range(first, last, flags) };
    if answer == 0 && flags & UNSHARE != 0 {
        note_unshared();
    }
    answer
}

/// unshare(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    let answer = unsafe { real::unshare(flags) };
    if answer == 0 && flags & libc::CLONE_FILES != 0 {
        note_unshared();
    }
    answer
}

fn note_unshared() {
    if let Some(posix) = posix() {
        posix.note_unshared();
    }
}

/// closefrom(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: plain numbers. It cannot fail in a way that the caller could hear of.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// linux/close_range.h
const UNSHARE: c_int = 2;

fn close_kernel_range(first: c_int, last: c_int, flags: c_int) -> Answer<()> {
    let last = if last == c_int::MAX { c_uint::MAX } else { last as c_uint };
    // SAFETY: the program has asked for the closing of a range that covers this one.
    checked(unsafe { real::close_range(first as c_uint, last, flags) }).map(drop)
}

/// fclose(3): libc closes the descriptor inside itself, so our share of it is let go here; before, since another thread may get the
/// number as soon as it is free. Streams of ours close through `close` (`stdio.rs`), behind what they still have to write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fclose(stream: *mut libc::FILE) -> c_int {
    // SAFETY: the program promises a stream.
    let fd = if stream.is_null() { -1 } else { unsafe { libc::fileno(stream) } };
    if let (Some(posix), true) = (posix(), fd >= 0 && !crate::stdio::is_ours(stream)) {
        posix.let_go(fd);
    }
    // SAFETY: the program's own call.
    unsafe { real::fclose(stream) }
}

/// dup(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    let (posix, entry) = (posix(), entry(fd));
    if let (Some(posix), Entry::Epoll(_)) = (posix, &entry)
        && let Some(answer) = posix.duplicate_epoll(fd, 0, OnExec::Keep)
    {
        return number(answer);
    }
    match (posix, entry) {
        (Some(posix), Entry::Socket(socket)) => followed(posix.duplicate(fd, socket, 0, OnExec::Keep)),
        (_, Entry::Internal) => number(Err(Errno::BADF)),
        // SAFETY: the program's own call.
        _ => noted(fd, crate::makers::make(|| unsafe { real::dup(fd) })),
    }
}

/// A new number of what is not ours yet.
fn noted(old: c_int, new: c_int) -> c_int {
    if let (Some(posix), true) = (posix(), new >= 0) {
        let before = c::errno();
        posix.note_copy(old, new);
        c::set_errno(before.0);
    }
    new
}

/// dup2(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(old: c_int, new: c_int) -> c_int {
    if let (Some(posix), true) = (posix(), old != new)
        && let Some(answer) = posix.duplicate_to(old, new, OnExec::Keep)
    {
        crate::stdio::follow(new);
        return number(answer);
    }
    // SAFETY: the program's own call.
    noted(old, unsafe { real::dup2(old, new) })
}

/// dup3(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    if let (Some(posix), true) = (posix(), old != new && flags & !libc::O_CLOEXEC == 0)
        && let Some(answer) = posix.duplicate_to(old, new, OnExec::of(flags & libc::O_CLOEXEC != 0))
    {
        crate::stdio::follow(new);
        return number(answer);
    }
    // SAFETY: the program's own call.
    noted(old, unsafe { real::dup3(old, new, flags) })
}

/// fcntl(2). Declared with one argument more than it needs instead of variadic: the same registers carry it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: the program's own call.
    fcntl_of_ours(fd, command, argument).unwrap_or_else(|| noted_by(command, fd, unsafe { real::fcntl(fd, command, argument) }))
}

/// fcntl(2) under its name in programs with 64-bit file offsets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: the program's own call.
    fcntl_of_ours(fd, command, argument).unwrap_or_else(|| noted_by(command, fd, unsafe { real::fcntl64(fd, command, argument) }))
}

fn noted_by(command: c_int, old: c_int, answer: c_int) -> c_int {
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) { noted(old, answer) } else { answer }
}

fn fcntl_of_ours(fd: c_int, command: c_int, argument: c_ulong) -> Option<c_int> {
    if let (Some(posix), Entry::Epoll(_), libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) = (posix(), entry(fd), command) {
        let on_exec = OnExec::of(command == libc::F_DUPFD_CLOEXEC);
        return posix.duplicate_epoll(fd, argument as c_int, on_exec).map(number);
    }
    let (posix, socket) = ours(fd)?;
    let answer = posix.fcntl(fd, socket, command, i64::from(argument as c_int))?;
    Some(if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) { followed(answer) } else { number(answer) })
}

/// Answers a new number of a socket; if it is a standard stream's (1 was closed and is given out again), stdio uses it.
fn followed(new: Answer<c_int>) -> c_int {
    if let Ok(new) = new {
        crate::stdio::follow(new);
    }
    number(new)
}

/// asm-generic/ioctls.h
const FIOASYNC: c_ulong = 0x5452;
/// linux/sockios.h
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;

/// ioctl(2). Declared like `fcntl`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int {
    if let Some((posix, socket)) = ours(fd) {
        let pointer = argument as *mut c_int;
        let value = match request {
            // SAFETY: these read one int through a pointer that the program promises to be valid.
            libc::FIONBIO | FIOASYNC | FIOSETOWN | SIOCSPGRP if c::may_be_memory(pointer.cast(), 4) => unsafe {
                pointer.read_unaligned()
            },
            libc::FIONBIO | FIOASYNC | FIOSETOWN | SIOCSPGRP => return status(Err(Errno::FAULT)),
            _ => 0,
        };
        match posix.ioctl(socket, request, value) {
            Some(Ok(Control::Done)) => return 0,
            Some(Ok(Control::Number(_) | Control::Pair(_))) if !c::may_be_memory(pointer.cast(), 16) => {
                return status(Err(Errno::FAULT));
            }
            Some(Ok(Control::Number(answer))) => {
                // SAFETY: not null; these requests write one int where the program promises room.
                unsafe { pointer.write_unaligned(answer) };
                return 0;
            }
            Some(Ok(Control::Pair(answer))) => {
                // SAFETY: not null; these requests write a timeval or timespec where the program promises room.
                unsafe { pointer.cast::<[u8; 16]>().write_unaligned(answer) };
                return 0;
            }
            Some(Err(error)) => return status(Err(error)),
            None => {}
        }
    }
    // SAFETY: the program's own call.
    unsafe { real::ioctl(fd, request, argument) }
}
