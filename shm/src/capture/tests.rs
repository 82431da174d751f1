use super::*;
use crate::WaitsFor;
use crate::arena::{Arena, ArenaConfig};
use crate::stats::{InfoRecord, TimerRecord};
use std::path::PathBuf;

struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        Temporary(std::env::temp_dir().join(format!("ringway-{}-{name}", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).expect("the test made it");
    }
}

fn write(writer: &mut CaptureWriter, number: u64, bytes: &[u8]) {
    let mut pieces = bytes.chunks(7).map(Payload::from);
    writer.begin_pieces(Instant::from_nanos(number), 3, Direction::Sent, &mut pieces);
    writer.publish(None, None);
}

/// A packet in several frames comes out as its bytes, cut at the snap length, with its true length.
#[test]
fn packets_come_out_whole() {
    let file = Temporary::new("capture");
    let mut writer = CaptureWriter::create(&file.0, 0, 100).expect("a temporary file");
    assert!(!writer.is_wanted());
    let mut reader = CaptureReader::open(&file.0, None).expect("a capture file");
    assert!(writer.is_wanted());
    assert_eq!(reader.next_packet(), None);
    let arena = Arena::new(ArenaConfig { large: 4, small: 4 });
    let frames = [arena.alloc_from(&[1; 50]).expect("a frame"), arena.alloc_from(&[2; 70]).expect("a frame")];
    writer.write(Instant::from_micros(9), 1, Direction::Received, frames.iter());
    let packet = reader.next_packet().expect("a packet");
    assert_eq!((packet.original_len, packet.interface, packet.direction), (120, 1, Direction::Received));
    assert_eq!(packet.time, Instant::from_micros(9));
    assert_eq!(packet.bytes, [[1; 50], [2; 50]].concat());
    assert_eq!(reader.next_packet(), None);
    drop(reader);
    assert!(!writer.is_wanted());
}

/// A packet is seen when what became of it is known.
#[test]
fn a_packet_is_published_with_its_drop_reason() {
    let file = Temporary::new("capture-drop");
    let mut writer = CaptureWriter::create(&file.0, 0, 100).expect("a temporary file");
    let mut reader = CaptureReader::open(&file.0, None).expect("a capture file");
    for (interface, direction, reason) in
        [(1, Direction::Received, Some(0)), (u16::MAX, Direction::Sent, None), (2, Direction::Received, Some(32_766))]
    {
        writer.begin(Instant::ZERO, interface.into(), direction, [].iter());
        assert_eq!(reader.next_packet(), None);
        writer.publish(reason, None);
        let packet = reader.next_packet().expect("published");
        assert_eq!((packet.interface, packet.direction, packet.drop_reason), (interface.into(), direction, reason));
    }
    writer.publish(None, None);
    writer.write(Instant::ZERO, 4, Direction::Sent, [].iter());
    assert_eq!(reader.next_packet().map(|packet| packet.number), Some(3), "nothing had begun");
}

/// A reader of connections gets what each was like; a reader of all sees the same packets.
#[test]
fn connections_come_with_what_they_were_like() {
    let file = Temporary::new("capture-observed");
    let mut writer = CaptureWriter::create(&file.0, 0, 100).expect("a temporary file");
    let ends = Ends { one: End { ip: None, port: 80 }, other: None };
    let mut reader = CaptureReader::open(&file.0, Some(ends)).expect("a capture file");
    assert_eq!(writer.wishes(), Wishes { all: false, connections: vec![ends] });
    let mut all = CaptureReader::open(&file.0, None).expect("a capture file");
    assert_eq!(writer.wishes(), Wishes { all: true, connections: vec![ends] });
    let due = Instant::from_millis(204);
    for waits in WaitsFor::ALL {
        let timer = (*waits != WaitsFor::Nothing).then_some(TimerRecord { kind: TimerRecord::PERSIST, retries: 3, due });
        let info = InfoRecord { state: 1, cwnd_segments: u64::MAX, fast_open_failure: 7, ..InfoRecord::default() };
        let observed = Observed { info, timer, waits: *waits, probing: timer.is_some() };
        writer.begin_pieces(Instant::ZERO, 0, Direction::Sent, &mut [Payload::from(&b"abcdefghi"[..])].into_iter());
        writer.publish(None, Some(&observed));
        write(&mut writer, 1, b"bare");
        for reader in [&mut reader, &mut all] {
            let packet = reader.next_packet().expect("it was written");
            assert_eq!((&packet.bytes[..], packet.observed.as_deref()), (&b"abcdefghi"[..], Some(&observed)));
            let packet = reader.next_packet().expect("it was written");
            assert_eq!((&packet.bytes[..], packet.observed), (&b"bare"[..], None));
        }
    }
    drop(reader);
    // The place is taken by a reader of all.
    let _all = CaptureReader::open(&file.0, None).expect("a place");
    assert_eq!(writer.wishes(), Wishes { all: true, connections: Vec::new() });
}

