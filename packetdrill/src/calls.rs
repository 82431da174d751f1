//! Functions of the table: each converts C's arguments into a call of the machine and its answer into C's.

use core::ffi::{c_int, c_long, c_longlong, c_uint, c_ulong, c_void};

use libc::{epoll_event, iovec, loff_t, msghdr, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval};
use ringway_shm::Duration;
use ringway_sim::machine::{Answer, Call};

use crate::convert::{copy_in, copy_out, gather, is_unspecified_family, put_control, read_address, room, scatter, write_address};
use crate::session::Session;
use crate::{Interface, User};

pub(crate) fn table(userdata: User) -> Interface {
    Interface {
        userdata,
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    }
}

fn session(user: User) -> &'static Session {
    // SAFETY: `user` is what `packetdrill_interface_init` has made, and lives until `free`, the last call.
    unsafe { &*user.cast::<Session>() }
}

/// Returns the call's value; sets errno when it is an error.
fn answer(answer: &Answer) -> i64 {
    if answer.errno != 0 {
        // SAFETY: the C library's errno of this thread is always there.
        unsafe { *libc::__errno_location() = answer.errno };
        return -1;
    }
    answer.value
}

fn refuse(errno: i32) -> c_int {
    answer(&Answer::error(errno)) as c_int
}

/// Returns true when a program passes null for something of nonzero size: EFAULT.
fn is_missing<T>(pointer: *const T, count: usize) -> bool {
    pointer.is_null() && count > 0
}

/// The same test as [`is_missing`], for the pieces of readv(2) and the like.
///
/// # Safety
/// `pieces` is null or has `count` pieces.
unsafe fn are_missing(pieces: *const iovec, count: usize) -> bool {
    // SAFETY: the caller's promise.
    is_missing(pieces, count) || (0..count).any(|at| unsafe { is_missing((*pieces.add(at)).iov_base, (*pieces.add(at)).iov_len) })
}

/// Closes a descriptor of the process that stood for a descriptor of the machine.
pub(crate) fn close_real(fd: c_int) {
    // SAFETY: `session` has opened it for the machine's descriptor, which has just gone.
    unsafe { libc::close(fd) };
}

extern "C" fn free(user: User) {
    // SAFETY: `user` came out of `Box::into_raw`, and this is the last call with it.
    drop(unsafe { Box::from_raw(user.cast::<Session>()) });
}

extern "C" fn socket(user: User, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    session(user).read_settings();
    answer(&session(user).with(|machine| machine.socket(domain, kind, protocol))) as c_int
}

extern "C" fn bind(user: User, fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the tool passes an address of this length.
    match unsafe { read_address(address, len) } {
        Ok(address) => answer(&session(user).with(|machine| machine.bind(fd, address))) as c_int,
        Err(errno) => refuse(errno),
    }
}

extern "C" fn listen(user: User, fd: c_int, backlog: c_int) -> c_int {
    session(user).read_settings();
    answer(&session(user).with(|machine| machine.listen(fd, backlog))) as c_int
}

extern "C" fn accept(user: User, fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let result = session(user).call(Call::Accept { fd, flags: 0 });
    if let Some(peer) = result.peer {
        let inet6 = session(user).with(|machine| machine.is_inet6(fd));
        // SAFETY: the tool's pointers, as accept(2) wants them.
        unsafe { write_address(peer, inet6, address, len) };
    }
    answer(&result) as c_int
}

extern "C" fn connect(user: User, fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    session(user).read_settings();
    // SAFETY: the tool passes an address of this length.
    if unsafe { is_unspecified_family(address, len) } {
        return answer(&session(user).with(|machine| machine.disconnect(fd))) as c_int;
    }
    // SAFETY: as above.
    match unsafe { read_address(address, len) } {
        Ok(to) => answer(&session(user).call(Call::Connect { fd, to })) as c_int,
        Err(errno) => refuse(errno),
    }
}

fn receive(user: User, fd: c_int, count: usize, flags: c_int) -> Answer {
    session(user).call(Call::Receive { fd, count, flags })
}

fn transmit(user: User, fd: c_int, bytes: Vec<u8>, flags: c_int) -> ssize_t {
    answer(&session(user).call(Call::Send { fd, bytes, flags })) as ssize_t
}

