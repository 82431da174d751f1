//! Messages as programs pass them: hostile counts, names and control data, and descriptors of ours that travel.

use super::{piece, told};
use crate::fake::{Bench, sockaddr};
use crate::{datagram, io, message};
use libc::{c_int, c_uint, iovec, mmsghdr, msghdr, timespec};
use std::os::fd::AsRawFd;
use std::ptr;

/// An address that no message can lie at.
const NOWHERE: usize = 8;

fn message_to(piece: &mut iovec, name: &[u8]) -> msghdr {
    let mut message = datagram::message_of(piece);
    (message.msg_name, message.msg_namelen) = (name.as_ptr().cast_mut().cast(), name.len() as u32);
    message
}

/// Control data with one header: SCM_RIGHTS with these descriptors; the length that the header says is `len`.
fn rights(descriptors: &[c_int], len: usize) -> Vec<u8> {
    let mut control = [len.to_ne_bytes().as_slice(), &libc::SOL_SOCKET.to_ne_bytes(), &libc::SCM_RIGHTS.to_ne_bytes()].concat();
    descriptors.iter().for_each(|fd| control.extend(fd.to_ne_bytes()));
    control.resize(control.len().next_multiple_of(8), 0);
    control
}

#[test]
fn a_message_with_impossible_parts_is_refused_as_linux_refuses_it() {
    let bench = Bench::new();
    let (stream, datagrams) = (bench.connection(), bench.datagrams());
    bench.arrive(stream, b"kept");
    bench.datagram_arrives(datagrams, b"kept");
    let mut bytes = [0_u8; 8];
    let mut good = piece(&mut bytes);
    let many = vec![iovec { iov_base: ptr::null_mut(), iov_len: 0 }; 1025];
    for fd in [stream, datagrams] {
        let check = |change: &dyn Fn(&mut msghdr), error: c_int| {
            let mut message = datagram::message_of(&mut { good });
            change(&mut message);
            // SAFETY: what is wrong with it is refused before it is used.
            unsafe {
                assert_eq!(told(message::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT)), Err(error), "receiving");
                assert_eq!(told(message::sendmsg(fd, &raw const message, libc::MSG_DONTWAIT)), Err(error), "sending");
            }
        };
        check(&|message| message.msg_iovlen = usize::MAX, libc::EMSGSIZE);
        check(&|message| (message.msg_iov, message.msg_iovlen) = (many.as_ptr().cast_mut(), 1025), libc::EMSGSIZE);
        check(&|message| message.msg_iov = ptr::null_mut(), libc::EFAULT);
        check(&|message| message.msg_iov = NOWHERE as *mut iovec, libc::EFAULT);
        // SAFETY: as above.
        unsafe {
            assert_eq!(told(message::recvmsg(fd, NOWHERE as *mut msghdr, 0)), Err(libc::EFAULT));
            assert_eq!(told(message::sendmsg(fd, ptr::null(), 0)), Err(libc::EFAULT));
        }
    }
    let mut message = message_to(&mut good, &sockaddr([192, 0, 2, 9], 99));
    message.msg_namelen = -1_i32 as u32;
    // SAFETY: a message of this function's own.
    unsafe {
        assert_eq!(told(message::recvmsg(datagrams, &raw mut message, 0)), Err(libc::EINVAL));
        assert_eq!(told(message::sendmsg(datagrams, &raw const message, 0)), Err(libc::EINVAL));
        // Nothing was lost by any of it.
        assert_eq!(told(io::recv(stream, bytes.as_mut_ptr().cast(), 8, libc::MSG_DONTWAIT)), Ok(4));
        assert_eq!(told(io::recv(datagrams, bytes.as_mut_ptr().cast(), 8, libc::MSG_DONTWAIT)), Ok(4));
    }
    assert_eq!((bench.sent(stream), bench.sent(datagrams)), (vec![], vec![]));
}

#[test]
fn a_senders_name_is_cut_to_its_room_and_a_room_that_is_none_takes_no_datagram() {
    let bench = Bench::new();
    let (stream, fd) = (bench.connection(), bench.datagrams());
    bench.datagram_arrives(fd, b"abcd");
    let (mut bytes, mut name, mut len) = ([0_u8; 8], [0xee_u8; 16], -1_i32 as u32);
    let (at, name_at) = (bytes.as_mut_ptr().cast(), name.as_mut_ptr().cast());
    // SAFETY: locals; what is none is refused.
    unsafe {
        assert_eq!(told(io::recvfrom(fd, at, 8, 0, name_at, &raw mut len)), Err(libc::EINVAL));
        assert_eq!(told(io::recvfrom(fd, at, 8, 0, name_at, ptr::null_mut())), Err(libc::EFAULT));
        len = 6;
        assert_eq!(told(io::recvfrom(fd, at, 8, 0, name_at, &raw mut len)), Ok(4));
    }
    assert_eq!((len, &name[..6], name[6]), (16, &sockaddr([192, 0, 2, 9], 99)[..6], 0xee));
    // Without an address the length is not used: net/socket.c, __sys_recvfrom.
    bench.arrive(stream, b"ab");
    len = 7;
    // SAFETY: locals.
    unsafe {
        assert_eq!(told(io::recvfrom(stream, at, 1, 0, ptr::null_mut(), &raw mut len)), Ok(1));
        assert_eq!(len, 7);
        assert_eq!(told(io::recvfrom(stream, at, 1, 0, name_at, &raw mut len)), Ok(1));
        assert_eq!(len, 0);
    }
}

