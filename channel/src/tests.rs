//! Both ends of one region in one process, joined by a real control socket.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::thread;

use super::attach::{ClientMessage, ControlListener, WakeFdKind, make_wake_fd};
use super::layout::{LARGE_CHUNK, SMALL_CHUNK};
use super::*;
use crate::sys;
use ringway_shm::{Duration, Instant};

pub(super) const SHAPE: Shape =
    Shape { slots: 128, rx_large: 16, rx_small: 16, tx_large: 16, tx_small: 16, tx_bulk: 0, rx_bulk: 0, rx_middle: 0 };
pub(super) const TOKEN: [u8; 16] = *b"the-test's-group";

/// A region with its worker's end and a broker that says yes to everything.
pub(super) struct Bench {
    pub(super) worker: Attachment,
    pub(super) client: Client,
    pub(super) region: OwnedFd,
    pub(super) doorbell: OwnedFd,
    broker: attach::ControlConnection,
}

fn socket_path() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("ringway-channel-test-{}-{number}", std::process::id()))
}

impl Bench {
    pub(super) fn new(shape: Shape) -> Bench {
        let (worker, region) = Attachment::create(shape).expect("memory files work here");
        let doorbell = sys::event_descriptor().expect("event descriptors work here");
        let path = socket_path();
        let listener = ControlListener::bind(&path).expect("the path is free");
        let processes = ProcessTable::new(region.as_fd(), shape).expect("the region is of that shape");
        let (broker, client) = thread::scope(|scope| {
            let attaching = scope.spawn(|| Client::attach(&path, TOKEN, 0).expect("the broker says yes"));
            let broker = wait_for(|| listener.accept());
            assert_eq!(broker.credentials().pid, std::process::id());
            match wait_for(|| broker.receive()) {
                ClientMessage::Hello { token, wanted: None, socket: Some(_), .. } => assert_eq!(token, TOKEN),
                other => panic!("not a hello: {other:?}"),
            }
            let process = processes.claim(std::process::id(), None).expect("a number is free");
            broker.welcome(shape, process, region.as_fd(), doorbell.as_fd()).expect("it listens");
            (broker, attaching.join().expect("it attached"))
        });
        std::fs::remove_file(&path).expect("it was bound");
        Bench { worker, client, region, doorbell, broker }
    }

    /// Opens a context with its event descriptor.
    pub(super) fn context(&mut self) -> (ContextIndex, OwnedFd) {
        let (context, wake_fd, ringer) = self.context_without_wake_fd();
        assert!(self.worker.register_context(context, ringer.into()));
        (context, wake_fd)
    }

    /// Opens a context; the worker has yet to be given the last descriptor.
    fn context_without_wake_fd(&self) -> (ContextIndex, OwnedFd, OwnedFd) {
        let (ringer, wake_fd) = make_wake_fd(WakeFdKind::Epoll).expect("descriptors are left");
        let (client, broker) = (&self.client, &self.broker);
        let (context, handed) = thread::scope(|scope| {
            let opening = scope.spawn(|| client.open_context(Usage::OneThread, WakeFdKind::Epoll).expect("a context is free"));
            let ClientMessage::Context { context, key: None, .. } = wait_for(|| broker.receive()) else {
                panic!("not a context")
            };
            broker.give_wake_fd([1; 16], wake_fd.as_fd()).expect("it listens");
            let (opened, given) = opening.join().expect("it got its answer");
            assert_eq!(opened, context);
            (opened, given.fd)
        });
        (context, handed, ringer)
    }

    /// A connected socket of the application.
    pub(super) fn connected(&mut self, send_limit: u32) -> SlotRef {
        let slot = self.client.open_slot().expect("a slot is free");
        self.worker.set_send_limit(slot.index, send_limit);
        self.worker.set_state(slot.index, State::Connected);
        slot
    }

    pub(super) fn send(&self, slot: SlotRef, bytes: &[u8]) -> Result<usize, SendError> {
        self.client.send(slot, &[IoSlice::new(bytes)])
    }

    pub(super) fn receive(&self, slot: SlotRef, room: usize) -> Result<Vec<u8>, ReceiveError> {
        let mut bytes = vec![0; room];
        let count = self.client.receive(slot, &mut [IoSliceMut::new(&mut bytes)])?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// All requests that wait.
    pub(super) fn requests(&mut self) -> Vec<Operation> {
        std::iter::from_fn(|| self.worker.next_request()).map(|request| request.operation).collect()
    }

    pub(super) fn copy_tx(&mut self, slot: SlotRef) -> Vec<u8> {
        let mut bytes = vec![0; self.worker.tx_available(slot.index)];
        let count = self.worker.copy_tx(slot.index, &mut bytes);
        assert_eq!(count, bytes.len());
        bytes
    }
}

fn wait_for<T>(mut attempt: impl FnMut() -> std::io::Result<T>) -> T {
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

pub(super) fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| ((at + seed) * 31 + (at >> 8)) as u8).collect()
}

