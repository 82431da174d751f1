//! Numbers: what closes them, what makes them, and which thread has one after a race.

use super::told;
use crate::c::errno;
use crate::fake::{Bench, placeholder};
use crate::{files, makers, print, stdio};
use libc::{c_int, c_uint};
use ringway_channel::Operation;
use ringway_posix::fd_table::Entry;

#[test]
fn close_range_goes_around_the_librarys_own_and_closes_ours() {
    let bench = Bench::new();
    let fd = bench.connection();
    let internal: Vec<c_int> = bench.posix.attached().expect("it is attached").descriptors();
    bench.libc.answers("close_range", 0);
    bench.libc.answers("close", 0);
    // SAFETY: the functions of libc are not called.
    assert_eq!(unsafe { files::close_range(1, c_uint::MAX, 0) }, 0);
    assert!(!bench.is_ours(fd));
    let ranges = bench.libc.calls("close_range");
    let closed = bench.libc.calls("close");
    assert_eq!(closed, [[fd as usize]]);
    for own in internal {
        let covers = |range: &Vec<usize>| (range[0]..=range[1]).contains(&(own as usize));
        assert!(!ranges.iter().any(covers), "{own} is in {ranges:?}");
    }
    assert_eq!((ranges[0][0], ranges[ranges.len() - 1][1]), (1, c_uint::MAX as usize), "{ranges:?}");
    let ends: Vec<(usize, usize)> = ranges.iter().map(|range| (range[0], range[1])).collect();
    assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "in order: {ends:?}");
    assert!(bench.hears(|operation| matches!(operation, Operation::Close { .. })));
}

#[test]
fn close_range_with_odd_arguments_is_the_kernels() {
    let bench = Bench::new();
    let fd = bench.connection();
    for (first, last, flags) in [(5, 4, 0), (0, c_uint::MAX, 4), (0, c_uint::MAX, 64), (c_uint::MAX, c_uint::MAX, 0)] {
        bench.libc.refuses("close_range", libc::EINVAL);
        // SAFETY: the function of libc is not called.
        let answer = unsafe { files::close_range(first, last, flags) };
        assert_eq!((answer, errno().0), (-1, libc::EINVAL));
        assert_eq!(bench.libc.calls("close_range"), [[first as usize, last as usize, flags as usize]]);
        assert!(bench.is_ours(fd));
    }
}

#[test]
fn a_close_that_fails_in_the_kernel_still_ends_the_socket_once() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.libc.refuses("close", libc::EINTR);
    // SAFETY: the function of libc is not called.
    let answers = unsafe { [files::close(fd), files::close(fd)] };
    assert_eq!((answers, errno().0, bench.libc.calls("close").len()), ([-1, -1], libc::EINTR, 2));
    assert!(!bench.is_ours(fd));
}

#[test]
fn the_librarys_own_descriptors_are_not_the_programs() {
    let bench = Bench::new();
    let own = bench.posix.attached().expect("it is attached").control_descriptor();
    bench.libc.all_calls();
    // SAFETY: plain numbers.
    unsafe {
        assert_eq!(told(files::close(own) as isize), Err(libc::EBADF));
        assert_eq!(told(files::dup(own) as isize), Err(libc::EBADF));
        assert_eq!(told(files::dup2(0, own) as isize), Err(libc::EBADF));
        assert_eq!(told(files::dup3(0, own, 0) as isize), Err(libc::EBADF));
    }
    let touched = bench.libc.all_calls();
    assert!(touched.iter().all(|(name, _)| !matches!(*name, "close" | "dup" | "dup2" | "dup3")), "{touched:?}");
}

/// The number is free when libc's `fclose` has closed it, and another thread's `accept` may have got it before `fclose` returns.
#[test]
fn fclose_does_not_touch_the_number_that_another_thread_gets() {
    let bench = Bench::new();
    let fd = placeholder();
    let other = bench.connection();
    let socket = bench.posix.table().socket(other).expect("it is ours");
    bench.libc.answers("fileno", fd as isize);
    let table = bench.posix.table();
    bench.libc.does("fclose", move |_| {
        table.set(fd, Entry::Socket(socket));
        0
    });
    // SAFETY: the functions of libc are not called; `stream` is not looked at.
    assert_eq!(unsafe { files::fclose(std::ptr::dangling_mut()) }, 0);
    assert!(bench.is_ours(fd));
}

