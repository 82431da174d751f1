//! fcntl, ioctl, options and names: what comes in registers and behind pointers.

use super::told;
use crate::fake::Bench;
use crate::{epoll, files, sockets};
use libc::{c_int, c_ulong, epoll_event};
use std::ptr;

/// An address that nothing can lie at.
const NOWHERE: usize = 8;

#[test]
fn ioctl_reads_and_writes_only_what_may_be_memory() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.arrive(fd, b"four");
    let ioctl = |request: c_ulong, argument: usize| {
        // SAFETY: what is no pointer is refused.
        told(unsafe { files::ioctl(fd, request, argument as c_ulong) } as isize)
    };
    for request in [libc::FIONREAD, libc::FIONBIO, libc::TIOCOUTQ, 0x8901] {
        assert_eq!((ioctl(request, 0), ioctl(request, NOWHERE)), (Err(libc::EFAULT), Err(libc::EFAULT)), "{request:#x}");
    }
    let mut count: c_int = -1;
    assert_eq!((ioctl(libc::FIONREAD, (&raw mut count) as usize), count), (Ok(0), 4));
    count = 1;
    assert_eq!(ioctl(libc::FIONBIO, (&raw mut count) as usize), Ok(0));
    assert_eq!(fcntl(fd, libc::F_GETFL, 0).map(|flags| flags as c_int & libc::O_NONBLOCK), Ok(libc::O_NONBLOCK));
}

fn fcntl(fd: c_int, command: c_int, argument: usize) -> Result<usize, c_int> {
    // SAFETY: plain numbers.
    told(unsafe { files::fcntl(fd, command, argument as c_ulong) } as isize)
}

#[test]
fn fcntl_takes_an_int_where_it_takes_one_whatever_the_rest_of_the_register_holds() {
    let bench = Bench::new();
    let fd = bench.connection();
    assert_eq!(fcntl(fd, libc::F_SETFL, 0xdead_beef_0000_0000 | libc::O_NONBLOCK as usize), Ok(0));
    assert_eq!(fcntl(fd, libc::F_GETFL, 0xdead).map(|flags| flags as c_int & libc::O_NONBLOCK), Ok(libc::O_NONBLOCK));
    assert_eq!(fcntl(fd, libc::F_DUPFD, -1_i32 as usize), Err(libc::EINVAL));
    let copy = fcntl(fd, libc::F_DUPFD_CLOEXEC, 0xdead_beef_0000_0000 | 100).expect("numbers are free") as c_int;
    assert!(copy >= 100 && bench.is_ours(copy));
    // On the kernel's descriptors the whole register is passed: F_SETLK has a pointer there.
    bench.libc.answers("fcntl", 0);
    bench.libc.all_calls();
    assert_eq!(fcntl(777, libc::F_SETLK, 0x7fff_1234_5678), Ok(0));
    assert_eq!(bench.libc.calls("fcntl"), [[777, libc::F_SETLK as usize, 0x7fff_1234_5678]]);
}

#[test]
fn an_option_of_a_negative_length_is_refused() {
    let bench = Bench::new();
    let fd = bench.connection();
    let mut on: c_int = 1;
    let at = (&raw mut on).cast();
    let mut len = -1_i32 as u32;
    // SAFETY: locals.
    unsafe {
        let set = |len| told(sockets::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, at, len) as isize);
        assert_eq!((set(-1_i32 as u32), set(3), set(4)), (Err(libc::EINVAL), Err(libc::EINVAL), Ok(0)));
        let set = sockets::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, NOWHERE as *const _, 4);
        assert_eq!(told(set as isize), Err(libc::EFAULT));
        let get = |len: *mut u32| told(sockets::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, at, len) as isize);
        assert_eq!(get(&raw mut len), Err(libc::EINVAL));
        assert_eq!(get(ptr::null_mut()), Err(libc::EFAULT));
        len = 2;
        assert_eq!((get(&raw mut len), len), (Ok(0), 2));
    }
}

#[test]
fn a_room_for_a_name_that_is_none_costs_no_connection() {
    let bench = Bench::new();
    let fd = bench.connection();
    let (mut name, mut len) = ([0_u8; 16], -1_i32 as u32);
    let at = name.as_mut_ptr().cast();
    bench.libc.answers("getsockname", 0);
    // SAFETY: locals; what is no room is refused.
    unsafe {
        for call in [sockets::accept, sockets::getsockname] {
            assert_eq!(told(call(fd, at, &raw mut len) as isize), Err(libc::EINVAL));
            assert_eq!(told(call(fd, at, ptr::null_mut()) as isize), Err(libc::EFAULT));
        }
    }
}

/// epoll_ctl(2): EPOLL_CTL_DEL ignores the event, and programs pass there what they have.
#[test]
fn an_event_is_read_only_where_it_is_needed() {
    let bench = Bench::new();
    let fd = bench.connection();
    // SAFETY: locals; what is no event is refused or ignored.
    unsafe {
        let instance = epoll::epoll_create1(libc::EPOLL_CLOEXEC);
        let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: 5 };
        let wrong = NOWHERE as *mut epoll_event;
        assert_eq!(told(epoll::epoll_ctl(instance, libc::EPOLL_CTL_ADD, fd, wrong) as isize), Err(libc::EFAULT));
        assert_eq!(told(epoll::epoll_ctl(instance, libc::EPOLL_CTL_ADD, fd, &raw mut event) as isize), Ok(0));
        bench.arrive(fd, b"x");
        assert_eq!(told(epoll::epoll_wait(instance, wrong, 1, 0) as isize), Err(libc::EFAULT));
        assert_eq!(told(epoll::epoll_wait(instance, &raw mut event, 0, 0) as isize), Err(libc::EINVAL));
        assert_eq!(told(epoll::epoll_wait(instance, &raw mut event, -1, 0) as isize), Err(libc::EINVAL));
        assert_eq!(told(epoll::epoll_wait(instance, &raw mut event, 1, 0) as isize), Ok(1));
        assert_eq!(told(epoll::epoll_ctl(instance, libc::EPOLL_CTL_DEL, fd, wrong) as isize), Ok(0));
        assert_eq!(files::close(instance), 0);
    }
}
