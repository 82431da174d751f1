//! What lies in a frozen slot is copied whole and stays where it is.

use super::super::super::tests::{Bench, SHAPE};
use super::*;
use crate::{Flags, ReceiveError, SendError};

/// More than a large chunk holds, all different enough.
fn text(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn unread_bytes_are_copied_in_order_behind_what_was_read() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(4096);
    let sent = text(9000);
    // Pushed in three portions, so that the list of the reader and that of the worker both have chunks.
    assert_eq!(bench.worker.push_rx(slot.index, &sent[..3000]), 3000);
    bench.worker.publish_rx(slot.index);
    assert_eq!(bench.worker.push_rx(slot.index, &sent[3000..5000]), 2000);
    bench.worker.publish_rx(slot.index);
    assert_eq!(bench.receive(slot, 1234).expect("bytes wait"), sent[..1234]);
    assert_eq!(bench.worker.push_rx(slot.index, &sent[5000..]), 4000);

    assert!(bench.worker.freeze(slot.index));
    assert_eq!(bench.worker.copy_unread(slot.index).expect("the lists are whole"), sent[1234..]);
    bench.worker.thaw(slot.index);
    assert_eq!(bench.receive(slot, 10_000).expect("bytes wait"), sent[1234..], "nothing was taken");
}

#[test]
fn unsent_bytes_are_copied_behind_what_was_taken() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1 << 20);
    let written = text(7000);
    assert_eq!(bench.send(slot, &written[..4500]), Ok(4500));
    let mut taken = vec![0; 700];
    assert_eq!(bench.worker.tx_available(slot.index), 4500);
    assert_eq!(bench.worker.copy_tx(slot.index, &mut taken), 700);
    assert_eq!(bench.send(slot, &written[4500..]), Ok(2500));

    assert!(bench.worker.freeze(slot.index));
    assert_eq!(bench.worker.copy_unsent(slot.index), written[700..]);
    bench.worker.thaw(slot.index);
    assert_eq!(bench.copy_tx(slot), written[700..], "nothing was taken");
}

#[test]
fn a_slot_is_frozen_only_between_two_calls() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(4096);
    let busy = owner_word(3, 9);
    for lock in [0, 1] {
        let word = |bench: &Bench| match lock {
            0 => bench.worker.slot(slot.index).rx_lock.swap(busy, Ordering::SeqCst),
            _ => bench.worker.slot(slot.index).tx_lock.swap(busy, Ordering::SeqCst),
        };
        assert_eq!(word(&bench), 0);
        assert!(!bench.worker.freeze(slot.index));
        let shared = bench.worker.slot(slot.index);
        let held = [&shared.rx_lock, &shared.tx_lock].map(|lock| lock.swap(0, Ordering::SeqCst));
        assert_eq!(held.into_iter().filter(|held| *held != 0).collect::<Vec<_>>(), [busy], "the other lock is free");
    }
    assert!(bench.worker.freeze(slot.index));
    assert!(!bench.worker.freeze(slot.index), "once");
    // The death of any process leaves the worker's lock alone.
    for process in [0, 3, PROCESSES - 1] {
        bench.worker.process_gone(process);
    }
    assert!(!bench.worker.freeze(slot.index));
    bench.worker.thaw(slot.index);
    assert!(bench.worker.freeze(slot.index));
}

#[test]
fn lists_that_the_application_has_changed_are_refused() {
    let mut bench = Bench::new(SHAPE);
    let (slot, other) = (bench.connected(4096), bench.connected(4096));
    assert_eq!(bench.worker.push_rx(slot.index, &text(5000)), 5000);
    assert_eq!(bench.worker.push_rx(other.index, &text(500)), 500);
    bench.worker.publish_rx(slot.index);
    bench.worker.publish_rx(other.index);
    let stack = |bench: &Bench, at: u32| bench.worker.slot(at).rx_stack.load(Ordering::SeqCst);
    let right = stack(&bench, slot.index);
    // Another socket's chunk, no chunk, a number beyond all, a chain that bites its tail.
    for wrong in [stack(&bench, other.index), list::EMPTY, u32::MAX] {
        bench.worker.slot(slot.index).rx_stack.store(wrong, Ordering::SeqCst);
        assert_eq!(bench.worker.copy_unread(slot.index), Err(NotWhole::Spoilt));
    }
    bench.worker.slot(slot.index).rx_stack.store(right, Ordering::SeqCst);
    let first = node(right, bench.worker.rx.count).expect("it has chunks");
    bench.worker.map.rx_record(first).next.store(right, Ordering::SeqCst);
    assert_eq!(bench.worker.copy_unread(slot.index), Err(NotWhole::Spoilt));
}

#[test]
fn an_urgent_byte_that_was_not_read_is_refused() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(4096);
    bench.worker.set_mark(slot.index, 2, Some(b'!'));
    assert_eq!(bench.worker.push_rx(slot.index, b"ab!cd".as_slice()), 5);
    assert_eq!(bench.worker.copy_unread(slot.index), Err(NotWhole::Urgent));
    bench.worker.publish_rx(slot.index);
    assert_eq!(bench.receive(slot, 2).expect("bytes wait"), b"ab");
    assert_eq!(bench.receive(slot, 9).expect("bytes wait"), b"cd");
    assert_eq!(bench.worker.copy_unread(slot.index), Ok(Vec::new()));
}

#[test]
fn a_moved_slot_gives_and_takes_nothing_more() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(4096);
    bench.worker.set_flags(slot.index, Flags(Flags::PEER_CLOSED.0 | Flags::MOVED.0));
    assert_eq!(bench.receive(slot, 10), Err(ReceiveError::WouldBlock), "not the end of the stream: the kernel may have bytes");
    assert_eq!(bench.send(slot, b"late"), Err(SendError::WouldBlock));
}

#[test]
fn an_emptied_slot_has_given_back_its_chunks() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1 << 20);
    let (free_rx, chunk) = (bench.worker.free_rx(), text(3000));
    assert_eq!(bench.worker.push_rx(slot.index, &chunk), 3000);
    bench.worker.publish_rx(slot.index);
    assert_eq!(bench.receive(slot, 100).expect("bytes wait"), chunk[..100]);
    assert_eq!(bench.send(slot, &chunk), Ok(3000));
    assert!(bench.worker.freeze(slot.index));
    assert_eq!(bench.worker.copy_unsent(slot.index).len(), 3000);
    bench.worker.empty(slot.index);
    bench.worker.thaw(slot.index);
    assert_eq!(bench.worker.free_rx(), free_rx);
    assert_eq!((bench.worker.unread(slot.index), bench.worker.tx_available(slot.index), bench.worker.waiting_tx()), (0, 0, 0));
    let shared = bench.worker.slot(slot.index);
    assert_eq!((shared.unread(), shared.unsent()), (0, 0));
    assert_eq!(bench.worker.violations(), 0);
}
