//! Requests and replies are found however they are split, and a wrong reply is refused.
use super::*;

#[test]
fn requests_and_replies_cut_anywhere_are_counted() {
    let (requests, replies) = ([REQUEST; 3].concat(), [reply(); 3].concat());
    for piece in 1..=70 {
        let (mut finder, mut checker) = (Requests::default(), Replies::default());
        assert_eq!(requests.chunks(piece).map(|bytes| finder.feed(bytes)).sum::<usize>(), 3);
        assert_eq!(replies.chunks(piece).map(|bytes| checker.feed(bytes).expect("ours")).sum::<usize>(), 3);
    }
    assert!(REQUEST.starts_with(BEGINNING));
}

#[test]
fn line_ends_that_are_no_end_do_not_count() {
    assert_eq!(Requests::default().feed(b"GET / HTTP/1.1\r\nA: b\r\r\n\n\r\n"), 0);
    assert_eq!(Requests::default().feed(b"GET / HTTP/1.1\r\r\n\r\n"), 1);
}

#[test]
fn another_reply_is_refused() {
    let mut wrong = reply().to_vec();
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    assert!(matches!(Replies::default().feed(&wrong), Err(Corrupt::Content(_))));
}
