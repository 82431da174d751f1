//! Loans and reservations over both ends of one region.

use super::super::super::tests::{Bench, SHAPE};
use super::super::super::{Flags, Operation, ReceiveError, SendError};

#[test]
fn lent_bytes_come_in_order_and_count_as_read_when_they_are_given_back() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(10_000);
    let sent: Vec<u8> = (0..5_000u32).map(|n| n as u8).collect();
    assert_eq!(bench.worker.push_rx(slot.index, &sent), sent.len());
    bench.worker.signal(slot.index);
    let (mut got, mut lent) = (Vec::new(), Vec::new());
    while let Ok(Some(chunk)) = bench.client.lend(slot) {
        got.extend_from_slice(&chunk);
        lent.push(chunk);
    }
    assert_eq!(got, sent);
    assert_eq!(bench.client.slot(slot.index).unread(), 5_000, "lent bytes keep the window closed");
    drop(lent);
    assert_eq!(bench.client.slot(slot.index).unread(), 0);
    assert_eq!(bench.worker.unread(slot.index), 0);
}

#[test]
fn a_chunk_that_was_read_in_part_is_lent_from_there_on() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(10_000);
    bench.worker.push_rx(slot.index, b"hello world");
    bench.worker.signal(slot.index);
    assert_eq!(bench.receive(slot, 6).as_deref(), Ok(&b"hello "[..]));
    assert_eq!(&*bench.client.lend(slot).expect("it is connected").expect("bytes are there"), b"world");
    assert_eq!(bench.client.lend(slot).err(), Some(ReceiveError::WouldBlock));
    bench.worker.set_flags(slot.index, Flags::PEER_CLOSED);
    assert!(bench.client.lend(slot).expect("the end is no error").is_none());
}

#[test]
fn a_program_that_keeps_all_chunks_starves_until_it_gives_some_back() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(10_000);
    let everything = SHAPE.rx_large as usize * 2048 + SHAPE.rx_small as usize * 256;
    let pushed = bench.worker.push_rx(slot.index, &vec![7; everything + 1]);
    assert!(pushed <= everything);
    bench.worker.signal(slot.index);
    let lent: Vec<_> = std::iter::from_fn(|| bench.client.lend(slot).ok().flatten()).collect();
    assert_eq!(lent.iter().map(|chunk| chunk.len()).sum::<usize>(), pushed);
    assert_eq!(bench.worker.push_rx(slot.index, b"more"), 0);
    drop(lent);
    assert_eq!(bench.worker.push_rx(slot.index, b"more"), 4, "all chunks came back");
}

#[test]
fn a_loan_outlives_its_socket_without_giving_back_what_is_no_longer_lent() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(10_000);
    bench.worker.push_rx(slot.index, b"x");
    bench.worker.signal(slot.index);
    let loan = bench.client.lend(slot).expect("it is connected").expect("a byte is there").into_loan();
    assert_eq!(bench.client.lent_bytes(&loan), b"x");
    bench.client.close(slot, None);
    while bench.worker.next_request().is_some() {}
    bench.worker.free_slot(slot.index);
    bench.client.end_loan(loan);
    assert_eq!(bench.worker.violations(), 0);
}

#[test]
fn reserved_room_is_sent_when_it_is_committed_and_not_before() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(10_000);
    let mut first = bench.client.reserve(slot, 5).expect("there is room");
    assert_eq!(first.len(), 5);
    first.copy_from_slice(b"first");
    assert_eq!(bench.send(slot, b"between "), Ok(8));
    first.commit(5).expect("it is connected");
    let mut cut = bench.client.reserve(slot, 100_000).expect("there is room");
    assert_eq!(cut.len(), 2048, "a chunk's worth");
    cut[..4].copy_from_slice(b" end");
    cut.commit(4).expect("it is connected");
    drop(bench.client.reserve(slot, 100).expect("there is room"));
    assert_eq!(bench.requests(), [Operation::Transmit], "announced once");
    assert_eq!(bench.copy_tx(slot), b"between first end");
}

#[test]
fn room_comes_back_when_nothing_is_committed_or_the_connection_is_over() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(100_000);
    let all: Vec<_> = std::iter::from_fn(|| bench.client.reserve(slot, 2_048).ok()).collect();
    assert_eq!(all.len() as u32, SHAPE.tx_large + SHAPE.tx_small);
    assert_eq!(bench.client.reserve(slot, 1).err(), Some(SendError::WouldBlock));
    let mut all = all.into_iter();
    all.next().expect("there are some").commit(0).expect("nothing is sent");
    bench.worker.set_flags(slot.index, Flags::HUNG_UP);
    assert_eq!(all.next().expect("there are some").commit(1), Err(SendError::Closed));
    drop(all);
    let slot = bench.connected(100_000);
    let again = std::iter::from_fn(|| bench.client.reserve(slot, 2_048).ok()).collect::<Vec<_>>().len();
    assert_eq!(again as u32, SHAPE.tx_large + SHAPE.tx_small);
}
