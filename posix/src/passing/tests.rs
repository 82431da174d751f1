//! Descriptors in flight.

use super::*;
use crate::fallback::{Kernel, OnExec};
use crate::mock::Bench;
use ringway_channel::{Operation, State};

#[test]
fn a_message_that_was_not_sent_takes_nothing_with_it() {
    let bench = Bench::new();
    let (fd, _) = bench.socket(State::Connected);
    let mut passage = Passage::default();
    // More than can be recorded: the rest is kept.
    (0..200).for_each(|_| bench.posix.before_passing(fd, &mut passage));
    assert!(!passage.noted.is_empty() && !passage.kept.is_empty());
    assert_eq!(passage.noted.len() + passage.kept.len(), 200);
    bench.posix.undo_passing(passage);
    assert_eq!(bench.posix.close(fd), Some(Ok(())));
    assert_eq!(bench.requests(), [Operation::Close { linger_s: None }]);
}

#[test]
fn a_connection_that_is_passed_on_and_closed_stays_open() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(State::Connected);
    bench.posix.before_passing(fd, &mut Passage::default());
    assert_eq!(bench.posix.close(fd), Some(Ok(())));
    assert_eq!(bench.requests(), []);
    let channel = bench.posix.attached().expect("it is attached");
    // The receiver, normally another process.
    channel.hold(socket);
    channel.arrive(socket);
    assert!(channel.release(socket), "none is in flight");
}

#[test]
fn a_connection_whose_message_is_never_received_ends_with_the_message() {
    let bench = Bench::new();
    let sockets = [0; 2].map(|_| bench.socket(State::Connected));
    let mut passage = Passage::default();
    for (fd, _) in sockets {
        bench.posix.before_passing(fd, &mut passage);
    }
    // The second message still exists somewhere, and with it its kernel socket.
    let message = bench.kernel.duplicate(sockets[1].0, 0, OnExec::Close).expect("numbers are free");
    let look = || {
        bench.posix.flights.looked.store(0, Ordering::Relaxed);
        bench.posix.until_next_look(None);
        bench.requests()
    };
    assert_eq!(look(), [], "this process has both");
    for (fd, _) in sockets {
        assert_eq!(bench.posix.close(fd), Some(Ok(())));
    }
    assert_eq!(look(), [Operation::Close { linger_s: None }], "the first");
    assert_eq!(look(), []);
    bench.kernel.close(message).expect("it is open");
    assert_eq!(look(), [Operation::Close { linger_s: None }], "the second");
    assert!(!bench.posix.flights.any.load(Ordering::Relaxed));
}

#[test]
fn what_has_arrived_is_not_watched_any_more() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(State::Connected);
    bench.posix.before_passing(fd, &mut Passage::default());
    let received = bench.kernel.duplicate(fd, 0, OnExec::Close).expect("numbers are free");
    let channel = bench.posix.attached().expect("it is attached");
    let watched = || bench.kernel.watched_words(bench.posix.flights.watch.load(Ordering::Relaxed)).map(|words| words.len());
    assert_eq!(watched(), Ok(1));
    channel.arrive(socket);
    assert_eq!(bench.posix.close(fd), Some(Ok(())));
    assert_eq!(watched(), Ok(0));
    bench.kernel.close(received).expect("it is open");
}