#[test]
fn bytes_to_the_wire_keep_their_order_across_sends_and_chunk_sizes() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1 << 20);
    let mut sent = Vec::new();
    for (seed, len) in [1, 255, 256, 257, 2048, 2049, 5000].into_iter().enumerate() {
        let bytes = pattern(seed, len);
        assert_eq!(bench.send(slot, &bytes), Ok(len));
        sent.extend(bytes);
    }
    assert_eq!(bench.requests(), [Operation::Transmit], "announced once, by the push onto the empty stack");
    assert_eq!(bench.copy_tx(slot), sent);
    assert_eq!(bench.worker.tx_in_flight(slot.index) as usize, sent.len());
    bench.worker.release_tx(slot.index, sent.len() as u32);
    assert_eq!(bench.client.slot(slot.index).unsent(), 0);
    assert_eq!(bench.worker.violations(), 0);
}

#[test]
fn a_send_is_cut_at_the_limit_and_goes_on_when_the_peer_acknowledges() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1000);
    assert_eq!(bench.send(slot, &pattern(0, 1500)), Ok(1000));
    assert_eq!(bench.send(slot, b"more"), Err(SendError::WouldBlock));
    assert!(!bench.client.readiness(slot).writable);
    let (context, _wake_fd) = bench.context();
    assert_eq!(bench.client.watch(slot, context), Watch::Watching);
    assert_eq!(bench.copy_tx(slot), pattern(0, 1500)[..1000]);
    bench.worker.release_tx(slot.index, 100);
    assert_eq!(bench.client.next_event(context), None, "a tenth of the room wakes nobody");
    bench.worker.release_tx(slot.index, 500);
    assert_eq!(bench.client.next_event(context), Some(slot.index));
    assert!(bench.client.readiness(slot).writable);
    assert_eq!(bench.send(slot, &[7; 900]), Ok(600));
}

#[test]
fn a_wider_limit_is_an_edge() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(100);
    assert_eq!(bench.send(slot, &[7; 101]), Ok(100));
    let before = bench.client.slot(slot.index).releases();
    bench.worker.set_send_limit(slot.index, 1000);
    bench.worker.release_tx(slot.index, 0);
    assert_ne!(bench.client.slot(slot.index).releases(), before);
}

/// Writes of many chunks take them together, the worker gives them back together, and it sums what it copies.
#[test]
fn chunks_that_go_in_batches_are_all_there_in_the_end() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1 << 20);
    for round in 0..200 {
        let bytes = pattern(round, 1 + round * 331 % 30_000);
        assert_eq!(bench.send(slot, &bytes), Ok(bytes.len()), "round {round}");
        assert_eq!(bench.worker.tx_available(slot.index), bytes.len());
        let mut copied = vec![0; bytes.len()];
        let (first, second) = copied.split_at_mut(round * 7 % bytes.len());
        let halves = [first, second].map(|half| {
            let (count, sum) = bench.worker.copy_and_sum_tx(slot.index, half);
            assert_eq!((count, sum), (half.len(), ringway_shm::sum::sum(half)), "round {round}");
            count
        });
        assert_eq!((halves[0] + halves[1], &copied), (bytes.len(), &bytes), "round {round}");
        bench.worker.release_tx(slot.index, bytes.len() as u32);
    }
    assert_eq!(bench.send(slot, &vec![1; 100_000]), Ok(16 * LARGE_CHUNK));
    assert_eq!(bench.worker.violations(), 0);
}

#[test]
fn a_send_without_chunks_waits_and_is_signalled_when_some_come_back() {
    let mut bench = Bench::new(SHAPE);
    let (hog, other) = (bench.connected(1 << 20), bench.connected(1 << 20));
    let all = 16 * LARGE_CHUNK + 16;
    assert_eq!(bench.send(hog, &vec![1; 100_000]), Ok(16 * LARGE_CHUNK));
    (0..16).for_each(|_| assert_eq!(bench.send(hog, b"1"), Ok(1)));
    assert_eq!(bench.send(other, b"x"), Err(SendError::WouldBlock));
    let (context, _wake_fd) = bench.context();
    bench.client.watch(other, context);
    assert!(!bench.client.readiness(other).writable);
    let before = bench.client.slot(other.index).releases();
    assert_eq!(bench.copy_tx(hog).len(), all);
    bench.worker.flush_wakes();
    assert_eq!(bench.client.next_event(context), Some(other.index));
    assert_ne!(bench.client.slot(other.index).releases(), before, "an edge although nothing of its own was released");
    assert!(bench.client.readiness(other).writable);
    assert_eq!(bench.send(other, b"x"), Ok(1));
}

