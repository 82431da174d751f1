use super::*;
use alloc::vec;

fn syn() -> Header {
    let options = Options {
        maximum_segment_size: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 1, echo: 2 }),
        ..Options::default()
    };
    Header { source_port: 1, destination_port: 2, sequence: SeqNum(3), flags: SYN, window: 65_535, options, ..Header::default() }
}

/// What is written is read back, for a SYN with all options and for SACK with and without timestamps.
#[test]
fn round_trip() {
    let mut sack = Header { flags: ACK, ..Header::default() };
    sack.options.push_sack(SackBlock { left: SeqNum(10), right: SeqNum(20) });
    sack.options.push_sack(SackBlock { left: SeqNum(40), right: SeqNum(50) });
    let mut sack_timestamps = sack;
    sack_timestamps.options.timestamps = Some(Timestamps { value: 9, echo: 8 });
    let mut permitted = syn();
    permitted.options.timestamps = None;
    for header in [syn(), sack, sack_timestamps, permitted, Header::default()] {
        let mut bytes = [0xff; HEADER_BYTES_MAX];
        let len = header.len();
        header.emit(&mut bytes[..len]);
        assert_eq!(Header::parse(&bytes[..len]), Some((header, len)));
    }
}

/// A SYN looks as Linux writes it: MSS, SACK-permitted, timestamps, NOP, window scale.
/// RFC 9293 MUST-68.
#[test]
fn option_layout() {
    let mut bytes = [0; 40];
    syn().emit(&mut bytes);
    assert_eq!(&bytes[20..], &[2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7]);
}

/// Three SACK blocks fit beside timestamps, four without.
#[test]
fn sack_room() {
    let mut options = Options::default();
    assert_eq!(options.sack_room(), 4);
    options.timestamps = Some(Timestamps::default());
    assert_eq!(options.sack_room(), 3);
}

/// Headers that are cut off or lie about their length are refused.
#[test]
fn bad_lengths() {
    let mut bytes = [0; 40];
    syn().emit(&mut bytes);
    assert_eq!(Header::parse(&bytes[..39]), None);
    assert_eq!(Header::parse(&bytes[..19]), None);
    bytes[12] = 4 << 4;
    assert_eq!(Header::parse(&bytes), None);
}

/// Any option bytes are survived; an option with a bad length ends the list.
/// RFC 9293 MUST-7.
#[test]
fn hostile_options() {
    let mut bytes = [0u8; 60];
    syn().emit(&mut bytes[..40]);
    bytes[12] = 15 << 4;
    let mut random = 1u64;
    for _ in 0..20_000 {
        for byte in &mut bytes[20..] {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (random >> 60) as u8;
        }
        assert!(Header::parse(&bytes).is_some());
    }
    bytes[20..24].copy_from_slice(&[2, 0, 3, 3]);
    assert_eq!(Header::parse(&bytes).map(|(h, _)| h.options), Some(Options::default()));
}

/// The options of a header whose option bytes are `bytes`.
fn options_of(bytes: &[u8]) -> Options {
    let mut header = [0; 60];
    Header::default().emit(&mut header[..20]);
    let len = 20 + bytes.len().next_multiple_of(4);
    header[12] = ((len / 4) as u8) << 4;
    header[20..20 + bytes.len()].copy_from_slice(bytes);
    Header::parse(&header[..len]).expect("a good header").0.options
}

/// RFC 9293 MUST-4, MUST-6, MUST-64: no-operation, unknown options, any alignment, and the end of the list.
#[test]
fn options_anywhere() {
    let segment_size = Options { maximum_segment_size: Some(1460), ..Options::default() };
    assert_eq!(options_of(&[2, 4, 5, 180]), segment_size);
    assert_eq!(options_of(&[1, 2, 4, 5, 180, 0, 3, 3, 7]), segment_size, "nothing counts behind the end");
    assert_eq!(options_of(&[99, 5, 1, 2, 3, 2, 4, 5, 180]), segment_size);
    assert_eq!(options_of(&[1, 1, 1, 2, 4, 5, 180, 200, 2]), segment_size);
}

/// RFC 9293 MUST-69: what fills the header up to a word is zero or does nothing.
#[test]
fn padding() {
    for window_scale in [None, Some(7)] {
        let options = Options { window_scale, sack_permitted: true, ..Options::default() };
        let header = Header { flags: SYN, options, ..Header::default() };
        let mut bytes = [0xff; 60];
        let len = header.len();
        header.emit(&mut bytes[..len]);
        assert!(len.is_multiple_of(4));
        let known = [vec![4, 2], vec![3, 3, 7]].concat();
        assert!(bytes[20..len].iter().all(|byte| known.contains(byte) || [0, 1].contains(byte)), "{bytes:?}");
    }
}
