//! Memory of an idle connection.

use super::rig::*;
use crate::config::StackConfig;
use crate::config::TcpOptions;
use crate::tcp::Tcp;
use crate::wire::tcp::{ACK, SYN};

const CONNECTIONS: u16 = 4_096;

/// Size of all tables that grow with connections, bytes.
fn memory(tcp: &Tcp) -> usize {
    let parts = [
        ("control blocks", tcp.tcbs.len() * size_of::<crate::tcp::tcb::Tcb>()),
        ("conn_stats", tcp.shared.conn_stats.memory()),
        ("slow starts", tcp.shared.slow_starts.memory()),
        ("cold objects", tcp.shared.cold.memory()),
        ("flow table", tcp.flows.memory()),
        ("timers", tcp.shared.timers.memory()),
    ];
    parts.iter().map(|(_, bytes)| bytes).sum()
}

/// Opens `CONNECTIONS` connections; the peer's ports are 1000 and up.
fn crowd() -> Rig {
    let mut rig = Rig::with(StackConfig { seed: 7, ..StackConfig::default() });
    let listener = rig.listen(TcpOptions::default(), 16);
    for number in 0..CONNECTIONS {
        (rig.ports.1, rig.iss) = (1_000 + number, None);
        let syn = seg(SYN, 0, 0).mss(MSS as u16).scale(7).sack_permitted().time(1, 0);
        rig.receive(syn);
        let answer = rig.sent();
        let echo = answer[0].options.timestamps.expect("both have them").value;
        rig.receive(seg(ACK, 1, 1).time(2, echo));
        rig.id = rig.stack.accept(listener, u64::from(number)).expect("one connection waits");
    }
    rig.events();
    rig
}

/// The budget of an idle connection is 320 bytes; the stack may take 280 of them.
#[test]
fn an_idle_connection_fits_its_budget() {
    let rig = crowd();
    let each = memory(rig.stack.tcp()) / usize::from(CONNECTIONS);
    assert!(each <= 280, "{each} bytes for each idle connection");
    assert_eq!(rig.stack.tcp().shared.conn_stats.memory(), 0, "no connection has exchanged data");
    let [large, small] =
        [ringway_shm::Class::Large, ringway_shm::Class::Small].map(|class| rig.arena.capacity(class) - rig.arena.free(class));
    assert_eq!((large, small), (0, 0), "frames");
}

/// A connection that sends small messages has no page of the first slow start, and its window stays; one with half of the
/// window in flight has a page, and its window grows.
#[test]
fn small_messages_take_no_page_of_the_first_slow_start() {
    let options = TcpOptions { no_delay: true, ..TcpOptions::default() };
    let mut rig = Rig::accepted(Rig::config(), options);
    let initial = rig.info().cwnd_bytes;
    let mut next = 1;
    for _ in 0..20 {
        rig.send(next, 100);
        next += rig.sent().iter().map(|segment| segment.payload.len() as u32).sum::<u32>();
        rig.receive(seg(ACK, 1, next));
    }
    assert_eq!((rig.stack.tcp().shared.slow_starts.memory(), rig.info().cwnd_bytes), (0, initial));
    rig.send(next, initial / 2 + 100);
    next += rig.sent().iter().map(|segment| segment.payload.len() as u32).sum::<u32>();
    rig.receive(seg(ACK, 1, next));
    assert!(rig.stack.tcp().shared.slow_starts.memory() > 0);
    assert_eq!(rig.info().cwnd_bytes, initial + initial / 2 + 100);
}

/// Number of frames that can be read; their memory is what the connection is charged for.
fn readable_frames(rig: &Rig) -> usize {
    let tcp = rig.stack.tcp();
    let tcb = tcp.tcbs.iter().find(|tcb| tcb.unread() > 0).expect("there is something to read");
    let (charge, frames) = tcb.receive_charge();
    assert_eq!(charge, crate::tcp::segment::memory(&rig.arena, frames), "the charge");
    let (mut count, mut slot) = (0, frames.front());
    while slot.is_some() {
        (count, slot) = (count + 1, rig.arena.next(slot));
    }
    count
}

/// A packet of full frames is queued as it is, and one of small frames is copied together. The connection is charged for the
/// frames that are left, also when a part of the packet was there before.
#[test]
fn the_charge_for_received_data_is_the_memory_of_its_frames() {
    // (first byte, length, length of each frame, frames in the queue afterwards)
    let packets = [(1, 4_344, 1_448, 3), (2_897, 2_896, 1_448, 4), (5_793, 100, 10, 4), (5_843, 1_498, 1_448, 6)];
    let mut rig = Rig::accepted(Rig::config(), TcpOptions::default());
    for (start, len, piece, frames) in packets {
        rig.receive_in_pieces(seg(ACK, start, 1).data(len), piece);
        assert_eq!(readable_frames(&rig), frames, "after the bytes from {start} on");
    }
    assert_eq!(rig.read(1), Ok(7_340));
    rig.sent();
    rig.assert_no_leak();
}
