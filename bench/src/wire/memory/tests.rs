//! An end of a link works after it was passed over a socket; anything else is refused.
use super::*;
use ringway_shm::wire::Wire;
use std::io::Write;

#[test]
fn what_one_end_sends_arrives_at_the_end_that_crossed_a_socket() {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    let (first, second) = link().expect("memory");
    give(&ours, &second).expect("the peer is open");
    let crossed = take(&theirs, End::Second).expect("it came");
    let (mut sender, mut receiver) = (Wire::open(first).expect("good"), Wire::open(crossed).expect("good"));
    assert!(sender.send(5, std::iter::once(&b"hello"[..])));
    sender.flush();
    assert_eq!(receiver.front(), Ok(Some(5)));
}

#[test]
fn bytes_without_descriptors_and_silence_are_errors() {
    let (mut ours, theirs) = UnixStream::pair().expect("sockets");
    ours.write_all(b"w").expect("the peer is open");
    assert!(take(&theirs, End::First).is_err());
    drop(ours);
    assert!(take(&theirs, End::First).is_err());
}
