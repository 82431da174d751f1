//! recvmsg, sendmsg, recvmmsg, sendmmsg; and descriptors of ours that travel over AF_UNIX sockets.

use crate::c::{self, number, size};
use crate::shim::{ours_fast, posix};
use crate::{datagram, io, peer, real};
use libc::{c_int, c_uint, mmsghdr, msghdr, ssize_t, timespec};
use ringway_posix::fd_table::{Descriptor, SocketRef};
use ringway_posix::{Answer, Errno, Passage, Posix, Send, ancillary_descriptors};
use ringway_shm::Instant;

/// recvmsg(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if let Some((posix, socket)) = ours_fast(fd)
        // SAFETY: the program's promise about its message.
        && let Some(answer) = unsafe { receive_message(posix, Descriptor { fd, socket }, message, flags) }
    {
        return size(answer);
    }
    // SAFETY: the program's own call.
    let count = unsafe { real::recvmsg(fd, message, flags) };
    if count >= 0 {
        // SAFETY: the kernel has filled the message.
        unsafe { adopt_descriptors(message, flags) };
    }
    count
}

/// recvmmsg(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    let Some((posix, socket)) = ours_fast(fd) else {
        // SAFETY: the program's own call.
        let received = unsafe { real::recvmmsg(fd, messages, count, flags, timeout) };
        for place in 0..received.max(0) as usize {
            // SAFETY: the kernel has filled so many.
            unsafe { adopt_descriptors(&raw const (*messages.add(place)).msg_hdr, flags) };
        }
        return received;
    };
    // SAFETY: null, or the program promises that it is valid.
    let limit = match unsafe { limit_of(posix, timeout) } {
        Ok(limit) => limit,
        Err(error) => return number(Err(error)),
    };
    let mut done = 0;
    while done < count {
        // SAFETY: the program promises `count` messages.
        let entry = unsafe { messages.add(done as usize) };
        let wait_once = if done > 0 && flags & libc::MSG_WAITFORONE != 0 { libc::MSG_DONTWAIT } else { 0 };
        // SAFETY: as above.
        match unsafe { receive_message(posix, Descriptor { fd, socket }, &raw mut (*entry).msg_hdr, flags | wait_once) } {
            // SAFETY: the program's own call.
            None if done == 0 => return unsafe { real::recvmmsg(fd, messages, count, flags, timeout) },
            Some(Ok(bytes)) => {
                // SAFETY: as above.
                unsafe { (*entry).msg_len = bytes as c_uint };
                done += 1;
                if bytes == 0 && !posix.is_datagram(socket) {
                    break;
                }
                // SAFETY: as for `limit_of`.
                if limit.is_some_and(|limit| unsafe { is_over(posix, limit, timeout) }) {
                    break;
                }
            }
            Some(Err(error)) if done == 0 => return number(Err(error)),
            Some(Err(error)) => {
                posix.put_failure_back(socket, error);
                break;
            }
            None => break,
        }
    }
    done as c_int
}

/// When a recvmmsg with this time limit ends. As on Linux it is looked at behind each message, and does not end the wait for one.
///
/// # Safety
/// `timeout` is null, or valid where it may be memory.
unsafe fn limit_of(posix: &Posix, timeout: *const timespec) -> Answer<Option<Instant>> {
    if timeout.is_null() {
        return Ok(None);
    }
    if !c::may_be_memory(timeout.cast(), size_of::<timespec>()) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the caller's promise.
    let time = unsafe { timeout.read_unaligned() };
    if !(0..1_000_000_000).contains(&time.tv_nsec) {
        return Err(Errno::INVAL);
    }
    let span = crate::poll::span(time.tv_sec, Some(time.tv_nsec)).ok_or(Errno::INVAL)?;
    Ok(Some(posix.kernel().now() + span))
}

/// Writes what is left of the time, as Linux does; `true`: nothing.
///
/// # Safety
/// `timeout` is valid.
unsafe fn is_over(posix: &Posix, limit: Instant, timeout: *mut timespec) -> bool {
    let left = limit.since(posix.kernel().now()).as_nanos();
    let time = timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
    // SAFETY: the caller's promise.
    unsafe { timeout.write_unaligned(time) };
    left == 0
}

/// sendmsg(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's promise about its message.
    match unsafe { towards(fd, message) } {
        // SAFETY: the program's promise about its message.
        Some(Ok((posix, socket))) => match unsafe { send_message(posix, Descriptor { fd, socket }, message, flags) } {
            Some(answer) => size(answer),
            // SAFETY: the program's own call.
            None => unsafe { real::sendmsg(fd, message, flags) },
        },
        Some(Err(error)) => size(Err(error)),
        None => {
            if flags & libc::MSG_FASTOPEN != 0 {
                // SAFETY: the program's promise about its message.
                if let Some(answer) = unsafe { send_fast(fd, message, flags) } {
                    return answer;
                }
            }
            // SAFETY: the program's promise about its message.
            let passage = unsafe { name_descriptors(fd, message) };
            // SAFETY: the program's own call.
            let sent = unsafe { real::sendmsg(fd, message, flags) };
            if sent < 0 {
                take_back(passage);
            }
            sent
        }
    }
}

