//! fcntl and ioctl on sockets of the stack.

use super::*;
use crate::mock::Bench;
use ringway_channel::{Attachment, State as SlotState};
use ringway_shm::stats::InfoRecord;

#[test]
fn non_blocking_is_the_sockets_whichever_call_set_it() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(SlotState::Connected);
    let flags = || bench.posix.fcntl(fd, socket, libc::F_GETFL, 0);
    assert_eq!(flags(), Some(Ok(libc::O_RDWR)));
    assert_eq!(bench.posix.ioctl(socket, libc::FIONBIO, 1), Some(Ok(Control::Done)));
    assert_eq!(flags(), Some(Ok(libc::O_RDWR | libc::O_NONBLOCK)));
    assert_eq!(bench.posix.fcntl(fd, socket, libc::F_SETFL, 0), Some(Ok(0)));
    assert_eq!(flags(), Some(Ok(libc::O_RDWR)));
}

#[test]
fn status_flags_read_back() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(SlotState::Connected);
    let set = |flags: i32| bench.posix.fcntl(fd, socket, libc::F_SETFL, flags.into());
    let flags = || bench.posix.fcntl(fd, socket, libc::F_GETFL, 0);
    let all = libc::O_APPEND | libc::O_ASYNC | libc::O_NONBLOCK | libc::O_NOATIME;
    assert_eq!(set(all), Some(Ok(0)));
    assert_eq!(flags(), Some(Ok(libc::O_RDWR | all)));
    assert_eq!(set(libc::O_DIRECT), Some(Err(Errno::INVAL)));
    bench.posix.descriptions.of(socket).forget_references();
    assert_eq!(flags(), Some(Ok(libc::O_RDWR | all)), "they are not this process's");
    assert_eq!(bench.posix.ioctl(socket, FIOASYNC, 0), Some(Ok(Control::Done)));
    assert_eq!(flags(), Some(Ok(libc::O_RDWR | all & !libc::O_ASYNC)));
    assert_eq!(set(0), Some(Ok(0)));
    assert_eq!(flags(), Some(Ok(libc::O_RDWR)));
}

#[test]
fn queue_lengths_are_counted_and_a_listener_has_none() {
    let bench = Bench::new();
    let (_, socket) = bench.socket(SlotState::Connected);
    bench.arrive(socket, b"12345");
    assert_eq!(bench.posix.ioctl(socket, libc::FIONREAD, 0), Some(Ok(Control::Number(5))));
    let (_, listener) = bench.socket(SlotState::Listening);
    for request in [libc::FIONREAD, libc::TIOCOUTQ, SIOCOUTQNSD] {
        assert_eq!(bench.posix.ioctl(listener, request, 0), Some(Err(Errno::INVAL)));
    }
}

/// The stack knows what is under way: bytes that it has copied are not in the channel any more.
#[test]
fn the_send_queue_is_the_stacks() {
    let bench = Bench::new();
    let (_, socket) = bench.socket(SlotState::Connected);
    let info =
        InfoRecord { sent_bytes: 900, retransmitted_bytes: 100, acked_bytes: 500, unsent_bytes: 40, ..InfoRecord::default() };
    for (request, queued) in [(libc::TIOCOUTQ, 340), (SIOCOUTQNSD, 40)] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let answer = |worker: &mut Attachment| {
                    worker.next_request().map(|request| worker.answer_with_bytes(&request, &info.to_bytes()))
                };
                while bench.turn(answer).is_none() {
                    std::thread::yield_now();
                }
            });
            assert_eq!(bench.posix.ioctl(socket, request, 0), Some(Ok(Control::Number(queued))));
        });
    }
}

#[test]
fn other_commands_are_the_kernels() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(SlotState::Connected);
    assert_eq!(bench.posix.fcntl(fd, socket, libc::F_GETFD, 0), None);
    assert_eq!(bench.posix.ioctl(socket, 0x5401, 0), None);
}
