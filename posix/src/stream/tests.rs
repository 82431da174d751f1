//! Bytes in and out, against a worker that the test plays.

use super::*;
use crate::mock::Bench;
use ringway_shm::channel::{Flags, State as SlotState};
use std::thread;

const DONT_WAIT: Receive = Receive { dont_wait: true, ..plain() };

const fn plain() -> Receive {
    Receive {
        peek: false,
        dont_wait: false,
        wait_all: false,
        discard: false,
        urgent: false,
        error_queue: false,
        looks_always: false,
    }
}

impl Bench {
    /// Receives up to `count` bytes.
    fn received(&self, socket: SocketRef, count: usize, how: Receive) -> Answer<Vec<u8>> {
        let mut bytes = vec![0; count];
        let count = self.posix.receive(socket, &mut [IoSliceMut::new(&mut bytes)], how)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    fn sent(&self, socket: SocketRef, count: usize, how: Send) -> Answer<usize> {
        self.posix.send(socket, &[IoSlice::new(&vec![7; count])], how)
    }
}

fn connected() -> (Bench, SocketRef) {
    let bench = Bench::new();
    let (_, socket) = bench.socket(SlotState::Connected);
    (bench, socket)
}

#[test]
fn a_peek_leaves_what_a_read_takes() {
    let (bench, socket) = connected();
    bench.arrive(socket, b"hello world");
    assert_eq!(bench.received(socket, 5, Receive { peek: true, ..plain() }), Ok(b"hello".to_vec()));
    assert_eq!(bench.received(socket, 5, Receive { peek: true, ..plain() }), Ok(b"hello".to_vec()));
    assert_eq!(bench.received(socket, 6, plain()), Ok(b"hello ".to_vec()));
    assert_eq!(bench.received(socket, 100, plain()), Ok(b"world".to_vec()));
    assert_eq!(bench.received(socket, 100, DONT_WAIT), Err(Errno::AGAIN));
}

#[test]
fn a_vector_is_filled_piece_after_piece() {
    let (bench, socket) = connected();
    bench.arrive(socket, b"abcdefg");
    let (mut first, mut second, mut third) = ([0; 2], [0; 0], [0; 4]);
    let mut pieces = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second), IoSliceMut::new(&mut third)];
    assert_eq!(bench.posix.receive(socket, &mut pieces, plain()), Ok(6));
    assert_eq!((&first, &third), (b"ab", b"cdef"));
}

#[test]
fn wait_all_waits_for_all_and_an_end_cuts_it_short() {
    let (bench, socket) = connected();
    let all = Receive { wait_all: true, ..plain() };
    for _ in 0..10 {
        thread::scope(|scope| {
            let reader = scope.spawn(|| bench.received(socket, 6, all));
            bench.arrive(socket, b"abc");
            bench.arrive(socket, b"def");
            assert_eq!(reader.join().expect("it reads"), Ok(b"abcdef".to_vec()));
        });
    }
    thread::scope(|scope| {
        let reader = scope.spawn(|| bench.received(socket, 6, all));
        bench.arrive(socket, b"ab");
        bench.turn(|worker| worker.set_flags(socket.index, Flags::PEER_CLOSED));
        assert_eq!(reader.join().expect("it reads"), Ok(b"ab".to_vec()));
    });
    assert_eq!(bench.received(socket, 6, all), Ok(vec![]));
}

#[test]
fn what_is_discarded_is_gone() {
    let (bench, socket) = connected();
    bench.arrive(socket, b"abcdef");
    let mut bytes = [1; 4];
    let how = Receive { discard: true, ..plain() };
    assert_eq!(bench.posix.receive(socket, &mut [IoSliceMut::new(&mut bytes)], how), Ok(4));
    assert_eq!(bytes, [1; 4]);
    assert_eq!(bench.received(socket, 9, plain()), Ok(b"ef".to_vec()));
}