/// A server that has written all it may to clients that do not read can answer others.
#[test]
fn long_writes_leave_small_chunks_to_short_ones() {
    let mut bench = Bench::new(SHAPE);
    let slow: Vec<SlotRef> = (0..4).map(|_| bench.connected(1 << 30)).collect();
    let long = pattern(3, (SHAPE.tx_large as usize + SHAPE.tx_small as usize) * LARGE_CHUNK);
    bench.send(slow[0], &long).expect("there are large chunks");
    for &slot in &slow[1..] {
        assert_eq!(bench.send(slot, &long), Ok(SMALL_CHUNK), "a connection of which nothing waits comes on");
        assert_eq!(bench.send(slot, &long), Err(SendError::WouldBlock));
        assert!(!bench.client.readiness(slot).writable);
    }
    for _ in slow.len()..SHAPE.tx_small as usize {
        let slot = bench.connected(1 << 16);
        assert!(bench.client.readiness(slot).writable);
        assert_eq!(bench.send(slot, b"answer"), Ok(6));
    }
    let (context, _wake_fd) = bench.context();
    bench.client.watch(slow[1], context);
    assert_eq!(bench.copy_tx(slow[1]), long[..SMALL_CHUNK]);
    bench.worker.flush_wakes();
    assert_eq!(bench.client.next_event(context), Some(slow[1].index));
    assert!(!bench.client.readiness(slow[1]).writable, "its peer has yet to acknowledge");
    bench.worker.release_tx(slow[1].index, SMALL_CHUNK as u32);
    assert_eq!(bench.client.next_event(context), Some(slow[1].index));
    assert!(bench.client.readiness(slow[1]).writable, "nothing of it waits, and a small chunk is free");
    assert_eq!(bench.copy_tx(slow[0]).len() % LARGE_CHUNK, 0);
    bench.worker.flush_wakes();
    assert!(bench.client.readiness(slow[2]).writable);
}

#[test]
fn received_bytes_come_out_in_order_whole_or_in_pieces_and_their_chunks_come_back() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1);
    let bytes = pattern(3, 9000);
    for part in bytes.chunks(1448) {
        assert_eq!(bench.worker.push_rx(slot.index, part), part.len());
        bench.worker.publish_rx(slot.index);
    }
    assert_eq!(bench.client.slot(slot.index).unread(), 9000);
    let mut peeked = vec![0; 8000];
    assert_eq!(bench.client.peek(slot, &mut [IoSliceMut::new(&mut peeked)]), Ok(8000));
    assert_eq!(peeked, bytes[..8000]);
    let mut got = Vec::new();
    while got.len() < 9000 {
        got.extend(bench.receive(slot, 777).expect("there is more"));
    }
    assert_eq!(got, bytes);
    assert_eq!(bench.receive(slot, 1), Err(ReceiveError::WouldBlock));
    assert_eq!(bench.worker.newly_consumed(slot.index), 9000);
    bench.worker.reclaim();
    assert_eq!(bench.worker.free_rx(), (16, 16));
    assert_eq!(bench.worker.violations(), 0);
}

#[test]
fn parts_of_one_turn_share_chunks() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1);
    for part in pattern(0, 14_480).chunks(1448) {
        assert_eq!(bench.worker.push_rx(slot.index, part), 1448);
    }
    bench.worker.signal(slot.index);
    assert_eq!(bench.worker.free_rx(), (16 - 8, 16), "seven full chunks and one for the rest");
    assert_eq!(bench.receive(slot, 20_000), Ok(pattern(0, 14_480)));
}

#[test]
fn a_worker_without_chunks_is_told_when_some_come_back() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1);
    let all = 16 * 2048 + 16 * 256;
    assert_eq!(bench.worker.push_rx(slot.index, &vec![5; 50_000]), all);
    assert_eq!(bench.worker.push_rx(slot.index, b"x"), 0);
    bench.worker.set_notify_bytes(slot.index, u32::MAX);
    bench.worker.signal(slot.index);
    assert_eq!(bench.receive(slot, 4096).map(|bytes| bytes.len()), Ok(4096));
    assert_eq!(bench.requests(), [Operation::Reclaim]);
    assert!(bench.worker.push_rx(slot.index, b"x") == 1);
}

#[test]
fn the_worker_hears_of_consumption_only_past_the_threshold() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1);
    bench.worker.set_notify_bytes(slot.index, 1000);
    bench.worker.push_rx(slot.index, &[1; 2000]);
    bench.worker.signal(slot.index);
    bench.receive(slot, 999).expect("bytes are there");
    assert_eq!(bench.requests(), []);
    bench.receive(slot, 1).expect("bytes are there");
    assert_eq!(bench.requests(), [Operation::Consumed]);
    assert_eq!(bench.worker.unread(slot.index), 1000);
}