/// Sends data and connects with it (RFC 7413).
fn send_fast(user: User, fd: c_int, to: Option<std::net::SocketAddr>, bytes: Vec<u8>, flags: c_int) -> ssize_t {
    answer(&session(user).call(Call::SendFast { fd, to, bytes, flags })) as ssize_t
}

extern "C" fn read(user: User, fd: c_int, to: *mut c_void, count: size_t) -> ssize_t {
    recv(user, fd, to, count, 0)
}

extern "C" fn recv(user: User, fd: c_int, to: *mut c_void, count: size_t, flags: c_int) -> ssize_t {
    if is_missing(to, count) {
        return refuse(libc::EFAULT) as ssize_t;
    }
    let result = receive(user, fd, count, flags);
    // SAFETY: no more than `count` bytes came, and `to` has room for them.
    unsafe { copy_out(&result.bytes, to.cast()) };
    answer(&result) as ssize_t
}

extern "C" fn recvfrom(
    user: User,
    fd: c_int,
    to: *mut c_void,
    count: size_t,
    flags: c_int,
    _from: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    let received = recv(user, fd, to, count, flags);
    if received >= 0 && !len.is_null() {
        // A stream does not name the sender. SAFETY: `len` is valid when it is not null.
        unsafe { *len = 0 };
    }
    received
}

extern "C" fn readv(user: User, fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
    let count = count.max(0) as usize;
    // SAFETY: the tool passes so many pieces.
    if unsafe { are_missing(pieces, count) } {
        return refuse(libc::EFAULT) as ssize_t;
    }
    // SAFETY: as above.
    let result = receive(user, fd, unsafe { room(pieces, count) }, 0);
    // SAFETY: as above, and their memory is writable.
    unsafe { scatter(&result.bytes, pieces, count) };
    answer(&result) as ssize_t
}

extern "C" fn recvmsg(user: User, fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if message.is_null() {
        return refuse(libc::EFAULT) as ssize_t;
    }
    // SAFETY: the tool passes a message.
    let (pieces, count) = unsafe { ((*message).msg_iov, (*message).msg_iovlen) };
    // SAFETY: a message has so many pieces.
    if unsafe { are_missing(pieces, count) } {
        return refuse(libc::EFAULT) as ssize_t;
    }
    // SAFETY: as above.
    let result = receive(user, fd, unsafe { room(pieces, count) }, flags);
    // SAFETY: as above, and their memory is writable.
    unsafe {
        scatter(&result.bytes, pieces, count);
        (*message).msg_namelen = 0;
        (*message).msg_flags = 0;
        match result.inq {
            Some(bytes) => put_control(message, libc::IPPROTO_TCP, TCP_CM_INQ, bytes),
            None => (*message).msg_controllen = 0,
        }
    }
    answer(&result) as ssize_t
}

extern "C" fn write(user: User, fd: c_int, from: *const c_void, count: size_t) -> ssize_t {
    send(user, fd, from, count, 0)
}

extern "C" fn send(user: User, fd: c_int, from: *const c_void, count: size_t, flags: c_int) -> ssize_t {
    if is_missing(from, count) {
        return refuse(libc::EFAULT) as ssize_t;
    }
    // SAFETY: `from` has `count` bytes.
    transmit(user, fd, unsafe { copy_in(from, count) }, flags)
}

