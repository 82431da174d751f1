//! Calls on sockets that the kernel goes on with are libc's, and what makes a socket go.

use super::{piece, told};
use crate::c::errno;
use crate::fake::{Bench, SEND_LIMIT, sockaddr};
use crate::{datagram, epoll, files, io, message, poll, process, set_errno, sockets};
use libc::{c_char, c_int, epoll_event, mmsghdr, pollfd};
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::ptr;

/// Makes each call on a connection that has just moved, and compares what libc's function of that name is given and what comes back.
macro_rules! each {
    ($bench:ident, $fd:ident; $($module:ident::$name:ident($($argument:expr),*) $(-> $other:ident)?;)*) => {$(
        let $fd = $bench.connection();
        $bench.moves($fd);
        let name = [stringify!($name) $(, stringify!($other))?].last().copied().expect("one at least");
        $bench.libc.refuses(name, libc::EXDEV);
        $bench.libc.all_calls();
        // SAFETY: the function of libc is not called; pointers point at zeros.
        let answer = unsafe { $module::$name($($argument as _),*) } as isize;
        let call = $bench.libc.calls(name).pop().expect(name);
        let given = [$($argument as usize),*];
        assert_eq!(call[..given.len().min(call.len())], given[..given.len().min(call.len())], "{name}");
        assert!(answer == -1 || answer as i32 == -1, "{name}: {answer}");
        assert_eq!(errno().0, libc::EXDEV, "{name}");
        assert!(!$bench.is_ours($fd), "{name}");
        $bench.libc.does(name, |_| panic!("not called again"));
        $bench.libc.forget();
    )*};
}

#[test]
fn every_call_on_a_moved_connection_is_libcs() {
    let bench = Bench::new();
    let mut zeros = vec![0_u64; 512];
    let at = zeros.as_mut_ptr();
    let mut bytes = [0_u8; 8];
    let mut one = piece(&mut bytes);
    let vector = &raw mut one;
    let mut header = datagram::message_of(&mut one);
    let header = &raw mut header;
    let mut other = one;
    let mut batch = mmsghdr { msg_hdr: datagram::message_of(&mut other), msg_len: 0 };
    let batch = &raw mut batch;
    let anywhere = -1_i64;
    each! { bench, fd;
        sockets::accept(fd, 0, 0); sockets::accept4(fd, 0, 0, 2048); sockets::shutdown(fd, 1);
        sockets::getsockname(fd, at, at); sockets::getpeername(fd, at, at); sockets::getsockopt(fd, 1, 3, at, at);
        sockets::setsockopt(fd, 6, 1, at, 4); sockets::bind(fd, at, 16);
        io::read(fd, at, 9); io::__read_chk(fd, at, 9, 10); io::readv(fd, vector, 1); io::preadv2(fd, vector, 1, anywhere, 0);
        io::write(fd, at, 9); io::writev(fd, vector, 1); io::pwritev2(fd, vector, 1, anywhere, 0);
        io::recv(fd, at, 9, 64); io::__recv_chk(fd, at, 9, 10, 64); io::recvfrom(fd, at, 9, 64, 0, 0);
        io::__recvfrom_chk(fd, at, 9, 10, 64, 0, 0); io::recv(fd, at, 9, 1); io::recv(fd, at, 9, 0x20);
        io::send(fd, at, 9, 64); io::sendto(fd, at, 9, 64, 0, 0) -> send; io::sendfile(fd, 778, at, 9);
        io::splice(fd, 0, 778, 0, 9, 2); io::splice(778, 0, fd, 0, 9, 2);
        message::recvmsg(fd, header, 64); message::recvmmsg(fd, batch, 1, 64, 0);
        message::sendmsg(fd, header, 64); message::sendmmsg(fd, batch, 1, 64);
        files::close(fd); files::dup(fd); files::dup2(fd, 900); files::fcntl(fd, 1, 7); files::ioctl(fd, 0x541b, at);
    }
}

#[test]
fn a_moved_connection_is_polled_by_the_kernel() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.moves(fd);
    let mut set = [pollfd { fd, events: libc::POLLOUT, revents: 0 }];
    // SAFETY: a local. The placeholder is an eventfd, to which can be written.
    assert_eq!(unsafe { poll::poll(set.as_mut_ptr(), 1, -1) }, 1);
    assert_eq!((set[0].revents, bench.is_ours(fd)), (libc::POLLOUT, false));
}