#[test]
fn the_end_of_the_stream_and_errors_come_after_the_bytes() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(100);
    bench.worker.push_rx(slot.index, b"last words");
    bench.worker.set_flags(slot.index, Flags::PEER_CLOSED);
    assert_eq!(bench.receive(slot, 100), Ok(b"last words".to_vec()));
    assert_eq!(bench.receive(slot, 100), Ok(vec![]));
    bench.worker.set_error(slot.index, Failure::Reset, Flags(Flags::FAILED.0 | Flags::HUNG_UP.0));
    assert!(bench.client.readiness(slot).error);
    assert_eq!(bench.send(slot, b"x"), Err(SendError::Failed(Failure::Reset)));
    assert_eq!(bench.send(slot, b"x"), Err(SendError::Closed), "the error is told once");
    assert_eq!(bench.receive(slot, 1), Ok(vec![]));
}

#[test]
fn control_requests_are_answered_with_their_own_number() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.client.open_slot().expect("a slot is free");
    let local: SocketAddr = "10.1.2.3:80".parse().expect("an address");
    let operation = Operation::Listen { local, backlog: 511, dual_stack: false };
    let ticket = bench.client.control(slot, operation).expect("the first");
    assert_eq!(bench.client.control(slot, operation), None, "one at a time");
    assert_eq!(bench.client.completed(ticket, &mut []), None);
    let request = bench.worker.next_request().expect("it was asked");
    assert_eq!((request.slot, request.operation), (slot, operation));
    bench.worker.answer(&request, ControlAnswer::Failed(Failure::InUse));
    assert_eq!(bench.client.completed(ticket, &mut []), Some(ControlResult::Answer(ControlAnswer::Failed(Failure::InUse))));
    let ticket = bench.client.control(slot, Operation::Info).expect("the first is over");
    let request = bench.worker.next_request().expect("it was asked");
    assert!(bench.worker.answer_with_bytes(&request, b"info"));
    let mut buffer = [0; 16];
    assert_eq!(bench.client.completed(ticket, &mut buffer), Some(ControlResult::Bytes(4)));
    assert_eq!(&buffer[..4], b"info");
    bench.worker.reclaim();
    assert_eq!(bench.worker.free_rx(), (16, 16));
}

#[test]
fn accepted_connections_come_in_order_and_only_once() {
    let mut bench = Bench::new(SHAPE);
    let listener = bench.client.open_slot().expect("a slot is free");
    bench.worker.set_state(listener.index, State::Listening);
    let mut children = Vec::new();
    for port in 1..=3 {
        let child = bench.worker.allocate_slot().expect("a slot is free");
        let remote = SocketAddr::from(([10, 0, 0, 2], port));
        bench.worker.set_addresses(child.index, "10.0.0.1:80".parse().expect("an address"), remote);
        bench.worker.set_state(child.index, State::Connected);
        assert!(bench.worker.push_accepted(listener.index, child.index, Instant::from_millis(port.into())));
        children.push(child);
    }
    assert!(bench.client.readiness(listener).readable);
    assert_eq!(bench.worker.unaccepted(listener.index).len(), 3);
    for (port, child) in (1..=3).zip(&children) {
        assert_eq!(bench.client.waits_since(listener), Some(u32::from(port) * 1_000));
        assert_eq!(bench.client.accept(listener), Some(*child));
        assert_eq!(bench.client.slot(child.index).remote(), SocketAddr::from(([10, 0, 0, 2], port)));
        assert!(bench.client.holds(child.index));
    }
    assert_eq!((bench.client.waits_since(listener), bench.client.accept(listener)), (None, None));
    assert!(!bench.client.readiness(listener).readable);
    assert_eq!(bench.worker.unaccepted(listener.index), []);
}

#[test]
fn a_freed_slot_refuses_its_old_references_and_starts_clean() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1 << 16);
    bench.send(slot, &[1; 300]).expect("there is room");
    bench.worker.push_rx(slot.index, &[2; 5000]);
    bench.worker.signal(slot.index);
    bench.receive(slot, 10).expect("bytes are there");
    assert!(bench.client.close(slot, None));
    assert_eq!(
        bench.requests(),
        [Operation::Transmit, Operation::Consumed, Operation::Close { linger_s: Some(0) }],
        "unread bytes: the peer gets a reset"
    );
    bench.worker.free_slot(slot.index);
    assert_eq!(bench.worker.free_rx(), (16, 16));
    assert_eq!(bench.send(slot, b"x"), Err(SendError::Stale));
    assert_eq!(bench.receive(slot, 1), Err(ReceiveError::Stale));
    assert_eq!(bench.client.control(slot, Operation::Info), None);
    assert!(!bench.client.close(slot, None));
    assert!(bench.client.submit(Request { slot, sequence: 0, operation: Operation::Abort }));
    assert_eq!(bench.requests(), [], "a stale request never comes out");
    let again = bench.client.open_slot().expect("it came back");
    assert_eq!((again.index, again.generation), (slot.index, slot.generation + 1));
    assert_eq!(bench.client.slot(again.index).unread(), 0);
    assert_eq!(bench.worker.violations(), 0);
}