#[test]
fn a_reset_is_told_once_and_after_the_bytes() {
    let (bench, socket) = connected();
    bench.arrive(socket, b"last");
    let over = Flags(Flags::FAILED.0 | Flags::HUNG_UP.0 | Flags::WRITE_CLOSED.0);
    bench.turn(|worker| worker.set_error(socket.index, ringway_shm::channel::Failure::Reset, over));
    assert_eq!(bench.received(socket, 9, plain()), Ok(b"last".to_vec()));
    assert_eq!(bench.received(socket, 9, plain()), Err(Errno::CONNRESET));
    assert_eq!(bench.received(socket, 9, plain()), Ok(vec![]));
    assert_eq!(bench.sent(socket, 1, Send::default()), Err(Errno::PIPE));
}

#[test]
fn after_the_end_was_read_a_reset_is_a_broken_pipe() {
    let (bench, socket) = connected();
    bench.turn(|worker| worker.set_flags(socket.index, Flags::PEER_CLOSED));
    assert_eq!(bench.received(socket, 9, plain()), Ok(vec![]));
    let over = Flags(Flags::FAILED.0 | Flags::HUNG_UP.0 | Flags::WRITE_CLOSED.0);
    bench.turn(|worker| worker.set_error(socket.index, ringway_shm::channel::Failure::Reset, over));
    assert_eq!(bench.sent(socket, 1, Send { no_signal: true, ..Send::default() }), Err(Errno::PIPE));
}

#[test]
fn a_write_that_finds_no_room_is_short_then_told_to_come_again() {
    let (bench, socket) = connected();
    let how = Send { dont_wait: true, ..Send::default() };
    assert_eq!(bench.sent(socket, 1500, how), Ok(1000));
    assert_eq!(bench.sent(socket, 1, how), Err(Errno::AGAIN));
}

#[test]
fn a_blocking_write_waits_until_all_is_queued() {
    let (bench, socket) = connected();
    bench.posix.provide_waiter();
    thread::scope(|scope| {
        let writer = scope.spawn(|| bench.sent(socket, 2500, Send::default()));
        let mut taken = 0;
        while taken < 2500 {
            taken += bench.turn(|worker| {
                let mut bytes = [0; 4096];
                worker.tx_available(socket.index);
                let count = worker.copy_tx(socket.index, &mut bytes);
                worker.release_tx(socket.index, count as u32);
                worker.signal(socket.index);
                count
            });
            thread::yield_now();
        }
        assert_eq!(writer.join().expect("it writes"), Ok(2500));
    });
}

#[test]
fn a_broken_pipe_raises_its_signal_unless_forbidden() {
    let (bench, socket) = connected();
    bench.posix.shutdown(0, socket, libc::SHUT_WR).expect("it is connected");
    let signals = || bench.kernel.broken_pipes.load(Ordering::Relaxed);
    assert_eq!(bench.sent(socket, 1, Send { no_signal: true, ..Send::default() }), Err(Errno::PIPE));
    assert_eq!(signals(), 0);
    assert_eq!(bench.sent(socket, 1, Send::default()), Err(Errno::PIPE));
    assert_eq!(signals(), 1);
}

#[test]
fn a_reader_whose_service_dies_is_reset_once() {
    let (mut bench, socket) = connected();
    bench.kill_service();
    assert_eq!(bench.received(socket, 1, plain()), Err(Errno::CONNRESET));
    assert_eq!(bench.received(socket, 1, plain()), Ok(vec![]));
    assert_eq!(bench.sent(socket, 1, Send { no_signal: true, ..Send::default() }), Err(Errno::PIPE));
}

#[test]
fn urgent_data_and_the_error_queue_are_refused_as_linux_does_without_any() {
    let (bench, socket) = connected();
    assert_eq!(bench.received(socket, 1, Receive::from_flags(libc::MSG_OOB)), Err(Errno::INVAL));
    assert_eq!(bench.received(socket, 1, Receive::from_flags(libc::MSG_ERRQUEUE)), Err(Errno::AGAIN));
    assert_eq!(bench.sent(socket, 1, Send::from_flags(libc::MSG_OOB)), Err(Errno::OPNOTSUPP));
}
