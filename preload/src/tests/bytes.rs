//! Buffers and vectors as programs pass them, sane or not, on a connection and a datagram socket of ours.

use super::{piece, told};
use crate::fake::{Bench, SEND_LIMIT};
use crate::{io, message, set_errno};
use libc::{c_int, iovec, size_t};
use std::ptr;

/// A page that no program has.
const NOWHERE: usize = 8;

#[test]
fn a_buffer_that_cannot_be_one_is_efault_and_costs_nothing() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.arrive(fd, b"kept");
    // SAFETY: the library refuses them before it looks.
    unsafe {
        assert_eq!(told(io::read(fd, ptr::null_mut(), 4)), Err(libc::EFAULT));
        assert_eq!(told(io::recv(fd, NOWHERE as *mut _, 4, 0)), Err(libc::EFAULT));
        assert_eq!(told(io::recv(fd, (usize::MAX - 2) as *mut _, 4, 0)), Err(libc::EFAULT));
        assert_eq!(told(io::write(fd, ptr::null(), 4)), Err(libc::EFAULT));
        assert_eq!(told(io::send(fd, NOWHERE as *const _, 4, 0)), Err(libc::EFAULT));
        assert_eq!(told(io::readv(fd, NOWHERE as *const _, 1)), Err(libc::EFAULT));
        // No bytes: the pointer is not used.
        assert_eq!(told(io::read(fd, NOWHERE as *mut _, 0)), Ok(0));
        assert_eq!(told(io::write(fd, NOWHERE as *const _, 0)), Ok(0));
        let mut bytes = [0_u8; 8];
        assert_eq!(told(io::read(fd, bytes.as_mut_ptr().cast(), 8)), Ok(4));
        assert_eq!(&bytes[..4], b"kept");
    }
    assert_eq!(bench.sent(fd), b"");
}

#[test]
fn a_vector_is_refused_as_linux_refuses_it() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.arrive(fd, b"kept");
    let mut bytes = [0_u8; 8];
    let good = piece(&mut bytes);
    let many = vec![iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 0 }; 1025];
    let negative = [good, iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: usize::MAX }];
    let lost = [good, iovec { iov_base: ptr::null_mut(), iov_len: 4 }];
    // SAFETY: vectors of this function's own.
    unsafe {
        for call in [io::readv, io::writev] {
            assert_eq!(told(call(fd, many.as_ptr(), 1025)), Err(libc::EINVAL));
            assert_eq!(told(call(fd, many.as_ptr(), c_int::MAX)), Err(libc::EINVAL));
            assert_eq!(told(call(fd, &raw const good, -1)), Err(libc::EINVAL));
            assert_eq!(told(call(fd, negative.as_ptr(), 2)), Err(libc::EINVAL));
            assert_eq!(told(call(fd, lost.as_ptr(), 2)), Err(libc::EFAULT));
            assert_eq!(told(call(fd, ptr::null(), 0)), Ok(0));
        }
        // Only with offset -1 is there no place in the stream to be read from.
        assert_eq!(told(io::preadv2(fd, &raw const good, 1, 0, 0)), Err(libc::ESPIPE));
        assert_eq!(told(io::pwritev2(fd, &raw const good, 1, 5, 0)), Err(libc::ESPIPE));
        assert_eq!(told(io::preadv2(fd, &raw const good, 1, -1, 0)), Ok(4));
        assert_eq!(told(io::preadv2(fd, &raw const good, 1, -1, libc::RWF_NOWAIT)), Err(libc::EAGAIN));
        assert_eq!(told(io::pwritev2(fd, &raw const good, 1, -1, 0)), Ok(8));
    }
    assert_eq!(bench.sent(fd), b"kept\0\0\0\0");
}

#[test]
fn a_length_beyond_all_memory_moves_what_there_is() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.arrive(fd, b"four");
    // As long as the kernel's longest call: only what has come is written.
    let mut bytes = vec![0_u8; 64];
    // SAFETY: four bytes have come, and there is room for 64.
    assert_eq!(told(unsafe { io::recv(fd, bytes.as_mut_ptr().cast(), isize::MAX as size_t / 4, 0) }), Ok(4));
    assert_eq!(&bytes[..5], b"four\0");
}

#[test]
fn errno_is_set_by_failures_only() {
    let bench = Bench::new();
    let fd = bench.connection();
    let mut bytes = vec![3_u8; SEND_LIMIT + 100];
    set_errno(libc::ENOTTY);
    // SAFETY: a local.
    unsafe {
        assert_eq!(told(io::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT)), Ok(SEND_LIMIT));
        assert_eq!(crate::c::errno().0, libc::ENOTTY);
        assert_eq!(told(io::send(fd, bytes.as_ptr().cast(), 1, libc::MSG_DONTWAIT)), Err(libc::EAGAIN));
        set_errno(libc::ENOTTY);
        bench.arrive(fd, b"x");
        assert_eq!(told(io::recv(fd, bytes.as_mut_ptr().cast(), 1, 0)), Ok(1));
        assert_eq!(crate::c::errno().0, libc::ENOTTY);
        assert_eq!(told(io::recv(fd, bytes.as_mut_ptr().cast(), 1, libc::MSG_DONTWAIT)), Err(libc::EAGAIN));
    }
}