#[test]
fn events_are_told_once_per_take_and_ring_only_an_armed_context() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(100);
    let (context, wake_fd) = bench.context();
    bench.client.watch(slot, context);
    bench.worker.push_rx(slot.index, b"a");
    bench.worker.signal(slot.index);
    bench.worker.signal(slot.index);
    assert_eq!(bench.worker.flush_wakes(), 0, "nobody sleeps");
    assert!(!sys::silence_wake_fd(wake_fd.as_raw_fd()));
    assert_eq!(bench.client.next_event(context), Some(slot.index));
    assert_eq!(bench.client.next_event(context), None);
    bench.client.arm(context);
    bench.worker.push_rx(slot.index, b"b");
    bench.worker.signal(slot.index);
    assert_eq!(bench.worker.flush_wakes(), 1);
    assert_eq!(bench.worker.flush_wakes(), 0);
    assert!(sys::silence_wake_fd(wake_fd.as_raw_fd()));
    assert_eq!(bench.client.next_event(context), Some(slot.index));
    bench.client.unwatch(slot, context);
    bench.worker.signal(slot.index);
    assert_eq!(bench.client.next_event(context), None);
}

/// All holders of a description share its flags: an application that had the eventfd could make writes to it wait.
#[test]
fn nothing_that_an_application_does_to_its_wake_fd_makes_the_worker_wait() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1024);
    let (context, wake_fd) = bench.context();
    bench.client.watch(slot, context);
    // SAFETY: plain calls on a descriptor that the test owns.
    unsafe {
        assert_eq!(libc::fcntl(wake_fd.as_raw_fd(), libc::F_SETFL, 0), 0);
        let most = (u64::MAX - 1).to_ne_bytes();
        assert!(libc::write(wake_fd.as_raw_fd(), most.as_ptr().cast(), 8) < 0, "it cannot be rung, or filled, from here");
        assert!(libc::read(wake_fd.as_raw_fd(), [0u8; 8].as_mut_ptr().cast(), 8) < 0);
    }
    for byte in 0..4 {
        bench.client.arm(context);
        bench.worker.push_rx(slot.index, &[byte]);
        bench.worker.signal(slot.index);
        assert_eq!(bench.worker.flush_wakes(), 1, "nobody has taken the ring before");
        assert_eq!(bench.client.next_event(context), Some(slot.index));
    }
    assert!(sys::silence_wake_fd(wake_fd.as_raw_fd()) && !sys::silence_wake_fd(wake_fd.as_raw_fd()));
    bench.client.arm(context);
    bench.worker.signal(slot.index);
    assert_eq!(bench.worker.flush_wakes(), 1);
    assert!(sys::silence_wake_fd(wake_fd.as_raw_fd()), "a wake_fd that was silent rings again");
}

#[test]
fn an_event_from_before_the_wake_fd_was_known_is_rung_when_it_is() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1024);
    let (context, _wake_fd, ringer) = bench.context_without_wake_fd();
    bench.client.watch(slot, context);
    bench.client.arm(context);
    bench.worker.push_rx(slot.index, b"early");
    bench.worker.signal(slot.index);
    assert_eq!(bench.worker.flush_wakes(), 0);
    assert!(bench.worker.register_context(context, ringer.into()));
    assert_eq!(bench.worker.flush_wakes(), 1);
}

/// The application looks as long as the worker does; before the worker has said anything, not at all.
#[test]
fn the_worker_says_how_long_looking_pays() {
    let bench = Bench::new(SHAPE);
    assert_eq!(bench.client.spin_limit(), Duration::ZERO);
    bench.worker.set_spin_limit(Duration::from_micros(44));
    assert_eq!(bench.client.spin_limit(), Duration::from_micros(44));
}

/// A worker that sleeps has time, whatever it said before; and no worker is busier than all the time.
#[test]
fn the_worker_says_how_busy_it_is() {
    let mut bench = Bench::new(SHAPE);
    assert_eq!(bench.client.busy(), 0);
    bench.worker.set_busy(5_000);
    assert_eq!(bench.client.busy(), 1_000);
    bench.worker.set_busy(250);
    assert!(bench.worker.arm());
    assert_eq!(bench.client.busy(), 0);
    bench.worker.disarm();
    assert_eq!(bench.client.busy(), 250);
}

