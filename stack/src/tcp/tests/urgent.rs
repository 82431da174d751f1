//! Urgent data in both directions.

use alloc::vec;
use alloc::vec::Vec;

use super::rig::*;
use crate::Urgent;
use crate::config::TcpOptions;
use crate::event::Event;
use crate::wire::tcp::{ACK, PSH, URG};

fn open() -> Rig {
    Rig::accepted(Rig::config(), TcpOptions { cork: true, ..TcpOptions::default() })
}

/// Events for the application: true for `Urgent`, false for `Ready`, in their order.
fn told(rig: &mut Rig) -> Vec<bool> {
    let is_urgent = |event: &Event| matches!(event, Event::Urgent { .. });
    let news = |event: &Event| is_urgent(event) || matches!(event, Event::Ready { .. });
    rig.events().iter().filter(|event| news(event)).map(is_urgent).collect()
}

/// RFC 9293 MUST-30, MUST-62: the pointer names the byte behind the urgent data, which stays in the stream.
#[test]
fn the_pointer_is_behind_the_byte() {
    let mut rig = open();
    told(&mut rig);
    rig.receive(seg(ACK | PSH, 1, 1).data(10).urgent(4));
    assert_eq!(rig.stack.urgent(rig.id), Some(Urgent { at: 3, byte: Some(4) }), "byte 4 of the stream");
    assert_eq!(rig.read(1), Ok(10));
    assert_eq!(rig.stack.urgent(rig.id), None, "the application has read beyond it");
}

/// RFC 9293 MUST-32, MUST-33: the application learns of urgent data before it sees it, and of its distance.
#[test]
fn it_is_announced_before_it_comes() {
    let mut rig = open();
    rig.receive(seg(ACK, 1, 1).data(5));
    told(&mut rig);
    rig.receive(seg(ACK, 6, 1).urgent(1_000));
    assert_eq!(told(&mut rig), vec![true]);
    assert_eq!(rig.stack.urgent(rig.id), Some(Urgent { at: 1_004, byte: None }));
    rig.receive(seg(ACK, 6, 1).data(999));
    assert_eq!(rig.stack.urgent(rig.id), Some(Urgent { at: 1_004, byte: None }), "one byte is missing");
    told(&mut rig);
    rig.receive(seg(ACK, 1_005, 1).data(10));
    assert_eq!(told(&mut rig), vec![true, false], "the mark first, then the bytes");
    assert_eq!(rig.stack.urgent(rig.id), Some(Urgent { at: 1_004, byte: Some((1_005 % 251) as u8) }));
}

/// A byte that arrives out of order is known at once; pointers to received data, and older ones, are ignored.
#[test]
fn old_pointers_are_ignored() {
    let mut rig = open();
    rig.receive(seg(ACK, 11, 1).data(10).urgent(5));
    let mark = Some(Urgent { at: 14, byte: Some(15) });
    assert_eq!(rig.stack.urgent(rig.id), mark);
    rig.receive(seg(ACK, 1, 1).data(10).urgent(5));
    assert_eq!(rig.stack.urgent(rig.id), mark);
    rig.receive(seg(ACK, 21, 1).data(1).urgent(1));
    assert_eq!(rig.stack.urgent(rig.id), Some(Urgent { at: 20, byte: Some(21) }));
    assert_eq!(rig.read(1), Ok(21));
    rig.receive(seg(ACK, 22, 1).data(5));
    assert_eq!(rig.read(22), Ok(5));
    assert_eq!(rig.stack.urgent(rig.id), None);
    rig.assert_no_leak();
}

/// RFC 9293 MUST-30, MUST-62: URG is in every segment that begins before the end of the urgent data, corked or not.
#[test]
fn segments_point_at_the_end() {
    let mut rig = open();
    rig.send(1, MSS + 40);
    rig.stack.mark_urgent(rig.id, 0);
    let sent: Vec<_> = rig.sent().iter().map(|segment| (segment.flags & URG != 0, segment.urgent)).collect();
    assert_eq!(sent, vec![(true, MSS as u16 + 40), (true, 40)]);
    rig.receive(seg(ACK, 1, MSS + 41));
    rig.send(MSS + 41, MSS);
    let sent: Vec<_> = rig.sent().iter().map(|segment| (segment.flags & URG != 0, segment.urgent)).collect();
    assert_eq!(sent, vec![(false, 0)], "that was before");
}

/// RFC 6093 §2.1: an end that the field cannot express is pointed at as far as it goes, and again in a retransmission.
#[test]
fn a_far_end() {
    let mut rig = open();
    rig.stack.mark_urgent(rig.id, 100_000);
    rig.send(1, MSS);
    let sent = rig.sent();
    assert_eq!((sent[0].flags & URG != 0, sent[0].urgent), (true, u16::MAX));
    rig.wait_ms(1_500);
    let again = rig.sent();
    assert_eq!((again[0].seq, again[0].flags & URG != 0, again[0].urgent), (1, true, u16::MAX));
}
