//! Packets in either direction are in the file, with right checksums; the file says what the writer was told.
use std::cell::RefCell;
use std::rc::Rc;

use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, EnhancedPacketBlock, OptionCode, PcapBlockOwned, PcapError, create_reader};
use ringway_shm::{Burst, Instant};

use super::*;
use crate::Device;
use crate::memory::{MemoryOptions, pair};
use crate::testing::{Packet, arena};

const SECOND: u64 = 1_000_000_000;

/// Makes one line of each block, as `pcap-parser` reads it.
fn read(file: &[u8]) -> Vec<String> {
    let mut reader = create_reader(1 << 20, file).expect("a capture file");
    let mut lines = Vec::new();
    loop {
        match reader.next() {
            Ok((used, PcapBlockOwned::NG(block))) => {
                lines.push(line(&block));
                reader.consume(used);
            }
            Ok(_) => panic!("pcapng has no other blocks"),
            Err(PcapError::Eof) => return lines,
            Err(PcapError::Incomplete(_)) => reader.refill().expect("memory does not fail"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn line(block: &Block<'_>) -> String {
    match block {
        Block::SectionHeader(section) => format!("section {}.{}", section.major_version, section.minor_version),
        Block::InterfaceDescription(one) => {
            let name = one.if_name().expect("a name").expect("UTF-8");
            format!("interface {name} type {} ticks {:?} snaplen {}", one.linktype.0, one.ts_resolution(), one.snaplen)
        }
        Block::EnhancedPacket(packet) => {
            let nanos = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            let text = |code| options(packet, code).map(|value| String::from_utf8(value).expect("UTF-8"));
            format!(
                "{nanos} on {} flags {:?} comment {:?} {:02x?} of {}",
                packet.if_id,
                options(packet, EPB_FLAGS).map(|value| value[0]),
                text(COMMENT).unwrap_or_default(),
                packet.packet_data(),
                packet.origlen
            )
        }
        Block::InterfaceStatistics(one) => format!("statistics {} lost {:?}", one.if_id, one.isb_osdrop()),
        other => panic!("no such block is written: {other:?}"),
    }
}

fn options(packet: &EnhancedPacketBlock<'_>, code: u16) -> Option<Vec<u8>> {
    let found = packet.options.iter().find(|option| option.code == OptionCode(code))?;
    Some(found.as_bytes().expect("a true length").to_vec())
}

/// Each word of a record is read back by another implementation; lengths that are no multiple of four are padded.
#[test]
fn another_reader_reads_each_field() {
    let interfaces = [Interface { name: "eth0", medium: Medium::Ethernet }, Interface { name: "tun", medium: Medium::Ip }];
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &interfaces, 5).expect("memory does not fail");
    let late = (1 << 32) * SECOND + 7;
    let inward =
        Record { direction: Some(Direction::Received), drop_reason: Some("DropNoSocket"), ..Record::whole(late, &[1, 2, 3]) };
    writer.write(&inward).expect("memory does not fail");
    let outward = Record { interface: 1, direction: Some(Direction::Sent), original_len: 90, ..Record::whole(8, &[9; 8]) };
    writer.write(&outward).expect("memory does not fail");
    writer.write(&Record::whole(9, &[4; 4])).expect("memory does not fail");
    writer.write_lost(10, 1, 3).expect("memory does not fail");
    let expected = [
        "section 1.0".to_string(),
        "interface eth0 type 1 ticks Some(1000000000) snaplen 5".to_string(),
        "interface tun type 101 ticks Some(1000000000) snaplen 5".to_string(),
        format!("{late} on 0 flags Some(1) comment \"DropNoSocket\" [01, 02, 03] of 3"),
        "8 on 1 flags Some(2) comment \"\" [09, 09, 09, 09, 09] of 90".to_string(),
        "9 on 0 flags None comment \"\" [04, 04, 04, 04] of 4".to_string(),
        "statistics 1 lost Some(Ok(3))".to_string(),
    ];
    assert_eq!(read(&file), expected);
}

/// A text that is too long is cut between characters.
#[test]
fn long_texts_are_cut() {
    let name = "ä".repeat(1_000);
    let mut file = Vec::new();
    Writer::new(&mut file, &[Interface { name: &name, medium: Medium::Ip }], 96).expect("memory does not fail");
    assert!(read(&file)[1].starts_with(&format!("interface {} type", "ä".repeat(511))));
}

/// A file that the test can read afterwards; fails after `space` bytes.
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

/// Sends one packet with a partial checksum and receives one; returns the file, and whether it failed.
fn capture(space: usize) -> (Vec<u8>, bool, u64) {
    let (left, right) = (arena(), arena());
    let (a, mut b) = pair(&left, &right, MemoryOptions::offloading());
    let file = Shared(Rc::default(), space);
    let mut pcap = Pcap::new(Box::new(a), "mem0", Box::new(file.clone()), 5 * SECOND).expect("space for the header");
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
    let (file, failed, _) = capture(usize::MAX);
    assert!(!failed);
    let [out, inward] = [&b"out"[..], b"in"].map(|payload| Packet { payload, ..Packet::default() }.bytes());
    let expected = [
        format!("{} on 0 flags Some(2) comment \"\" {out:02x?} of {}", 5 * SECOND + 1000, out.len()),
        format!("{} on 0 flags Some(1) comment \"\" {inward:02x?} of {}", 5 * SECOND + 2000, inward.len()),
    ];
    assert_eq!(read(&file)[2..], expected);
}

#[test]
fn a_full_disk_stops_the_capture_and_not_the_device() {
    let (file, ..) = capture(usize::MAX);
    let (_, failed, sent) = capture(file.len() - 1);
    assert!(failed);
    assert_eq!(sent, 1);
}