#[test]
fn a_sleeping_worker_is_rung_once() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(1 << 16);
    bench.send(slot, b"x").expect("there is room");
    assert!(!sys::silence(bench.doorbell.as_raw_fd()), "awake workers are not rung");
    assert!(!bench.worker.arm(), "there is work: do not sleep");
    assert!(!bench.client.worker_sleeps());
    assert_eq!(bench.requests(), [Operation::Transmit]);
    assert!(bench.worker.arm());
    assert!(bench.client.worker_sleeps(), "until somebody rings");
    bench.copy_tx(slot);
    bench.send(slot, b"y").expect("there is room");
    assert!(sys::silence(bench.doorbell.as_raw_fd()));
    bench.send(slot, b"z").expect("there is room");
    assert!(!sys::silence(bench.doorbell.as_raw_fd()));
}

#[test]
fn the_last_holder_is_told_and_children_hold_from_before_they_exist() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.client.open_slot().expect("a slot is free");
    assert!(bench.client.before_fork());
    bench.client.after_fork_in_parent(Some(4_000_000));
    assert!(!bench.client.release(slot.index), "the child still has it");
    let child = 1;
    assert_eq!(bench.requests(), [Operation::Forked { process: child, pid: 4_000_000 }]);
    let processes = ProcessTable::new(bench.region.as_fd(), SHAPE).expect("the region is of that shape");
    assert_eq!(processes.claim(4_000_000, None), Some(child), "the child, or what it executes, finds its number by its pid");
    assert_eq!(bench.worker.process_gone(child), Gone { orphans: vec![slot.index], ..Gone::default() });
    assert_eq!(processes.claim(7, Some(child)), Some(child), "a free number");
}

#[test]
fn a_reference_in_flight_holds_a_socket_that_its_sender_has_closed() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.client.open_slot().expect("a slot is free");
    bench.client.slot(slot.index).change_app_flags(1, 0);
    assert!(bench.client.pass(slot) && bench.client.pass(slot));
    assert!(!bench.client.release(slot.index), "two are in flight");
    bench.client.arrive(slot);
    bench.client.hold(slot.index);
    assert!(!bench.client.release(slot.index), "one is in flight");
    bench.client.hold(slot.index);
    bench.client.arrive(slot);
    bench.client.arrive(slot);
    assert_eq!(bench.client.slot(slot.index).app_flags(), 1, "nothing is left of it, and the flags are as before");
    assert!(bench.client.release(slot.index), "none is in flight");
    assert_eq!(bench.requests(), []);
}

#[test]
fn a_reference_in_flight_outlives_its_sender() {
    let mut bench = Bench::new(SHAPE);
    let (passed, closed) = (bench.connected(100), bench.connected(100));
    let processes = ProcessTable::new(bench.region.as_fd(), SHAPE).expect("the region is of that shape");
    let other = processes.claim(1, None).expect("a number is free");
    assert!(bench.client.pass(passed));
    assert!(!bench.client.release(passed.index));
    let gone = bench.worker.process_gone(bench.client.process());
    assert_eq!((gone.orphans, gone.revisit), (vec![closed.index], vec![passed.index]));
    // The receiver is the process that stands for the message, and has the socket of its own then.
    let map = bench.client.map_for_tests();
    let holds =
        |process| map.held(process, passed.index / 64).load(ringway_shm::sync::Ordering::SeqCst) & 1 << (passed.index % 64) != 0;
    assert!(holds(other) && !holds(bench.client.process()));
    bench.client.hold(passed.index);
    bench.client.arrive(passed);
    assert!(!holds(other), "it has arrived at another");
    assert!(bench.client.release(passed.index), "none is in flight");
}

#[test]
fn a_dead_process_loses_locks_contexts_and_sockets() {
    let mut bench = Bench::new(SHAPE);
    let (alone, shared) = (bench.connected(100), bench.connected(100));
    let (context, _wake_fd) = bench.context();
    let processes = ProcessTable::new(bench.region.as_fd(), SHAPE).expect("the region is of that shape");
    let other = processes.claim(1, None).expect("a number is free");
    bench.client.map_for_tests().hold(other, shared.index);
    let owner = lock::owner_word(bench.client.process(), 9);
    bench.client.slot(shared.index).rx_lock.store(owner, ringway_shm::sync::Ordering::SeqCst);
    bench.client.slot(shared.index).tx_lock.store(owner, ringway_shm::sync::Ordering::SeqCst);
    bench.client.slot(shared.index).tx_queued.store(77, ringway_shm::sync::Ordering::SeqCst);
    let gone = bench.worker.process_gone(bench.client.process());
    assert_eq!(gone, Gone { orphans: vec![alone.index], torn: vec![shared.index], revisit: vec![] });
    assert_eq!(bench.client.slot(shared.index).unsent(), 0, "bytes that never were pushed do not count");
    assert_eq!(bench.send(shared, b"free again"), Ok(10));
    let (again, _wake_fd) = bench.context();
    assert_eq!(again, context, "the context is free again");
}