#[test]
fn a_fortified_call_that_fits_is_ours_and_one_that_does_not_is_libcs_to_end() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.arrive(fd, b"abc");
    let mut bytes = [0_u8; 8];
    let at = bytes.as_mut_ptr().cast();
    for name in ["__read_chk", "__recv_chk", "__recvfrom_chk"] {
        bench.libc.refuses(name, libc::E2BIG);
    }
    // SAFETY: a local; libc's own functions are not called.
    unsafe {
        assert_eq!(told(io::__read_chk(fd, at, 1, 8)), Ok(1));
        assert_eq!(told(io::__recv_chk(fd, at, 1, 8, 0)), Ok(1));
        assert_eq!(told(io::__recvfrom_chk(fd, at, 1, 8, 0, ptr::null_mut(), ptr::null_mut())), Ok(1));
        assert_eq!(told(io::__read_chk(fd, at, 9, 8)), Err(libc::E2BIG));
        assert_eq!(told(io::__recv_chk(fd, at, 9, 8, 0)), Err(libc::E2BIG));
        assert_eq!(told(io::__recvfrom_chk(fd, at, 9, 8, 0, ptr::null_mut(), ptr::null_mut())), Err(libc::E2BIG));
    }
}

/// fs/read_write.c, vfs_readv and vfs_writev: a vector of no bytes moves nothing, a datagram neither; `recvmsg` and `send` do.
#[test]
fn a_vector_of_no_bytes_takes_and_sends_no_datagram() {
    let bench = Bench::new();
    let fd = bench.datagrams();
    bench.datagram_arrives(fd, b"kept");
    let empty = piece(&mut []);
    // SAFETY: vectors of this function's own.
    unsafe {
        for (pieces, count) in [(ptr::null(), 0), (&raw const empty, 1)] {
            assert_eq!(told(io::readv(fd, pieces, count)), Ok(0));
            assert_eq!(told(io::preadv2(fd, pieces, count, -1, 0)), Ok(0));
            assert_eq!(told(io::writev(fd, pieces, count)), Ok(0));
            assert_eq!(told(io::pwritev2(fd, pieces, count, -1, 0)), Ok(0));
        }
        assert_eq!(told(io::read(fd, ptr::null_mut(), 0)), Ok(0));
        assert_eq!(bench.sent(fd), b"");
        let mut bytes = [0_u8; 8];
        let good = piece(&mut bytes);
        assert_eq!(told(io::readv(fd, &raw const good, 1)), Ok(4));
        assert_eq!(&bytes[..4], b"kept");
        bench.datagram_arrives(fd, b"");
        let mut message = crate::datagram::message_of(&mut piece(&mut []));
        assert_eq!(told(message::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT)), Ok(0));
        assert_eq!(told(io::recv(fd, bytes.as_mut_ptr().cast(), 8, libc::MSG_DONTWAIT)), Err(libc::EAGAIN));
    }
}

/// include/linux/fs.h, kiocb_set_rw_flags.
#[test]
fn an_unknown_flag_of_preadv2_is_refused() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.arrive(fd, b"kept");
    let mut bytes = [0_u8; 8];
    let good = piece(&mut bytes);
    // SAFETY: a vector of this function's own.
    unsafe {
        assert_eq!(told(io::preadv2(fd, &raw const good, 1, -1, 1 << 30)), Err(libc::EOPNOTSUPP));
        assert_eq!(told(io::pwritev2(fd, &raw const good, 1, -1, 1 << 30)), Err(libc::EOPNOTSUPP));
        assert_eq!(told(io::preadv2(fd, &raw const good, 1, -1, 0)), Ok(4));
    }
    assert_eq!(bench.sent(fd), b"");
}

#[test]
fn splice_and_sendfile_refuse_what_linux_refuses() {
    let bench = Bench::new();
    let (fd, other) = (bench.connection(), bench.connection());
    let mut offset = 0_i64;
    // SAFETY: a local.
    unsafe {
        assert_eq!(told(io::splice(fd, ptr::null_mut(), other, ptr::null_mut(), 9, 0)), Err(libc::EINVAL));
        assert_eq!(told(io::splice(777, ptr::null_mut(), fd, &raw mut offset, 9, 0)), Err(libc::ESPIPE));
        assert_eq!(told(io::splice(fd, &raw mut offset, 777, ptr::null_mut(), 9, 0)), Err(libc::ESPIPE));
        assert_eq!(told(io::sendfile(fd, 777, NOWHERE as *mut _, 9)), Err(libc::EFAULT));
    }
}
