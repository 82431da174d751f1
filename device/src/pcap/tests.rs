//! What passes in either direction is in the file, with right checksums, and bad files are refused.
use super::*;
use crate::memory::{MemoryOptions, pair};
use crate::testing::{Packet, arena};
use std::cell::RefCell;
use std::rc::Rc;

/// A file that the test can read afterwards; fails after `room` bytes.
#[derive(Clone)]
struct Shared(Rc<RefCell<Vec<u8>>>, usize);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.borrow().len() + bytes.len() > self.1 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends one packet with a partial checksum and receives one; returns the file and whether it failed.
fn capture(room: usize) -> (Vec<u8>, bool, u64) {
    let (left, right) = (arena(), arena());
    let (a, mut b) = pair(&left, &right, MemoryOptions::offloading());
    let file = Shared(Rc::default(), room);
    let mut pcap = Pcap::new(Box::new(a), Box::new(file.clone()), 5 * NANOS_PER_SECOND).expect("room for the header");
    let mut burst = Burst::default();
    Packet { payload: b"out", ..Packet::default() }.push(&left, &mut burst, 0, true);
    pcap.transmit(Instant::from_micros(1), &mut burst).expect("memory does not fail");
    Packet { payload: b"in", ..Packet::default() }.push(&right, &mut burst, 0, false);
    b.transmit(Instant::ZERO, &mut burst).expect("memory does not fail");
    assert_eq!(pcap.receive(Instant::from_micros(2), &mut burst).expect("memory does not fail"), 1);
    let bytes = file.0.borrow().clone();
    (bytes, pcap.failure().is_some(), pcap.counters().tx_packets)
}

#[test]
fn both_directions_are_written_as_on_the_wire() {
    let (bytes, failed, _) = capture(usize::MAX);
    assert!(!failed);
    let mut reader = Reader::new(&bytes[..]).expect("we wrote it");
    let out = reader.read().expect("whole").expect("two packets");
    assert_eq!(out.bytes, Packet { payload: b"out", ..Packet::default() }.bytes());
    assert_eq!(out.nanos, 5 * NANOS_PER_SECOND + 1000);
    let inward = reader.read().expect("whole").expect("two packets");
    assert_eq!(inward.bytes, Packet { payload: b"in", ..Packet::default() }.bytes());
    assert_eq!(reader.read().expect("whole"), None);
    assert_eq!(reader.medium(), Medium::Ethernet);
}

#[test]
fn a_full_disk_stops_the_capture_and_not_the_device() {
    let (_, failed, sent) = capture(50);
    assert!(failed);
    assert_eq!(sent, 1);
}

#[test]
fn the_other_byte_order_and_resolution_are_read() {
    let mut file = Vec::new();
    for word in [MAGIC_MICROS, 0x0002_0004, 0, 0, 65_535, LINK_RAW_IP, 7, 8, 2, 900] {
        file.extend(word.to_be_bytes());
    }
    file.extend([0xaa, 0xbb]);
    let mut reader = Reader::new(&file[..]).expect("a capture file");
    let record = reader.read().expect("whole").expect("one packet");
    assert_eq!(record, Record { nanos: 7_000_008_000, bytes: vec![0xaa, 0xbb], original_len: 900 });
    assert_eq!(reader.medium(), Medium::Ip);
}

#[test]
fn files_that_lie_are_refused() {
    assert!(Reader::new(&[0; 24][..]).is_err(), "no magic number");
    assert!(Reader::new(&[0; 5][..]).is_err(), "too short");
    let (bytes, ..) = capture(usize::MAX);
    let read = |bytes: &[u8]| Reader::new(bytes).expect("the header is whole").read();
    assert!(read(&bytes[..30]).is_err(), "ends inside a record's header");
    assert!(read(&bytes[..45]).is_err(), "ends inside a packet");
    let mut long = bytes.clone();
    long[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(read(&long).is_err(), "a length of 4 GiB");
    let mut strange = bytes;
    strange[20] = 200;
    assert!(Reader::new(&strange[..]).is_err(), "an unknown link type");
}