#[test]
fn a_process_that_dies_while_accepting_loses_no_connection() {
    let mut bench = Bench::new(SHAPE);
    let listener = bench.client.open_slot().expect("a slot is free");
    bench.worker.set_state(listener.index, State::Listening);
    let children: Vec<SlotRef> = (0..3)
        .map(|_| {
            let child = bench.worker.allocate_slot().expect("a slot is free");
            bench.worker.set_state(child.index, State::Connected);
            bench.worker.push_accepted(listener.index, child.index, Instant::ZERO);
            child
        })
        .collect();
    assert_eq!(bench.client.accept(listener), Some(children[0]));
    // It died with the lock, after it had torn the list.
    let owner = lock::owner_word(bench.client.process(), 1);
    bench.client.slot(listener.index).rx_lock.store(owner, ringway_shm::sync::Ordering::SeqCst);
    bench.client.slot(listener.index).rx_head.store(0, ringway_shm::sync::Ordering::SeqCst);
    let processes = ProcessTable::new(bench.region.as_fd(), SHAPE).expect("the region is of that shape");
    let other = processes.claim(1, None).expect("a number is free");
    bench.client.map_for_tests().hold(other, listener.index);
    let gone = bench.worker.process_gone(bench.client.process());
    assert_eq!(gone.orphans, [children[0].index]);
    assert_eq!(bench.client.slot(listener.index).unaccepted(), 2);
    assert_eq!(bench.client.accept(listener), Some(children[1]));
    assert_eq!(bench.client.accept(listener), Some(children[2]));
    assert_eq!(bench.client.accept(listener), None);
}

#[test]
fn threads_write_and_read_one_region_at_once_without_losing_a_byte() {
    let mut bench = Bench::new(SHAPE);
    let slots: Vec<SlotRef> = (0..3).map(|_| bench.connected(20_000)).collect();
    let total = 60_000;
    let Bench { worker, client, .. } = &mut bench;
    let client = &*client;
    thread::scope(|scope| {
        for (seed, &slot) in slots.iter().enumerate() {
            scope.spawn(move || {
                let bytes = pattern(seed, total);
                let mut done = 0;
                while done < total {
                    let end = (done + 1 + (done * 7) % 3000).min(total);
                    match client.send(slot, &[IoSlice::new(&bytes[done..end])]) {
                        Ok(count) => done += count,
                        Err(SendError::WouldBlock) => thread::yield_now(),
                        Err(error) => panic!("{error:?}"),
                    }
                }
            });
            scope.spawn(move || {
                let (bytes, mut done) = (pattern(seed, total), 0);
                let mut room = [0; 3000];
                while done < total {
                    match client.receive(slot, &mut [IoSliceMut::new(&mut room)]) {
                        Ok(count) => {
                            assert_eq!(room[..count], bytes[done..done + count]);
                            done += count;
                        }
                        Err(ReceiveError::WouldBlock) => thread::yield_now(),
                        Err(error) => panic!("{error:?}"),
                    }
                }
            });
        }
        // The worker: an echo that passes on what fits.
        let mut left = [total; 3];
        while left.iter().any(|&bytes| bytes > 0) {
            while worker.next_request().is_some() {}
            for (left, slot) in left.iter_mut().zip(&slots) {
                let room = 8000u32.saturating_sub(worker.unread(slot.index)) as usize;
                worker.newly_consumed(slot.index);
                let (large, small) = worker.free_rx();
                if worker.reclaim() + large + small < 8 {
                    continue;
                }
                let mut bytes = vec![0; worker.tx_available(slot.index).min(room).min(2048)];
                worker.copy_tx(slot.index, &mut bytes);
                assert_eq!(worker.push_rx(slot.index, &bytes), bytes.len());
                worker.release_tx(slot.index, bytes.len() as u32);
                worker.signal(slot.index);
                *left -= bytes.len();
            }
            worker.flush_wakes();
            thread::yield_now();
        }
    });
    assert_eq!(bench.worker.violations(), 0);
}

#[test]
fn bytes_of_a_process_that_died_before_it_announced_them_are_looked_at() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(100);
    bench.send(slot, b"written").expect("there is room");
    // The announcement is lost with the process.
    bench.requests();
    let processes = ProcessTable::new(bench.region.as_fd(), SHAPE).expect("the region is of that shape");
    let other = processes.claim(1, None).expect("a number is free");
    bench.client.map_for_tests().hold(other, slot.index);
    let gone = bench.worker.process_gone(bench.client.process());
    assert_eq!(gone.revisit, [slot.index]);
    assert_eq!(bench.copy_tx(slot), b"written");
}