#[test]
fn control_data_of_hostile_lengths_sends_nothing() {
    let bench = Bench::new();
    let fd = bench.datagrams();
    let mut bytes = *b"data";
    let mut good = piece(&mut bytes);
    let name = sockaddr([192, 0, 2, 9], 99);
    for (control, len, error) in [
        (rights(&[], 15), 16, libc::EINVAL),
        (rights(&[], 17), 16, libc::EINVAL),
        (rights(&[], usize::MAX), 16, libc::EINVAL),
        (vec![], usize::MAX, libc::EFAULT),
    ] {
        let mut message = message_to(&mut good, &name);
        (message.msg_control, message.msg_controllen) = (control.as_ptr().cast_mut().cast(), len);
        if control.is_empty() {
            message.msg_control = NOWHERE as *mut _;
        }
        // SAFETY: a message of this function's own; its lengths are refused.
        assert_eq!(told(unsafe { message::sendmsg(fd, &raw const message, 0) }), Err(error));
    }
    assert_eq!(bench.sent(fd), b"");
    let message = message_to(&mut good, &name);
    // SAFETY: as above.
    assert_eq!(told(unsafe { message::sendmsg(fd, &raw const message, 0) }), Ok(4));
    assert!(bench.sent(fd).ends_with(b"data"));
}

/// A message on a kernel's socket is the kernel's to refuse, whatever the library looks for in it.
#[test]
fn a_message_that_is_none_reaches_the_kernel() {
    let bench = Bench::new();
    bench.libc.refuses("sendmsg", libc::EFAULT);
    bench.libc.answers("recvmsg", 0);
    // SAFETY: the functions of libc are not called.
    unsafe {
        assert_eq!(told(message::sendmsg(777, NOWHERE as *const msghdr, 0)), Err(libc::EFAULT));
        let mut message = datagram::message_of(&mut piece(&mut []));
        (message.msg_control, message.msg_controllen) = (NOWHERE as *mut _, usize::MAX);
        assert_eq!(told(message::sendmsg(777, &raw const message, 0)), Err(libc::EFAULT));
        assert_eq!(told(message::recvmsg(777, &raw mut message, 0)), Ok(0));
    }
}

#[test]
fn a_descriptor_of_ours_in_a_message_that_is_not_sent_goes_on() {
    let bench = Bench::new();
    let fd = bench.connection();
    let control = rights(&[fd, 778], 24);
    let mut message = datagram::message_of(&mut piece(&mut []));
    (message.msg_control, message.msg_controllen) = (control.as_ptr().cast_mut().cast(), control.len());
    bench.libc.refuses("sendmsg", libc::EPIPE);
    // SAFETY: a message of this function's own.
    assert_eq!(told(unsafe { message::sendmsg(777, &raw const message, 0) }), Err(libc::EPIPE));
    bench.arrive(fd, b"on");
    let mut bytes = [0_u8; 2];
    // SAFETY: a local.
    assert_eq!(told(unsafe { io::read(fd, bytes.as_mut_ptr().cast(), 2) }), Ok(2));
}

fn batch<const N: usize>(pieces: &mut [iovec; N]) -> [mmsghdr; N] {
    pieces.each_mut().map(|piece| mmsghdr { msg_hdr: datagram::message_of(piece), msg_len: 99 })
}

#[test]
fn a_batch_ends_where_nothing_more_is_there() {
    let bench = Bench::new();
    let fd = bench.datagrams();
    bench.datagram_arrives(fd, b"one");
    bench.datagram_arrives(fd, b"four");
    let mut rooms = [[0_u8; 8]; 4];
    let mut pieces = rooms.each_mut().map(|room| piece(room));
    let mut messages = batch(&mut pieces);
    let at = messages.as_mut_ptr();
    // SAFETY: locals.
    unsafe {
        assert_eq!(told(message::recvmmsg(fd, at, 4, libc::MSG_WAITFORONE, ptr::null_mut()) as isize), Ok(2));
        assert_eq!(messages.map(|message| message.msg_len), [3, 4, 99, 99]);
        assert_eq!(told(message::recvmmsg(fd, at, 4, libc::MSG_DONTWAIT, ptr::null_mut()) as isize), Err(libc::EAGAIN));
        assert_eq!(told(message::recvmmsg(fd, at, 0, 0, ptr::null_mut()) as isize), Ok(0));
        assert_eq!(told(message::recvmmsg(fd, NOWHERE as *mut _, 4, 0, ptr::null_mut()) as isize), Err(libc::EFAULT));
    }
}