/// sendmmsg(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmmsg(fd: c_int, messages: *mut mmsghdr, asked: c_uint, flags: c_int) -> c_int {
    // net/socket.c, __sys_sendmmsg: no more than this at once, and no error.
    let count = asked.min(c::IOV_MAX as c_uint);
    let first = if count == 0 || messages.is_null() { std::ptr::null() } else { messages.cast_const().cast::<msghdr>() };
    // SAFETY: null, or the first member of the program's first message.
    let Some(towards) = (unsafe { towards(fd, first) }) else {
        if flags & libc::MSG_FASTOPEN != 0 && !first.is_null() {
            // SAFETY: the program's promise about its messages.
            if let Some(answer) = unsafe { send_first_fast(fd, messages, flags) } {
                return answer;
            }
        }
        // SAFETY: the program's own call, with all that it has asked for, and its promise about them.
        return unsafe { send_to_kernel(fd, messages, asked, flags) };
    };
    let (posix, socket) = match towards {
        Ok(ours) => ours,
        Err(error) => return number(Err(error)),
    };
    let mut done = 0;
    while done < count {
        // SAFETY: the program promises `count` messages.
        let entry = unsafe { messages.add(done as usize) };
        // SAFETY: as above.
        match unsafe { send_message(posix, Descriptor { fd, socket }, &raw const (*entry).msg_hdr, flags) } {
            // SAFETY: the program's own call.
            None if done == 0 => return unsafe { real::sendmmsg(fd, messages, asked, flags) },
            Some(Ok(bytes)) => {
                // SAFETY: as above.
                unsafe { (*entry).msg_len = bytes as c_uint };
                done += 1;
            }
            Some(Err(error)) if done == 0 => return number(Err(error)),
            Some(Err(_)) | None => break,
        }
    }
    done as c_int
}

/// sendmmsg(2) by a socket of the kernel's, whose messages may carry descriptors of ours.
unsafe fn send_to_kernel(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    let has_messages = posix().is_some() && c::may_be_memory(messages.cast(), size_of::<mmsghdr>());
    let named = if has_messages { count.min(MESSAGES_MAX) as usize } else { 0 };
    // SAFETY: the caller's promise: there are `count` messages.
    let name = |place| unsafe { name_descriptors(fd, &raw const (*messages.add(place)).msg_hdr) };
    let passages: Vec<Passage> = (0..named).map(name).collect();
    // SAFETY: the program's own call.
    let sent = unsafe { real::sendmmsg(fd, messages, count, flags) };
    // Outside of Ringway none is named, however many are sent.
    passages.into_iter().skip(sent.max(0) as usize).for_each(take_back);
    sent
}

/// More in one call are not sent (net/socket.c, __sys_sendmmsg: UIO_MAXIOV).
const MESSAGES_MAX: c_uint = 1024;

/// sendmmsg(2) likewise: the first message connects, and the next one is refused for that (EISCONN), as by Linux. `None`: the
/// kernel's call.
unsafe fn send_first_fast(fd: c_int, messages: *mut mmsghdr, flags: c_int) -> Option<c_int> {
    // SAFETY: the caller's promise: there is one message at least.
    let sent = unsafe { send_fast(fd, &raw const (*messages).msg_hdr, flags) }?;
    if sent < 0 {
        return Some(-1);
    }
    // SAFETY: as above; what could be read is there.
    unsafe { (*messages).msg_len = sent as c_uint };
    Some(1)
}

/// sendmsg(2) with MSG_FASTOPEN on a socket that is not ours yet. `None`: the kernel's call.
unsafe fn send_fast(fd: c_int, message: *const msghdr, flags: c_int) -> Option<ssize_t> {
    let posix = posix()?;
    if !c::may_be_memory(message.cast(), size_of::<msghdr>()) {
        return None;
    }
    // SAFETY: not null, and the program promises that it is valid.
    let message = unsafe { &*message };
    // SAFETY: the program's promise about its address.
    let to = unsafe { c::address(message.msg_name.cast(), message.msg_namelen) }.ok()?;
    // SAFETY: the program's promise about its vector.
    let pieces = unsafe { c::inputs(message.msg_iov, c_int::try_from(message.msg_iovlen).ok()?) }.ok()?;
    posix.send_fast(fd, to, &pieces, Send::from_flags(flags)).map(size)
}

/// The socket of ours that a message leaves by.
unsafe fn towards(fd: c_int, message: *const msghdr) -> Option<Answer<(&'static Posix, SocketRef)>> {
    if !c::may_be_memory(message.cast(), size_of::<msghdr>()) {
        return ours_fast(fd).map(Ok);
    }
    // SAFETY: not null, and the program promises that it is valid.
    let message = unsafe { &*message };
    // SAFETY: the program's promise about its address.
    unsafe { datagram::ours_towards(fd, message.msg_name.cast(), message.msg_namelen) }
}

