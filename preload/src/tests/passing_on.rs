//! A call on a descriptor that is not ours is libc's: the same arguments, the same answer, the same errno.

use crate::fake::{Libc, Lonely};
use crate::{c, datagram, epoll, files, io, makers, message, poll, print, process, set_errno, signals, sockets, stdio};
use ringway_posix::Settings;

/// Calls each function with small numbers, in whose place pointers point at zeros, and compares what libc's function of that name (or of
/// the name behind the arrow) is given and what comes back.
macro_rules! each {
    ($libc:ident; $($module:ident::$name:ident($($argument:expr),*) $(-> $other:ident)?;)*) => {$(
        let name = [stringify!($name) $(, stringify!($other))?].last().copied().expect("one at least");
        $libc.refuses(name, libc::EXDEV);
        set_errno(0);
        $libc.all_calls();
        // SAFETY: the function of libc is not called; pointers point at zeros.
        let answer = unsafe { $module::$name($($argument as _),*) } as isize;
        let given = [vec![$($argument as usize),*]];
        let calls: Vec<Vec<usize>> = $libc.calls(name);
        assert_eq!(calls, given, "{name}");
        assert!(answer == -1 || answer as i32 == -1, "{name}: {answer}");
        assert_eq!(c::errno().0, libc::EXDEV, "{name}");
    )*};
}

fn all_pass_on() {
    let libc = Libc::new();
    let zeros = vec![0_u64; 512];
    let at = zeros.as_ptr();
    libc.answers("fileno", 777);
    each! { libc;
        sockets::socket(2, 1, 6); sockets::bind(777, at, 16); sockets::listen(777, 5); sockets::accept(777, at, at); sockets::accept4(777, at, at, 2048);
        sockets::connect(777, at, 16); sockets::shutdown(777, 2); sockets::getsockname(777, at, at); sockets::getpeername(777, at, at);
        sockets::getsockopt(777, 1, 2, at, at); sockets::setsockopt(777, 1, 2, at, 4);
        io::read(777, at, 9); io::__read_chk(777, at, 9, 8); io::readv(777, at, 3); io::preadv2(777, at, 3, 5, 8);
        io::preadv64v2(777, at, 3, 5, 8) -> preadv2; io::write(777, at, 9); io::writev(777, at, 3); io::pwritev2(777, at, 3, 5, 8);
        io::pwritev64v2(777, at, 3, 5, 8) -> pwritev2; io::recv(777, at, 9, 64); io::__recv_chk(777, at, 9, 8, 64);
        io::recvfrom(777, at, 9, 64, at, at); io::__recvfrom_chk(777, at, 9, 8, 64, at, at); io::send(777, at, 9, 64);
        io::sendto(777, at, 9, 64, at, 16); io::sendfile(777, 778, at, 9); io::sendfile64(777, 778, at, 9) -> sendfile;
        io::splice(777, at, 778, at, 9, 2);
        message::recvmsg(777, at, 64); message::recvmmsg(777, at, 2, 64, at); message::sendmsg(777, at, 64); message::sendmmsg(777, at, 2, 64);
        files::close(777); files::close_range(777, 778, 0); files::dup(777); files::dup2(777, 778); files::dup3(777, 778, 0);
        files::fcntl(777, 1, 0xffff_ffff_ffff_usize); files::fcntl64(777, 1, 0xffff_ffff_ffff_usize);
        files::ioctl(777, 0x5421, 0xffff_ffff_ffff_usize); files::fclose(at);
        poll::poll(at, 2, 5); poll::ppoll(at, 2, at, at);
        poll::select(3, at, at, at, at); poll::pselect(3, at, at, at, at, at);
        epoll::epoll_create(5); epoll::epoll_create1(5); epoll::epoll_ctl(777, 1, 778, at); epoll::epoll_wait(777, at, 3, 5);
        epoll::epoll_pwait(777, at, 3, 5, at); epoll::epoll_pwait2(777, at, 3, at, at);
        process::chroot(at); process::setuid(5); process::setreuid(5, 6); process::setresuid(5, 6, 7); process::prctl(1, 2, 3, 4, 5);
        process::setrlimit(3, at); process::setrlimit64(3, at) -> setrlimit;
        signals::siginterrupt(10, 1);
        makers::open(at, 66, 0o644); makers::open64(at, 66, 0o644); makers::openat(777, at, 66, 0o644); makers::openat64(777, at, 66, 0o644);
        makers::creat(at, 0o644); makers::creat64(at, 0o644); makers::eventfd(1, 2048); makers::timerfd_create(1, 2048);
        makers::signalfd(777, at, 2048); makers::inotify_init(); makers::inotify_init1(2048); makers::memfd_create(at, 1);
        makers::pipe(at); makers::pipe2(at, 2048); makers::socketpair(1, 1, 0, at);
        stdio::fdopen(777, at); stdio::fileno(at); stdio::fileno_unlocked(at) -> fileno;
        print::vdprintf(777, at, at); print::__vdprintf_chk(777, 1, at, at);
    }
}

#[test]
fn before_the_library_is_initialized_every_call_is_libcs() {
    all_pass_on();
}

#[test]
fn without_a_service_every_call_on_a_descriptor_that_is_not_ours_is_libcs() {
    let _room = Lonely::new(Settings::default());
    all_pass_on();
}

#[test]
fn a_function_that_this_libc_lacks_answers_enosys() {
    // `closefrom` stands for a name that does not exist: what the loader does not find is 0.
    static ADDRESS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    assert_eq!(crate::real::find(&ADDRESS, b"ringway_no_such_function\0"), 0);
}

#[test]
fn a_call_of_the_real_function_reaches_libc() {
    let _room = Lonely::new(Settings::default());
    let mut pair = [0; 2];
    // SAFETY: locals.
    unsafe {
        assert_eq!(makers::pipe(pair.as_mut_ptr()), 0);
        assert_eq!(io::write(pair[1], b"ringway".as_ptr().cast(), 7), 7);
        let mut bytes = [0_u8; 9];
        assert_eq!(io::read(pair[0], bytes.as_mut_ptr().cast(), 9), 7);
        assert_eq!(&bytes, b"ringway\0\0");
        assert_eq!(pair.map(|fd| files::close(fd)), [0, 0]);
        // A number that was just closed may be another test's by now.
        assert_eq!((files::close(-1), c::errno().0), (-1, libc::EBADF));
    }
}

#[test]
fn a_wrapper_that_a_libc_function_calls_again_works() {
    let _room = Lonely::new(Settings::default());
    let libc = Libc::new();
    libc.does("recvmsg", |arguments| {
        // SAFETY: what the library has passed on.
        unsafe { io::read(arguments[0] as i32, std::ptr::null_mut(), 0) }
    });
    libc.refuses("read", libc::EINTR);
    // SAFETY: an empty message.
    let answer = unsafe { message::recvmsg(777, &mut datagram::message_of(&mut super::piece(&mut [])), 0) };
    assert_eq!((answer, c::errno().0), (-1, libc::EINTR));
}
