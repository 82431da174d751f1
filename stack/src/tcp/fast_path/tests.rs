use alloc::vec;

use super::*;
use crate::wire::tcp::{FIN, Header, Options, SYN};

/// The fast parser reads the same values from a header as the full one, and rejects what it cannot read.
#[test]
fn a_plain_header_is_read_as_any_other() {
    let time = Timestamps { value: 0x0102_0304, echo: 0xfefd_fcfb };
    let mut options = Options::default();
    options.timestamps = Some(time);
    let header = Header {
        source_port: 40_000,
        destination_port: 80,
        sequence: SeqNum(u32::MAX - 3),
        acknowledgment: SeqNum(7),
        flags: ACK | PSH,
        window: 513,
        options,
        ..Header::default()
    };
    let mut bytes = vec![0; header.len()];
    header.emit(&mut bytes);
    let plain = FastHeader::parse(&bytes).expect("timestamps and nothing else");
    assert_eq!((plain.sequence(), plain.acknowledgment(), plain.window()), (header.sequence, header.acknowledgment, 513));
    assert_eq!(plain.kind(), FAST_WORDS << 28 | u32::from(ACK) << 16 | FAST_PATH);
    assert_eq!(plain.time(), time);
    assert!(FastHeader::parse(&bytes[..31]).is_none(), "cut off");
    bytes[20] = 0;
    assert!(FastHeader::parse(&bytes).is_none(), "another option first");
    bytes[20] = 1;
    bytes[12] = 5 << 4;
    assert!(FastHeader::parse(&bytes).is_none(), "no options, but data that looks like them");
}

/// The word includes every flag except PSH.
#[test]
fn the_word_tells_flags_apart() {
    let parse = |flags| {
        let time = Some(Timestamps::default());
        let mut header = Header { flags, ..Header::default() };
        header.options.timestamps = time;
        let mut bytes = vec![0; header.len()];
        header.emit(&mut bytes);
        FastHeader::parse(&bytes).map(|plain| plain.kind())
    };
    assert_eq!(parse(ACK), parse(ACK | PSH));
    for flag in [FIN, SYN, 1 << 2, 1 << 5, 1 << 6, 1 << 7] {
        assert_ne!(parse(ACK), parse(ACK | flag));
    }
}