#[test]
fn a_moved_connection_is_added_to_the_kernels_instance() {
    let bench = Bench::new();
    let fd = bench.connection();
    // SAFETY: locals.
    unsafe {
        let instance = epoll::epoll_create1(libc::EPOLL_CLOEXEC);
        let mut event = epoll_event { events: libc::EPOLLOUT as u32, u64: 99 };
        bench.moves(fd);
        assert_eq!(epoll::epoll_ctl(instance, libc::EPOLL_CTL_ADD, fd, &raw mut event), 0);
        event = epoll_event { events: 0, u64: 0 };
        assert_eq!((epoll::epoll_wait(instance, &raw mut event, 1, -1), { event.u64 }), (1, 99));
    }
    assert!(!bench.is_ours(fd));
}

/// What a blocking call has begun by the stack it ends by the kernel: a program may rely on a whole write.
#[test]
fn the_rest_of_a_long_write_is_the_kernels() {
    let bench = Bench::new();
    let bytes = vec![7_u8; 10_000];
    for vector in [false, true] {
        let fd = bench.connection();
        let mover = bench.moves_when_full(fd);
        let first = bytes.as_ptr() as usize;
        bench.libc.does("sendmsg", move |arguments| {
            // SAFETY: a message of the library's.
            let rest = unsafe { &*(*(arguments[1] as *const libc::msghdr)).msg_iov };
            assert_eq!((rest.iov_base as usize, rest.iov_len), (first + SEND_LIMIT, 10_000 - SEND_LIMIT));
            5_000
        });
        let one = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: locals.
        let sent =
            unsafe { if vector { io::writev(fd, &raw const one, 1) } else { io::write(fd, bytes.as_ptr().cast(), bytes.len()) } };
        mover.join().expect("it does not panic");
        assert_eq!((sent, bench.is_ours(fd)), (SEND_LIMIT as isize + 5_000, false));
        bench.libc.forget();
    }
}

#[test]
fn a_read_that_waits_for_all_gets_the_rest_from_the_kernel() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.arrive(fd, b"abc");
    bench.moves(fd);
    bench.libc.does("recvmsg", |arguments| {
        // SAFETY: a message of the library's.
        let rest = unsafe { &*(*(arguments[1] as *const libc::msghdr)).msg_iov };
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(b"defg".as_ptr(), rest.iov_base.cast(), rest.iov_len) };
        rest.iov_len as isize
    });
    let mut bytes = [0_u8; 7];
    // SAFETY: a local.
    assert_eq!(told(unsafe { io::recv(fd, bytes.as_mut_ptr().cast(), 7, libc::MSG_WAITALL) }), Ok(7));
    assert_eq!(&bytes, b"abcdefg");
}

#[test]
fn an_option_that_only_the_kernel_has_is_set_on_the_kernels_connection() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.libc.answers("setsockopt", 0);
    // SAFETY: three bytes.
    assert_eq!(unsafe { sockets::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls".as_ptr().cast(), 3) }, 0);
    assert!(!bench.is_ours(fd));
    let set = bench.libc.calls("setsockopt").pop().expect("it was called");
    assert_eq!(set[..3], [fd as usize, libc::IPPROTO_TCP as usize, libc::TCP_ULP as usize]);
}

/// An ELF file of this machine without a dynamic linker.
fn static_program(name: &str) -> (std::path::PathBuf, CString) {
    let file = std::env::temp_dir().join(format!("ringway-{name}-{}", std::process::id()));
    let mut header = vec![0_u8; 64];
    header[..6].copy_from_slice(b"\x7fELF\x02\x01");
    header[18] = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    std::fs::write(&file, &header).expect("the folder can be written");
    let path = CString::new(file.to_str().expect("a name in UTF-8")).expect("without NUL");
    (file, path)
}

#[test]
fn a_static_program_inherits_the_kernels_connections() {
    let bench = Bench::new();
    let (file, path) = static_program("inherits");
    let none: [*const c_char; 1] = [ptr::null()];
    let nothing = ptr::null::<libc::c_void>();
    for name in ["execve", "posix_spawn"] {
        let (travels, stays) = (bench.connection(), bench.connection());
        // SAFETY: a descriptor of this test's own.
        let flags = unsafe { rustix::fd::BorrowedFd::borrow_raw(travels) };
        rustix::io::fcntl_setfd(flags, rustix::io::FdFlags::empty()).expect("it is open");
        bench.libc.refuses(name, libc::ENOEXEC);
        set_errno(0);
        // SAFETY: arrays of this function's own; the functions of libc are not called.
        unsafe {
            match name {
                "execve" => process::execve(path.as_ptr(), none.as_ptr(), none.as_ptr()),
                _ => process::posix_spawn(ptr::null_mut(), path.as_ptr(), nothing, nothing, none.as_ptr(), none.as_ptr()),
            };
        }
        assert_eq!(bench.libc.calls(name).len(), 1);
        assert_eq!([travels, stays].map(|fd| bench.is_ours(fd)), [false, true], "{name}");
    }
    std::fs::remove_file(&file).expect("it is there");
}

/// Sends `fd` through a socket whose peer is this process.
fn pass_to(bench: &Bench, fd: c_int, peer: u32) {
    bench.libc.does("getsockopt", move |arguments| {
        assert_eq!(arguments[2], libc::SO_PEERCRED as usize);
        // SAFETY: room for a ucred.
        unsafe { *(arguments[3] as *mut libc::ucred) = libc::ucred { pid: peer as i32, uid: 0, gid: 0 } };
        0
    });
    let mut control =
        [20_usize.to_ne_bytes().as_slice(), &libc::SOL_SOCKET.to_ne_bytes(), &libc::SCM_RIGHTS.to_ne_bytes()].concat();
    control.extend(fd.to_ne_bytes());
    control.resize(24, 0);
    let mut one = [0_u8];
    let mut one = piece(&mut one);
    let mut message = datagram::message_of(&mut one);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), control.len());
    let (through, _peer) = UnixStream::pair().expect("pairs work here");
    // SAFETY: a message of this function's own.
    assert_eq!(told(unsafe { message::sendmsg(through.as_raw_fd(), &raw const message, 0) }), Ok(1));
    bench.libc.forget();
}

