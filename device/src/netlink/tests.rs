//! Messages and attributes are read as they were made; whatever else arrives ends the walk.
use super::*;

#[test]
fn messages_and_attributes_are_read_as_they_were_made() {
    let mut body = vec![1, 2, 3, 4];
    put(&mut body, 7, b"veth0\0");
    put(&mut body, 0x8000 | 9, &5_u64.to_ne_bytes());
    put(&mut body, 10, b"");
    let datagram = [message(16, REQUEST | DUMP, 3, &body), message(ERROR, 0, 4, &(-19_i32).to_ne_bytes())].concat();
    let [first, second] = Messages(&datagram).collect::<Vec<_>>()[..] else { panic!("two messages") };
    assert_eq!(first, Message { kind: 16, flags: 0x301, sequence: 3, body: &body });
    assert_eq!((first.error(), second.error()), (None, Some(-19)));
    let attributes = &first.body[4..];
    let kinds: Vec<_> = Attributes(attributes).map(|(kind, payload)| (kind, payload.len())).collect();
    assert_eq!(kinds, [(7, 6), (9, 8), (10, 0)]);
    assert_eq!(attribute(attributes, 7).map(text).as_deref(), Some("veth0"));
    assert_eq!(attribute(attributes, 9).and_then(|payload| u64_at(payload, 0)), Some(5));
    assert_eq!(attribute(attributes, 8), None);
}

/// Messages are padded to whole words, too: the next one is found.
#[test]
fn lengths_that_are_no_whole_words_are_padded() {
    let datagram = [message(1, 0, 1, b"abcde"), vec![0; 3], message(2, 0, 2, b"")].concat();
    let bodies: Vec<_> = Messages(&datagram).map(|message| message.body).collect();
    assert_eq!(bodies, [&b"abcde"[..], b""]);
}

#[test]
fn nonsense_ends_the_walk() {
    let datagram = [message(1, 0, 1, &[0; 8]), message(2, 0, 2, &[0; 8])].concat();
    for end in 0..datagram.len() {
        assert_eq!(Messages(&datagram[..end]).count(), end / 24);
    }
    for len in [0, 3, 15, 25, u32::MAX] {
        let mut lying = datagram[..24].to_vec();
        lying[..4].copy_from_slice(&len.to_ne_bytes());
        assert_eq!(Messages(&lying).count(), 0, "{len}");
    }
    for len in [0_u16, 3, 9, u16::MAX] {
        let lying = [&len.to_ne_bytes()[..], &[1, 0, 0, 0, 0, 0]].concat();
        assert_eq!(Attributes(&lying).count(), 0, "{len}");
    }
    assert_eq!(text(&[0xff, 0, b'x']), "\u{fffd}");
}
