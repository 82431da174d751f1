//! Amount that one call writes, beside small messages and without.

use super::rig::*;
use crate::config::TcpOptions;
use crate::wire::tcp::{ACK, SYN};

const STREAM: (u16, u16) = (80, 1_000);
const SMALL: (u16, u16) = (81, 1_001);

/// Payload bytes that one call writes; a turn ends with the segment that fills it.
fn one_call(rig: &mut Rig) -> usize {
    rig.stack.transmit(rig.now, &mut rig.out);
    let mut bytes = 0;
    while !rig.out[0].is_empty() {
        bytes += rig.out[0].front_packet().map(|frame| frame.len()).sum::<usize>();
        bytes -= 40;
        rig.out[0].drop_packet();
    }
    bytes
}

/// Accepts a connection from a peer with a window of 8 MiB.
fn open(rig: &mut Rig, ports: (u16, u16)) {
    (rig.ports, rig.iss) = (ports, None);
    let options = TcpOptions { no_delay: true, send_buffer_bytes: 8 << 20, ..TcpOptions::default() };
    rig.accept_with(options, seg(SYN, 0, 0).mss(MSS as u16).scale(7));
}

/// A stream writes 512 KiB a call; here 320 while another connection sends small messages, and for eight calls after the
/// last.
#[test]
fn a_stream_writes_less_beside_small_messages() {
    let mut config = Rig::config();
    config.tcp.initial_window = 255;
    config.tcp.turn_beside_small_bytes = 320 << 10;
    let mut rig = Rig::with(config);
    open(&mut rig, SMALL);
    let small = (rig.id, rig.iss);
    open(&mut rig, STREAM);
    let stream = (rig.id, rig.iss);
    let mut next = 1;
    while rig.info().cwnd_bytes < 6 << 20 {
        let len = rig.info().cwnd_bytes;
        next += rig.send(next, len) as u32;
        rig.sent();
        rig.wait_ms(1);
        rig.receive(seg(ACK, 1, next));
    }
    rig.send(next, 6 << 20);
    assert_eq!(one_call(&mut rig) >> 16, 8);
    (rig.ports, (rig.id, rig.iss)) = (SMALL, small);
    rig.send(1, 100);
    (rig.ports, (rig.id, rig.iss)) = (STREAM, stream);
    assert_eq!(one_call(&mut rig) >> 16, 8, "with the small message, which was not expected");
    for call in 0..8 {
        assert_eq!(one_call(&mut rig) >> 16, 5, "call {call}");
    }
    assert_eq!(one_call(&mut rig) >> 16, 8);
}
