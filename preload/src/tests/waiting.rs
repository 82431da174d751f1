//! poll, select and system calls by their numbers.

use super::told;
use crate::c::errno;
use crate::fake::Bench;
use crate::{poll, raw, signals};
use libc::{c_int, c_long, pollfd, timespec, timeval};
use std::ptr;

#[test]
fn a_set_is_looked_at_whole_and_nothing_else_is() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.arrive(fd, b"x");
    let mut set = [pollfd { fd, events: libc::POLLIN, revents: 0 }, pollfd { fd: -1, events: libc::POLLIN, revents: 77 }];
    // SAFETY: locals.
    unsafe {
        assert_eq!(poll::poll(set.as_mut_ptr(), 2, -1), 1);
        assert_eq!((set[0].revents, set[1].revents), (libc::POLLIN, 0));
        assert_eq!(poll::__poll_chk(set.as_mut_ptr(), 2, 0, size_of_val(&set)), 1);
        let now = timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(poll::ppoll(set.as_mut_ptr(), 2, &raw const now, ptr::null()), 1);
        assert_eq!(poll::__ppoll_chk(set.as_mut_ptr(), 2, &raw const now, ptr::null(), size_of_val(&set)), 1);
        // More than descriptors can exist is the kernel's to refuse; so is a time that is none.
        bench.libc.refuses("poll", libc::EINVAL);
        assert_eq!(told(poll::poll(set.as_mut_ptr(), u64::MAX, 0) as isize), Err(libc::EINVAL));
        bench.libc.refuses("ppoll", libc::EINVAL);
        let wrong = timespec { tv_sec: -1, tv_nsec: 0 };
        assert_eq!(told(poll::ppoll(set.as_mut_ptr(), 2, &raw const wrong, ptr::null()) as isize), Err(libc::EINVAL));
    }
}

#[test]
fn select_writes_back_the_sets_and_what_is_left_of_the_time() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.arrive(fd, b"x");
    let mut set = [0_u64; 16];
    set[fd as usize / 64] |= 1 << (fd % 64);
    let mut time = timeval { tv_sec: 1000, tv_usec: 0 };
    let at = set.as_mut_ptr().cast();
    // SAFETY: locals of the size that the count says.
    unsafe {
        assert_eq!(poll::select(fd + 1, at, ptr::null_mut(), ptr::null_mut(), &raw mut time), 1);
        assert_eq!((set[fd as usize / 64], time.tv_sec), (1 << (fd % 64), 999));
        bench.libc.refuses("select", libc::EINVAL);
        assert_eq!(told(poll::select(-1, at, ptr::null_mut(), ptr::null_mut(), ptr::null_mut()) as isize), Err(libc::EINVAL));
        time.tv_usec = i64::MAX;
        assert_eq!(told(poll::select(fd + 1, at, ptr::null_mut(), ptr::null_mut(), &raw mut time) as isize), Err(libc::EINVAL));
    }
}

#[test]
fn handlers_are_remembered_by_what_libc_has_accepted() {
    let bench = Bench::new();
    assert!(signals::all_restart());
    bench.libc.answers("sysv_signal", libc::SIG_ERR as isize);
    bench.libc.answers("siginterrupt", 0);
    // SAFETY: the functions of libc are not called.
    unsafe {
        signals::sysv_signal(c_int::MIN, 1000);
        assert!(signals::all_restart(), "it was refused");
        // The handlers of faults, which Rust's runtime installs in every program, interrupt no wait.
        signals::siginterrupt(libc::SIGSEGV, 1);
        assert!(signals::all_restart());
        signals::siginterrupt(libc::SIGUSR2, 1);
        assert!(!signals::all_restart());
        signals::siginterrupt(libc::SIGUSR2, 0);
        assert!(signals::all_restart());
    }
}

/// What is ours goes where libc's function of the name goes; all else to the kernel as it is.
#[test]
#[cfg(target_arch = "x86_64")]
fn system_calls_by_number_reach_the_functions_of_their_names() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.arrive(fd, b"read readv recv");
    let mut bytes = [0_u8; 16];
    let at = bytes.as_mut_ptr() as c_long;
    let fd_word = c_long::from(fd);
    // The upper half of a register that carries an int is not said to be anything.
    let dirty = fd_word | 0x5555_0000_0000_0000;
    // SAFETY: arguments as the numbers say.
    unsafe {
        assert_eq!(raw::syscall(libc::SYS_read, dirty, at, 5, 0, 0, 0), 5);
        let piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 6 };
        assert_eq!(raw::syscall(libc::SYS_readv, fd_word, (&raw const piece) as c_long, 1, 0, 0, 0), 6);
        assert_eq!(raw::syscall(libc::SYS_recvfrom, fd_word, at, 9, 0, 0, 0), 4);
        assert_eq!(raw::syscall(libc::SYS_write, fd_word, at, 3, 0, 0, 0), 3);
        assert_eq!(raw::syscall(libc::SYS_sendto, fd_word, at, 3, 0, 0, 0), 3);
        assert_eq!(bench.sent(fd), b"recrec");
        assert_eq!(told(raw::syscall(libc::SYS_io_uring_setup, 8, 64, 0, 0, 0, 0) as isize), Err(libc::EFAULT));
        assert_eq!(told(raw::syscall(libc::SYS_getsockopt, fd_word, 6, 1, at, 0, 0) as isize), Err(libc::EFAULT));
        // A pointer that is none in clone3 is the kernel's to refuse.
        assert_eq!(told(raw::syscall(libc::SYS_clone3, 8, 64, 0, 0, 0, 0) as isize), Err(libc::EFAULT));
        assert_eq!(raw::syscall(libc::SYS_getpid, 0, 0, 0, 0, 0, 0), c_long::from(std::process::id()));
        assert_eq!(told(raw::syscall(999_999, 0, 0, 0, 0, 0, 0) as isize), Err(libc::ENOSYS));
        bench.libc.answers("close", 0);
        assert_eq!(raw::syscall(libc::SYS_close, fd_word, 0, 0, 0, 0, 0), 0);
    }
    assert!(!bench.is_ours(fd));
    assert_eq!(errno().0, libc::ENOSYS);
}