/// `None`: the kernel has got the socket, and its call decides.
unsafe fn receive_message(posix: &Posix, at: Descriptor, message: *mut msghdr, flags: c_int) -> Option<Answer<usize>> {
    if !c::may_be_memory(message.cast(), size_of::<msghdr>()) {
        return Some(Err(Errno::FAULT));
    }
    // SAFETY: not null, and the program promises that it is valid.
    let message = unsafe { &mut *message };
    if !message.msg_name.is_null() && message.msg_namelen as c_int <= -1 {
        return Some(Err(Errno::INVAL));
    }
    if posix.is_datagram(at.socket) {
        // SAFETY: the program's promise about its message.
        return Some(unsafe { datagram::receive(posix, at, message, flags) });
    }
    // SAFETY: the program's promise about its vector.
    let mut pieces = match c::piece_count(message).and_then(|count| unsafe { c::outputs(message.msg_iov, count) }) {
        Ok(pieces) => pieces,
        Err(error) => return Some(Err(error)),
    };
    let answer = io::take_pieces(posix, at, &mut pieces, flags)?;
    if answer.is_ok() {
        // SAFETY: the program's promise about its control data.
        unsafe { describe_stream(posix, at, message, flags) };
    }
    Some(answer)
}

/// Writes what comes beside the bytes of a stream.
unsafe fn describe_stream(posix: &Posix, at: Descriptor, message: &mut msghdr, flags: c_int) {
    message.msg_namelen = 0;
    let room = if message.msg_control.is_null() { 0 } else { message.msg_controllen };
    let urgent = flags & libc::MSG_OOB != 0;
    let (control, cut) = if urgent { Default::default() } else { posix.describe_stream(at.socket, room) };
    if !control.is_empty() {
        // SAFETY: not more than the `msg_controllen` bytes that the program promises at `msg_control`.
        unsafe { std::ptr::copy_nonoverlapping(control.as_ptr(), message.msg_control.cast(), control.len()) };
    }
    message.msg_controllen = control.len();
    message.msg_flags = if cut { libc::MSG_CTRUNC } else { 0 };
}

/// `None`: the kernel has got the socket, and its call decides.
unsafe fn send_message(posix: &Posix, at: Descriptor, message: *const msghdr, flags: c_int) -> Option<Answer<usize>> {
    if !c::may_be_memory(message.cast(), size_of::<msghdr>()) {
        return Some(Err(Errno::FAULT));
    }
    // SAFETY: not null, and the program promises that it is valid.
    let message = unsafe { &*message };
    if posix.is_datagram(at.socket) {
        // SAFETY: the program's promise about its message.
        return Some(unsafe { datagram::send(posix, at, message, flags) });
    }
    // SAFETY: the program's promise about its vector.
    match c::piece_count(message).and_then(|count| unsafe { c::inputs(message.msg_iov, count) }) {
        Ok(mut pieces) => io::give_pieces(posix, at, &mut pieces, flags),
        Err(error) => Some(Err(error)),
    }
}

/// Descriptors of ours in a message that leaves by `through` get a name that the receiver can look up. Where it surely cannot, the
/// kernel goes on with their sockets.
unsafe fn name_descriptors(through: c_int, message: *const msghdr) -> Passage {
    let mut passage = Passage::default();
    let Some(posix) = posix() else { return passage };
    // SAFETY: the caller's promise.
    let mut passed = unsafe { control_descriptors(message) };
    passed.retain(|fd| posix.socket_of(*fd).is_some());
    if !passed.is_empty() && peer::lacks_library(through) {
        passed.iter().for_each(|fd| posix.before_leaving(*fd));
    }
    for fd in passed {
        posix.before_passing(fd, &mut passage);
    }
    passage
}

/// The message has not been sent.
fn take_back(passage: Passage) {
    let Some(posix) = posix() else { return };
    let error = c::errno();
    posix.undo_passing(passage);
    c::set_errno(error.0);
}

/// Descriptors that have just arrived: those of the stack are ours from now on. A message that was looked at comes again.
unsafe fn adopt_descriptors(message: *const msghdr, flags: c_int) {
    let Some(posix) = posix() else { return };
    // SAFETY: the caller's promise.
    for fd in unsafe { control_descriptors(message) } {
        if flags & libc::MSG_PEEK != 0 {
            posix.adopt(fd);
        } else {
            posix.receive_passed(fd);
        }
    }
}

unsafe fn control_descriptors(message: *const msghdr) -> Vec<c_int> {
    if !c::may_be_memory(message.cast(), size_of::<msghdr>()) {
        return Vec::new();
    }
    // SAFETY: not null, and the caller promises that it is valid.
    match unsafe { &*message } {
        message if c::may_be_memory(message.msg_control, 1) && message.msg_controllen > 0 => {
            // SAFETY: not null, and the caller promises that many bytes.
            let control = unsafe { c::input(message.msg_control, message.msg_controllen) };
            control.map(ancillary_descriptors).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}