/// net/socket.c, do_recvmmsg: the messages are returned, the next call tells of the error.
#[test]
fn an_error_behind_messages_of_a_batch_is_the_next_calls() {
    let bench = Bench::new();
    let fd = bench.datagrams();
    bench.datagram_arrives(fd, b"one");
    let refusal = bench.is_refused_when_read(fd);
    let mut rooms = [[0_u8; 8]; 2];
    let mut pieces = rooms.each_mut().map(|room| piece(room));
    let mut messages = batch(&mut pieces);
    let at = messages.as_mut_ptr();
    // SAFETY: locals.
    unsafe {
        assert_eq!(told(message::recvmmsg(fd, at, 2, 0, ptr::null_mut()) as isize), Ok(1));
        assert_eq!(told(message::recvmmsg(fd, at, 2, 0, ptr::null_mut()) as isize), Err(libc::ECONNREFUSED));
        assert_eq!(told(message::recvmmsg(fd, at, 2, libc::MSG_DONTWAIT, ptr::null_mut()) as isize), Err(libc::EAGAIN));
    }
    refusal.join().expect("no panic");
}

/// net/socket.c, do_recvmmsg: looked at behind each message.
#[test]
fn the_time_limit_of_recvmmsg_ends_a_batch_between_two_messages() {
    let bench = Bench::new();
    let fd = bench.datagrams();
    let mut rooms = [[0_u8; 8]; 2];
    let mut pieces = rooms.each_mut().map(|room| piece(room));
    let mut messages = batch(&mut pieces);
    let mut limit = timespec { tv_sec: 0, tv_nsec: 0 };
    bench.datagram_arrives(fd, b"one");
    bench.datagram_arrives(fd, b"two");
    // SAFETY: locals.
    unsafe {
        assert_eq!(message::recvmmsg(fd, messages.as_mut_ptr(), 2, 0, &raw mut limit), 1);
        limit.tv_sec = 1000;
        assert_eq!(message::recvmmsg(fd, messages.as_mut_ptr(), 1, 0, &raw mut limit), 1);
        assert!(limit.tv_sec == 999, "what is left: {}", limit.tv_sec);
        for (seconds, nanos) in [(-1, 0), (0, -1), (0, 1_000_000_000)] {
            limit = timespec { tv_sec: seconds, tv_nsec: nanos };
            assert_eq!(told(message::recvmmsg(fd, messages.as_mut_ptr(), 2, 0, &raw mut limit) as isize), Err(libc::EINVAL));
        }
    }
}

/// net/socket.c, __sys_sendmmsg: 1,024 at once, and what lies behind them is not looked at.
#[test]
fn a_batch_longer_than_linux_takes_is_cut() {
    let bench = Bench::new();
    let fd = bench.connection();
    let mut none = [piece(&mut [])];
    let mut messages: Vec<mmsghdr> = (0..1024).flat_map(|_| batch(&mut none)).collect();
    // SAFETY: 1,024 messages are there.
    assert_eq!(unsafe { message::sendmmsg(fd, messages.as_mut_ptr(), c_uint::MAX, 0) }, 1024);
    assert!(messages.iter().all(|message| message.msg_len == 0));
    bench.libc.answers("sendmmsg", 1);
    // SAFETY: the function of libc is not called.
    assert_eq!(unsafe { message::sendmmsg(777, messages.as_mut_ptr(), 5000, 0) }, 1);
    assert_eq!(bench.libc.calls("sendmmsg")[0][2], 5000, "on the kernel's socket the kernel cuts");
}

/// A program outside of Ringway into which /etc/ld.so.preload has loaded the library; it was ended by a panic.
#[test]
fn outside_of_ringway_messages_are_the_kernels() {
    let (ours, peer) = std::os::unix::net::UnixDatagram::pair().expect("two descriptors");
    let mut bytes = *b"x";
    let mut parts = [piece(&mut bytes), piece(&mut [])];
    let mut messages = batch(&mut parts);
    // SAFETY: two messages are there.
    assert_eq!(unsafe { message::sendmmsg(ours.as_raw_fd(), messages.as_mut_ptr(), 2, 0) }, 2);
    assert_eq!((peer.recv(&mut [0; 9]).expect("it was sent"), peer.recv(&mut [0; 9]).expect("this one too")), (1, 0));
}