#[test]
fn a_descriptor_for_a_process_outside_is_the_kernels_and_others_travel_as_ours() {
    let mut outside = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat is there");
    let bench = Bench::new();
    let fds = [0; 3].map(|_| bench.connection());
    pass_to(&bench, fds[0], std::process::id());
    // No such process.
    pass_to(&bench, fds[1], i32::MAX as u32);
    pass_to(&bench, fds[2], outside.id());
    assert_eq!(fds.map(|fd| bench.is_ours(fd)), [true, true, false]);
    drop(bench);
    drop(outside.stdin.take());
    assert!(outside.wait().expect("it ends with its input").success());
}

#[test]
fn a_datagram_socket_that_has_moved_stays_with_the_kernel() {
    let bench = Bench::new();
    let fd = bench.datagrams();
    bench.libc.does("getsockopt", |arguments| {
        let place = arguments[3];
        match arguments[2] as c_int {
            // SAFETY: the library's own room for eight bytes, or four.
            libc::SO_COOKIE => unsafe { *(place as *mut u64) = 4711 },
            // SAFETY: as above.
            libc::SO_PROTOCOL => unsafe { *(place as *mut c_int) = libc::IPPROTO_UDP },
            _ => {
                set_errno(libc::ENOPROTOOPT);
                return -1;
            }
        }
        0
    });
    bench.moves(fd);
    let name = sockaddr([192, 0, 2, 9], 99);
    let send = || {
        // SAFETY: bytes and a name of this function's own.
        unsafe { told(io::sendto(fd, b"x".as_ptr().cast(), 1, 0, name.as_ptr().cast(), name.len() as u32)) }
    };
    bench.libc.answers("sendmsg", 1);
    assert_eq!((send(), bench.is_ours(fd)), (Ok(1), false), "this one begins as ours");
    bench.libc.answers("sendto", 1);
    assert_eq!((send(), bench.is_ours(fd)), (Ok(1), false));
    assert_eq!(bench.libc.calls("sendto").len(), 1);
}

/// The program has closed the number by an instruction of its own, and the kernel gives it out again: the file is another.
#[test]
fn a_number_made_anew_gets_nothing_of_a_socket_that_has_moved() {
    let bench = Bench::new();
    let fd = bench.connection();
    let time = [5_i64, 0];
    // SAFETY: a timeval.
    assert_eq!(unsafe { sockets::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, time.as_ptr().cast(), 16) }, 0);
    bench.moves(fd);
    bench.libc.answers("eventfd", fd as isize);
    bench.libc.all_calls();
    // SAFETY: the function of libc is not called.
    assert_eq!(unsafe { crate::makers::eventfd(0, 0) }, fd);
    assert!(!bench.is_ours(fd));
    assert_eq!((bench.libc.calls("setsockopt").len(), bench.libc.calls("fcntl").len()), (0, 0));
}