extern "C" fn sendto(
    user: User,
    fd: c_int,
    from: *const c_void,
    count: size_t,
    flags: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> ssize_t {
    if flags & libc::MSG_FASTOPEN != 0 {
        if is_missing(from, count) {
            return refuse(libc::EFAULT) as ssize_t;
        }
        session(user).read_settings();
        // SAFETY: the tool passes an address of this length, and `count` bytes.
        let (to, bytes) = unsafe { (read_address(to, len).ok(), copy_in(from, count)) };
        return send_fast(user, fd, to, bytes, flags);
    }
    send(user, fd, from, count, flags)
}

extern "C" fn writev(user: User, fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the tool passes so many pieces.
    if unsafe { are_missing(pieces, count.max(0) as usize) } {
        return refuse(libc::EFAULT) as ssize_t;
    }
    // SAFETY: as above, and their memory is readable.
    transmit(user, fd, unsafe { gather(pieces, count.max(0) as usize) }, 0)
}

extern "C" fn sendmsg(user: User, fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the tool passes a message or null.
    if message.is_null() || unsafe { are_missing((*message).msg_iov, (*message).msg_iovlen) } {
        return refuse(libc::EFAULT) as ssize_t;
    }
    if flags & libc::MSG_FASTOPEN != 0 {
        // SAFETY: the tool passes a message with an address and pieces of readable memory.
        let (to, bytes) = unsafe {
            let to = read_address((*message).msg_name.cast(), (*message).msg_namelen).ok();
            (to, gather((*message).msg_iov, (*message).msg_iovlen))
        };
        return send_fast(user, fd, to, bytes, flags);
    }
    // SAFETY: the tool passes a message with pieces of readable memory.
    transmit(user, fd, unsafe { gather((*message).msg_iov, (*message).msg_iovlen) }, flags)
}

extern "C" fn fcntl(user: User, fd: c_int, command: c_int, argument: c_long) -> c_int {
    let session = session(user);
    match command {
        libc::F_GETFL => match session.with(|machine| machine.nonblocking(fd)) {
            Ok(on) => libc::O_RDWR | if on { libc::O_NONBLOCK } else { 0 },
            Err(errno) => refuse(errno),
        },
        libc::F_SETFL => {
            let on = argument as c_int & libc::O_NONBLOCK != 0;
            answer(&session.with(|machine| machine.set_nonblocking(fd, on))) as c_int
        }
        libc::F_GETFD | libc::F_SETFD => 0,
        _ => refuse(libc::EINVAL),
    }
}

extern "C" fn ioctl(user: User, fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let result = session(user).with(|machine| match request {
        libc::FIONBIO if !argument.is_null() => {
            // SAFETY: FIONBIO takes a pointer to an int.
            let on = unsafe { argument.cast::<c_int>().read_unaligned() } != 0;
            machine.set_nonblocking(fd, on)
        }
        libc::FIONREAD | libc::TIOCOUTQ | SIOCOUTQNSD | SIOCATMARK => machine.control(fd, request),
        _ => Answer::error(libc::EINVAL),
    });
    if result.errno == 0 && request != libc::FIONBIO && !argument.is_null() {
        // SAFETY: these requests give an int back.
        unsafe { argument.cast::<c_int>().write_unaligned(result.value as c_int) };
        return 0;
    }
    answer(&result) as c_int
}

extern "C" fn close(user: User, fd: c_int) -> c_int {
    let closed = session(user).call(Call::Close { fd });
    if closed.errno == 0 {
        close_real(fd);
    }
    answer(&closed) as c_int
}

extern "C" fn shutdown(user: User, fd: c_int, how: c_int) -> c_int {
    answer(&session(user).with(|machine| machine.shutdown(fd, how))) as c_int
}

extern "C" fn getsockopt(user: User, fd: c_int, level: c_int, name: c_int, to: *mut c_void, len: *mut socklen_t) -> c_int {
    if len.is_null() {
        return refuse(libc::EFAULT);
    }
    match session(user).with(|machine| machine.option(fd, level, name)) {
        Ok(bytes) if is_missing(to, bytes.len()) => refuse(libc::EFAULT),
        Ok(bytes) => {
            // SAFETY: `to` has as many bytes as `len`, which is valid, says.
            unsafe {
                let count = bytes.len().min(*len as usize);
                copy_out(&bytes[..count], to.cast());
                *len = count as socklen_t;
            }
            0
        }
        Err(errno) => refuse(errno),
    }
}

extern "C" fn setsockopt(user: User, fd: c_int, level: c_int, name: c_int, from: *const c_void, len: socklen_t) -> c_int {
    if is_missing(from, len as usize) {
        return refuse(libc::EFAULT);
    }
    // SAFETY: `from` has `len` bytes.
    let value = unsafe { copy_in(from, len as usize) };
    answer(&session(user).with(|machine| machine.set_option(fd, level, name, &value))) as c_int
}

extern "C" fn poll(user: User, set: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    if is_missing(set, count as usize) {
        return refuse(libc::EFAULT);
    }
    let set = match count {
        0 => &mut [],
        // SAFETY: the tool passes so many entries, and no other code uses them meanwhile.
        _ => unsafe { core::slice::from_raw_parts_mut(set, count as usize) },
    };
    let wanted = set.iter().map(|entry| (entry.fd, entry.events)).collect();
    let result = session(user).call(Call::Poll { set: wanted, timeout: timeout(timeout_ms) });
    for (entry, reported) in set.iter_mut().zip(&result.reported) {
        entry.revents = *reported;
    }
    answer(&result) as c_int
}

/// Returns the longest wait; a negative number is none.
fn timeout(timeout_ms: c_int) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

extern "C" fn netdev_send(user: User, packet: *const c_void, count: size_t) -> c_int {
    session(user).read_settings();
    // SAFETY: the packet has `count` bytes.
    let packet = unsafe { copy_in(packet, count) };
    session(user).with(|machine| machine.deliver(&packet));
    0
}

/// Asked for a packet, the tool retries for ever on an error. So silence is an error only the first few times, and then an
/// empty packet, which the tool refuses: the script has failed.
extern "C" fn netdev_receive(user: User, to: *mut c_void, count: *mut size_t, time_us: *mut c_longlong) -> c_int {
    match session(user).next_packet() {
        Ok(sent) => {
            // SAFETY: `to` has as many bytes as `count`, which is valid, says; `time_us` is valid.
            unsafe {
                let len = sent.bytes.len().min(*count);
                copy_out(&sent.bytes[..len], to.cast());
                *count = len;
                *time_us = sent.at.as_micros() as c_longlong;
            }
            0
        }
        Err(times) => {
            // SAFETY: as above.
            unsafe {
                *count = 0;
                *time_us = session(user).time().as_micros() as c_longlong;
            }
            if times > ERRORS_MAX { 0 } else { refuse(libc::EAGAIN) }
        }
    }
}

extern "C" fn usleep(user: User, micros: c_uint) -> c_int {
    session(user).advance(Duration::from_micros(u64::from(micros)));
    0
}

extern "C" fn gettimeofday(user: User, to: *mut timeval, _zone: *mut c_void) -> c_int {
    let micros = session(user).time().as_micros();
    let value = timeval { tv_sec: (micros / 1_000_000) as i64, tv_usec: (micros % 1_000_000) as i64 };
    // SAFETY: the tool passes a place for the time.
    unsafe { to.write(value) };
    0
}

extern "C" fn epoll_create(user: User, size: c_int) -> c_int {
    if size <= 0 {
        return refuse(libc::EINVAL);
    }
    answer(&session(user).with(|machine| machine.epoll_create())) as c_int
}

extern "C" fn epoll_ctl(user: User, epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    if event.is_null() && operation != libc::EPOLL_CTL_DEL {
        return refuse(libc::EFAULT);
    }
    // SAFETY: the tool passes an event or null.
    let event = if event.is_null() { epoll_event { events: 0, u64: 0 } } else { unsafe { *event } };
    answer(&session(user).with(|machine| machine.epoll_control(epoll, operation, fd, event))) as c_int
}

extern "C" fn epoll_wait(user: User, fd: c_int, to: *mut epoll_event, count: c_int, timeout_ms: c_int) -> c_int {
    if count <= 0 {
        return refuse(libc::EINVAL);
    }
    if to.is_null() {
        return refuse(libc::EFAULT);
    }
    let result = session(user).call(Call::EpollWait { fd, count: count as usize, timeout: timeout(timeout_ms) });
    for (index, (events, data)) in result.events.iter().enumerate() {
        // SAFETY: no more than `count` events come, and there is room for as many.
        unsafe { to.add(index).write(epoll_event { events: *events, u64: *data }) };
    }
    answer(&result) as c_int
}

extern "C" fn pipe(user: User, ends: *mut c_int) -> c_int {
    if ends.is_null() {
        return refuse(libc::EFAULT);
    }
    let (reader, writer) = match session(user).with(|machine| machine.pipe()) {
        Ok(ends) => ends,
        Err(errno) => return refuse(errno),
    };
    // SAFETY: pipe(2) takes room for two numbers.
    unsafe {
        ends.write(reader);
        ends.add(1).write(writer);
    }
    0
}

extern "C" fn splice(
    user: User,
    from: c_int,
    _from_at: *mut loff_t,
    to: c_int,
    _to_at: *mut loff_t,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    answer(&session(user).call(Call::Splice { from, to, count, flags })) as ssize_t
}

/// linux/tcp.h
const TCP_CM_INQ: c_int = 36;
/// linux/sockios.h
const SIOCOUTQNSD: c_ulong = 0x894b;
const SIOCATMARK: c_ulong = 0x8905;
/// Times in a row that silence is an error before it is an empty packet.
const ERRORS_MAX: u32 = 3;
