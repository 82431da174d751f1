use alloc::vec;

use super::super::{ACK, Header, Options, PSH};
use super::*;

const TIME: Timestamps = Timestamps { value: 0x0102_0304, echo: 0xfefd_fcfb };

fn header() -> Header {
    Header {
        source_port: 40_000,
        destination_port: 80,
        sequence: SeqNum(u32::MAX - 3),
        acknowledgment: SeqNum(7),
        flags: ACK | PSH,
        window: 513,
        options: Options { timestamps: Some(TIME), ..Options::default() },
        ..Header::default()
    }
}

/// The same values are read as from any header, and other layouts are rejected.
#[test]
fn it_is_read_as_any_other() {
    let header = header();
    let mut bytes = vec![0; header.len()];
    header.emit(&mut bytes);
    let read = Received::parse(&bytes).expect("timestamps and nothing else");
    assert_eq!((read.sequence(), read.acknowledgment(), read.window()), (header.sequence, header.acknowledgment, 513));
    assert_eq!((read.time(), read.word), (TIME, WORDS << 28 | u32::from(ACK | PSH) << 16));
    assert!(Received::parse(&bytes[..31]).is_none(), "cut off");
    bytes[20] = 0;
    assert!(Received::parse(&bytes).is_none(), "another option first");
    bytes[20] = 1;
    bytes[12] = 5 << 4;
    assert!(Received::parse(&bytes).is_none(), "no options, but data that looks like them");
}

/// The same bytes are written as from any header, with the same sum.
#[test]
fn it_is_written_as_any_other() {
    let header = header();
    let mut expected = vec![0; header.len()];
    header.emit(&mut expected);
    let ports = (header.source_port, header.destination_port);
    let sent = Sent::new(ports, (header.sequence, header.acknowledgment), header.flags, header.window, TIME);
    let mut bytes = vec![0xff; BYTES];
    sent.emit(0, &mut bytes);
    assert_eq!(bytes, expected);
    assert_eq!(sent.sum(), checksum::sum(&expected));
    sent.emit(0xabcd, &mut bytes);
    assert_eq!(bytes[16..20], [0xab, 0xcd, 0, 0]);
}