#[test]
fn a_child_without_a_number_does_not_speak_for_its_parent() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(100);
    while bench.client.before_fork() {
        bench.client.after_fork_in_parent(Some(4_000_000));
    }
    // The rings are full of forks by now; what follows is the child's.
    bench.requests();
    bench.client.after_fork_in_child();
    assert!(!bench.client.service_alive());
    assert!(!bench.client.release(slot.index), "the parent has it");
    assert!(bench.client.holds(slot.index));
    assert_eq!(bench.send(slot, b"x"), Err(SendError::Failed(Failure::ServiceGone)));
    assert_eq!(bench.client.open_slot(), None);
    assert_eq!(bench.requests(), []);
}

/// Cost follows what is in use: a number beyond the first sixty-four, and one of the same column, are told apart.
#[test]
fn a_socket_is_closed_by_the_last_of_many_processes() {
    let mut bench = Bench::new(SHAPE);
    let slot = bench.connected(100);
    let map = bench.client.map_for_tests();
    let others: Vec<u32> =
        (0..400).map(|_| process_table::allocate(map, process_table::ATTACHED).expect("a number is free")).collect();
    let far = others[399];
    let same_column = others.iter().copied().find(|other| other % 64 == far % 64).expect("there are several");
    assert_ne!(far, same_column);
    map.hold(far, slot.index);
    assert!(!bench.client.release(slot.index), "another process has it");
    assert!(bench.client.is_held_elsewhere(slot.index));
    assert_eq!(bench.worker.process_gone(same_column), Gone::default());
    assert_eq!(bench.worker.process_gone(far).orphans, [slot.index]);
    assert!(!bench.client.is_held_elsewhere(slot.index));
}

/// Numbers end, and come back.
#[test]
fn a_region_names_as_many_processes_as_the_contract_says() {
    let mut bench = Bench::new(SHAPE);
    let map = bench.client.map_for_tests();
    let all: Vec<u32> = std::iter::from_fn(|| process_table::allocate(map, process_table::ATTACHED)).collect();
    assert_eq!(all.len() as u32, PROCESSES - 1, "one is the test's");
    let last = *all.last().expect("there are some");
    assert_eq!(lock::owner_process(lock::owner_word(last, 0)), Some(last));
    bench.worker.process_gone(last);
    assert_eq!(process_table::allocate(bench.client.map_for_tests(), process_table::ATTACHED), Some(last));
}

/// No thread polls a full queue.
#[test]
fn an_accept_from_a_full_queue_tells_the_worker_and_no_other_does() {
    let mut bench = Bench::new(SHAPE);
    let listener = bench.client.open_slot().expect("a slot is free");
    bench.worker.set_state(listener.index, State::Listening);
    let free = bench.worker.free_accepted();
    for _ in 0..3 {
        let child = bench.worker.allocate_slot().expect("a slot is free");
        bench.worker.push_accepted(listener.index, child.index, Instant::ZERO);
    }
    assert_eq!(bench.worker.free_accepted(), free - 3);
    assert!(!bench.worker.waits_for_accept(listener.index, 4));
    assert!(bench.client.accept(listener).is_some());
    assert_eq!(bench.requests(), []);
    assert!(bench.worker.waits_for_accept(listener.index, 2));
    assert!(bench.client.accept(listener).is_some());
    assert_eq!(bench.requests(), [Operation::Consumed]);
    assert!(!bench.worker.waits_for_accept(listener.index, 2));
}

/// The number that a process has noted is forgotten by that process alone; one that has no room is not known.
#[test]
fn a_slot_says_in_which_process_it_has_which_number() {
    let bench = Bench::new(SHAPE);
    let slot = bench.client.open_slot().expect("one is free");
    let shared = bench.client.slot(slot.index);
    assert_eq!(shared.place(), None);
    let [here, elsewhere] = [7, PROCESSES - 1].map(|process| ProcessDescriptor { process, number: 1_048_573 });
    for place in [here, elsewhere] {
        shared.set_place(place);
        assert_eq!((shared.place(), shared.first()), (Some(place), None));
    }
    assert!(!shared.forget_place(here));
    assert!(shared.forget_place(elsewhere));
    assert_eq!(shared.place(), None);
    for number in [1_048_575, u32::MAX] {
        shared.set_place(ProcessDescriptor { process: 7, number });
        assert_eq!(shared.place(), None, "{number}");
    }
    shared.set_first(3);
    assert_eq!((shared.place(), shared.first()), (None, Some(3)));
}
