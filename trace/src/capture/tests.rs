use super::*;

/// What `read` gives: (number, nanoseconds, link type, bytes, original length).
type Seen = Vec<(u64, u64, u32, Vec<u8>, u32)>;

fn all(file: &[u8]) -> (Result<Ending, ReadError>, Seen) {
    let mut seen = Vec::new();
    let ending = read(file, &mut |packet| {
        seen.push((packet.number, packet.nanos, packet.link_type, packet.bytes.to_vec(), packet.original_len));
    });
    (ending, seen)
}

fn words(values: &[u32], big_endian: bool) -> Vec<u8> {
    values.iter().flat_map(|value| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() }).collect()
}

fn pcap(magic: u32, big_endian: bool) -> Vec<u8> {
    let version = if big_endian { 2 << 16 | 4 } else { 4 << 16 | 2 };
    let mut file = words(&[magic, version, 0, 0, 65_535, 101], big_endian);
    file.extend(words(&[7, 5, 3, 60], big_endian));
    file.extend(b"abc");
    file
}

#[test]
fn pcap_of_both_byte_orders_and_resolutions() {
    for (magic, nanos) in [(0xa1b2_c3d4, 7_000_005_000), (0xa1b2_3c4d, 7_000_000_005)] {
        for big_endian in [false, true] {
            let (ending, seen) = all(&pcap(magic, big_endian));
            assert_eq!(ending, Ok(Ending::default()));
            assert_eq!(seen, [(1, nanos, 101, b"abc".to_vec(), 60)]);
        }
    }
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    while !body.len().is_multiple_of(4) {
        body.push(0);
    }
    let len = body.len() as u32 + 12;
    [words(&[kind, len], false), body, words(&[len], false)].concat()
}

fn pcapng() -> Vec<u8> {
    let section = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX], false));
    // Nanoseconds: if_tsresol is 9.
    let interface = block(1, &[words(&[1, 0], false), vec![9, 0, 1, 0, 9, 0, 0, 0], vec![0; 4]].concat());
    let packet = block(6, &[words(&[0, 1, 5, 3, 60], false), b"abc".to_vec()].concat());
    let statistics = block(5, &[words(&[0, 0, 0], false), vec![5, 0, 8, 0, 4, 0, 0, 0, 0, 0, 0, 0], vec![0; 4]].concat());
    [section, interface, packet, statistics].concat()
}

#[test]
fn pcapng_with_its_own_clock_and_losses() {
    let (ending, seen) = all(&pcapng());
    assert_eq!(ending, Ok(Ending { truncated: false, dropped: 4 }));
    assert_eq!(seen, [(1, (1 << 32) + 5, 1, b"abc".to_vec(), 60)]);
}

/// Direction and comments of a packet are read; texts that are no UTF-8 are left out.
#[test]
fn pcapng_with_directions_and_comments() {
    let option = |code: u16, value: &[u8]| {
        let mut bytes = [code.to_le_bytes(), (value.len() as u16).to_le_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let section = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX], false));
    let interface = block(1, &words(&[1, 0], false));
    let packet = |flags: u32| {
        let options = [option(1, b"one"), option(1, &[0xff]), option(2, &flags.to_le_bytes()), option(1, b"two"), option(0, b"")];
        block(6, &[words(&[0, 0, 0, 3, 3], false), b"abc\0".to_vec(), options.concat()].concat())
    };
    let file = [section, interface, packet(1), packet(2), packet(0)].concat();
    let mut seen = Vec::new();
    let ending = read(&file[..], &mut |packet| {
        seen.push((packet.direction, packet.comments.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()));
    });
    assert_eq!(ending, Ok(Ending::default()));
    let directions: Vec<_> = seen.iter().map(|(direction, _)| *direction).collect();
    assert_eq!(directions, [Some(Direction::Received), Some(Direction::Sent), None]);
    assert!(seen.iter().all(|(_, comments)| *comments == ["one", "two"]), "{seen:?}");
}

#[test]
fn what_is_cut_off_is_read_to_there() {
    for file in [pcap(0xa1b2_c3d4, false), pcapng()] {
        for len in 1..file.len() {
            let (ending, seen) = all(&file[..len]);
            assert!(seen.len() <= 1);
            assert!(len > 30 || seen.is_empty());
            if let Ok(ending) = ending {
                assert!(ending.truncated || ending.dropped == 0);
            }
        }
    }
}

#[test]
fn other_files_are_refused() {
    assert_eq!(all(b"").0, Err(ReadError::NotACapture));
    assert_eq!(all(b"#!/bin/sh\necho this is no capture file\n").0, Err(ReadError::NotACapture));
}
