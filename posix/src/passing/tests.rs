//! What stays in flight.

use super::*;
use crate::mock::Bench;
use ringway_shm::channel::{Operation, State};

#[test]
fn a_message_that_was_not_sent_takes_nothing_with_it() {
    let bench = Bench::new();
    let (fd, _) = bench.socket(State::Connected);
    let mut passage = Passage::default();
    // More than can be noted: the rest is kept.
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
    // The receiver: of another process, were it not for the test.
    channel.hold(socket);
    channel.arrive(socket);
    assert!(channel.release(socket), "none is in flight");
}
