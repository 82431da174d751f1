//! Messages are found however they are split, and bytes that are not messages are detected.
use super::*;

fn message(length: u32, tag: u64) -> Header {
    Header { length, wanted: 64, tag }
}

fn read(inbox: &mut Inbox, bytes: &[u8]) -> Result<Vec<Header>, Corrupt> {
    let mut found = Vec::new();
    inbox.feed(bytes, |header| {
        found.push(header);
        Ok(())
    })?;
    Ok(found)
}

#[test]
fn messages_cut_anywhere_are_found_whole() {
    let sent = [message(64, 1), message(16, 2), message(200_000, 3), message(17, 4)];
    for piece in [1, 7, 15, 16, 17, 64, 4096, 70_000, 1 << 20] {
        let (mut outbox, mut inbox, mut got) = (Outbox::default(), Inbox::default(), Vec::new());
        sent.iter().for_each(|header| outbox.push(*header));
        assert_eq!(outbox.len(), 200_097);
        let mut scratch = vec![0; piece];
        while !outbox.is_empty() {
            let bytes = outbox.next(&mut scratch).to_vec();
            got.extend(read(&mut inbox, &bytes).expect("our own bytes"));
            outbox.advance(bytes.len());
        }
        assert_eq!(got, sent, "pieces of {piece}");
    }
}

#[test]
fn what_was_not_sent_is_copied_again() {
    let mut outbox = Outbox::default();
    outbox.push(message(64, 1));
    let (mut first, mut second) = ([0; 64], [0; 64]);
    assert_eq!((outbox.copy_to(&mut first), outbox.copy_to(&mut second)), (64, 64));
    assert_eq!(first, second);
    outbox.advance(10);
    assert_eq!(outbox.copy_to(&mut second), 54);
    assert_eq!(first[10..], second[..54]);
}

#[test]
fn changed_bytes_and_impossible_lengths_are_found() {
    let mut outbox = Outbox::default();
    outbox.push(message(64, 1));
    let mut good = [0; 64];
    outbox.copy_to(&mut good);
    for at in 16..64 {
        let mut bad = good;
        bad[at] ^= 1;
        assert_eq!(read(&mut Inbox::default(), &bad), Err(Corrupt::Content(16)), "byte {at}");
    }
    for (at, value) in [(0, 0_u32), (0, 15), (0, u32::MAX), (4, 0), (4, MESSAGE_MAX + 1)] {
        let mut bad = good;
        bad[at..at + 4].copy_from_slice(&value.to_le_bytes());
        assert_eq!(read(&mut Inbox::default(), &bad), Err(Corrupt::Length(value)));
    }
    let mut missing = good.to_vec();
    missing.remove(30);
    assert_eq!(read(&mut Inbox::default(), &missing), Err(Corrupt::Content(16)));
}

#[test]
fn a_large_message_that_has_lost_a_byte_is_found_in_any_pieces() {
    let mut outbox = Outbox::default();
    outbox.push(message(100_000, 1));
    let mut bytes = vec![0; 100_000];
    outbox.copy_to(&mut bytes);
    bytes.remove(50_000);
    for piece in [1, 100, 2048, 70_000, 100_000] {
        let mut inbox = Inbox::default();
        let found = bytes.chunks(piece).try_for_each(|piece| read(&mut inbox, piece).map(drop));
        assert!(matches!(found, Err(Corrupt::Content(_))), "pieces of {piece}");
    }
}