#[test]
fn fclose_of_a_stream_that_libc_made_of_a_socket_of_ours_lets_it_go() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.libc.answers("fileno", fd as isize);
    bench.libc.answers("fclose", 0);
    // SAFETY: as above.
    assert_eq!(unsafe { files::fclose(std::ptr::dangling_mut()) }, 0);
    assert!(!bench.is_ours(fd));
}

#[test]
fn a_stream_of_ours_writes_what_it_holds_before_it_closes() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.libc.answers("close", 0);
    // SAFETY: a stream that this function makes and closes.
    unsafe {
        let stream = stdio::fdopen(fd, c"w".as_ptr());
        assert!(!stream.is_null());
        assert_eq!(stdio::fileno(stream), fd);
        assert_eq!(libc::fputs(c"held back".as_ptr(), stream), 1);
        assert_eq!(bench.sent(fd), b"");
        assert_eq!(libc::fflush(stream), 0);
        assert_eq!(bench.sent(fd), b"held back");
        assert_eq!(files::fclose(stream), 0);
    }
    assert!(!bench.is_ours(fd));
}

#[test]
fn a_number_that_the_kernel_makes_anew_is_no_socket_of_ours_any_more() {
    let bench = Bench::new();
    for name in ["open", "eventfd", "socket", "pipe2"] {
        let fd = bench.connection();
        bench.libc.answers(name, if name == "pipe2" { 0 } else { fd as isize });
        // SAFETY: the functions of libc are not called; the pair is a local.
        let answer = unsafe {
            match name {
                "open" => makers::open(c"/".as_ptr(), 0, 0),
                "eventfd" => makers::eventfd(0, 0),
                "socket" => crate::sockets::socket(2, 1, 0),
                _ => makers::pipe2([fd, fd].as_mut_ptr(), 0),
            }
        };
        assert!(answer >= 0 && !bench.is_ours(fd), "{name}");
        bench.libc.refuses(name, libc::EMFILE);
    }
}

unsafe extern "C" {
    fn dprintf(fd: c_int, format: *const libc::c_char, ...) -> c_int;
}

#[test]
#[cfg(target_arch = "x86_64")]
fn dprintf_finds_its_arguments_in_registers_and_behind_them() {
    let bench = Bench::new();
    let fd = bench.connection();
    let format = c"%d %s %ld %c %x %g %d %d %g %g %g %g %g %g %g %g %s";
    // SAFETY: arguments as the format says.
    let len = unsafe {
        dprintf(
            fd,
            format.as_ptr(),
            1,
            c"two".as_ptr(),
            3_i64 << 40,
            c_int::from(b'4'),
            0x55,
            6.5,
            7,
            8,
            9.5,
            10.5,
            11.5,
            12.5,
            13.5,
            14.5,
            15.5,
            16.5,
            c"end".as_ptr(),
        )
    };
    let text = "1 two 3298534883328 4 55 6.5 7 8 9.5 10.5 11.5 12.5 13.5 14.5 15.5 16.5 end";
    assert_eq!((len, String::from_utf8(bench.sent(fd))), (text.len() as c_int, Ok(text.to_string())));
}

#[test]
fn dprintf_of_nothing_and_to_a_connection_that_is_over() {
    let bench = Bench::new();
    let fd = bench.connection();
    let mut list = [0_usize; 4];
    let list = list.as_mut_ptr().cast();
    // SAFETY: formats without arguments.
    unsafe {
        assert_eq!(print::vdprintf(fd, c"".as_ptr(), list), 0);
        assert_eq!(crate::sockets::shutdown(fd, libc::SHUT_WR), 0);
        let ignored = crate::signals::signal(libc::SIGPIPE, libc::SIG_IGN);
        assert_eq!(told(print::vdprintf(fd, c"text".as_ptr(), list) as isize), Err(libc::EPIPE));
        crate::signals::signal(libc::SIGPIPE, ignored);
    }
}