/// A reader that is overtaken gets no torn packet and knows how many it has lost.
#[test]
fn a_slow_reader_counts_what_it_lost() {
    let file = Temporary::new("capture-slow");
    let mut writer = CaptureWriter::create(&file.0, 0, 2_000).expect("a temporary file");
    let mut reader = CaptureReader::open(&file.0, None).expect("a capture file");
    let (mut seen, mut number) = (0, 0);
    for round in 0..200u64 {
        for _ in 0..round * 7 {
            write(&mut writer, number, &vec![number as u8; (number % 3_000) as usize]);
            number += 1;
        }
        while let Some(packet) = reader.next_packet() {
            seen += 1;
            assert_eq!(packet.time.as_nanos(), packet.number);
            assert_eq!(packet.original_len as u64, packet.number % 3_000);
            assert!(packet.bytes.iter().all(|&byte| byte == packet.number as u8));
        }
    }
    write(&mut writer, number, b"end");
    assert!(reader.next_packet().is_some());
    assert_eq!(seen + 1 + reader.lost(), number + 1);
    assert!(reader.lost() > 0 && seen > 1_000);
}

/// The place of a reader that was killed is found and freed.
#[test]
fn dead_readers_are_forgotten() {
    let file = Temporary::new("capture-dead");
    let writer = CaptureWriter::create(&file.0, 0, 100).expect("a temporary file");
    let readers: Vec<_> = (0..READERS_MAX).map(|_| CaptureReader::open(&file.0, None).expect("a place")).collect();
    assert_eq!(CaptureReader::open(&file.0, None).expect_err("no place").kind(), io::ErrorKind::ResourceBusy);
    writer.forget_readers(|pid| pid == std::process::id());
    assert!(writer.is_wanted());
    writer.forget_readers(|_| false);
    assert!(!writer.is_wanted());
    drop(readers);
}

/// A socket comes out as it went in, and what a reader was too slow for is counted.
#[test]
fn sockets_that_end_are_told_to_those_that_listen() {
    let file = Temporary::new("ended");
    let mut writer = EndedWriter::create(&file.0).expect("a temporary file");
    assert!(!writer.is_wanted());
    let mut reader = EndedReader::open(&file.0).expect("a ring");
    assert!(writer.is_wanted());
    assert_eq!(reader.next_socket(), None);
    let socket = |port| crate::stats::tests::socket(port);
    writer.write(Instant::from_micros(9), &socket(80));
    writer.write(Instant::from_micros(9), &socket(81));
    assert_eq!(reader.next_socket(), Some((Instant::from_micros(9), socket(80))));
    assert_eq!(reader.next_socket().map(|(_, ended)| ended), Some(socket(81)));
    assert_eq!((reader.next_socket(), reader.lost()), (None, 0));
    for _ in 0..20_000 {
        writer.write(Instant::ZERO, &socket(82));
    }
    writer.write(Instant::ZERO, &socket(83));
    let mut count = 0;
    while reader.next_socket().is_some() {
        count += 1;
    }
    // Overtaken, it goes on with what is written next.
    writer.write(Instant::ZERO, &socket(84));
    assert_eq!((count, reader.next_socket().map(|(_, ended)| ended)), (0, Some(socket(84))));
    assert_eq!(reader.lost(), 20_001);
    drop(reader);
    assert!(!writer.is_wanted());
}
