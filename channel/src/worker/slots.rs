//! The worker's own view of each slot, and the words it publishes about it.

use core::net::SocketAddr;

use super::super::layout::{Shape, WORKER_ATTEMPTS};
use super::super::mark::Mark;
use super::super::slot::{Failure, Flags, SlotRef, SlotShared, State};
use super::Attachment;
use super::signal::distant_words;
use ringway_shm::sync::Ordering;
use ringway_shm::{Instant, list};

/// What only the worker knows of a slot.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    pub(super) generation: u32,
    /// Upper half: given to a connection.
    pub(super) allocated: bool,
    /// Listener that it waits on, + 1.
    pub(super) parent: u32,
    /// Bytes ever pushed, and those that the application was believed to have read.
    pub(super) rx_pushed: u32,
    pub(super) rx_consumed: u32,
    /// Newest leased chunk + 1.
    pub(super) lease: u32,
    /// Chunks filled but not yet pushed: newest, oldest (+ 1), and bytes in the newest.
    pub(super) open_newest: u32,
    pub(super) open_oldest: u32,
    pub(super) open_len: u32,
    /// Send chunks in order: first, last (+ 1), offset in the first, bytes in all.
    pub(super) tx_first: u32,
    pub(super) tx_last: u32,
    pub(super) tx_offset: u32,
    pub(super) tx_bytes: u32,
    /// Bytes ever taken and ever acknowledged.
    pub(super) tx_taken: u32,
    pub(super) tx_released: u32,
    pub(super) accept_pushed: u32,
    /// Of urgent data, as last published.
    pub(super) mark: Option<Mark>,
}

const PAGE: u32 = 64;

/// The slots, in pages made at first use.
pub(super) struct Table {
    pages: Vec<Option<Box<[Slot; PAGE as usize]>>>,
    /// Upper half: numbers that came back, then those never used.
    free: Vec<u32>,
    fresh: u32,
    end: u32,
}

impl Table {
    pub(super) fn new(shape: &Shape) -> Table {
        let pages = (0..shape.slots / PAGE).map(|_| None).collect();
        Table { pages, free: Vec::new(), fresh: shape.slots / 2, end: shape.slots }
    }

    pub(super) fn of(&mut self, index: u32) -> &mut Slot {
        let page = &mut self.pages[(index / PAGE) as usize];
        &mut page.get_or_insert_with(|| Box::new([Slot::default(); PAGE as usize]))[(index % PAGE) as usize]
    }

    pub(super) fn peek(&self, index: u32) -> Slot {
        self.pages[(index / PAGE) as usize].as_ref().map_or_else(Slot::default, |page| page[(index % PAGE) as usize])
    }

    pub(super) fn fresh_end(&self) -> u32 {
        self.fresh
    }
}

impl Attachment {
    /// Whether `slot` is in use under this generation.
    pub fn is_current(&self, slot: SlotRef) -> bool {
        slot.index < self.map.shape().slots && self.slots.peek(slot.index).generation == slot.generation
    }

    /// The reference to the present use of slot `index`.
    pub fn slot_ref(&self, index: u32) -> SlotRef {
        SlotRef { index, generation: self.slots.peek(index).generation }
    }

    /// The shared words of a slot, for reading.
    pub fn slot(&self, index: u32) -> &SlotShared {
        self.map.slot(index)
    }

    /// Slots that there are for accepted connections.
    pub fn free_accepted(&self) -> u32 {
        self.slots.free.len() as u32 + self.slots.end - self.slots.fresh
    }

    /// Whether as many connections wait on `listener` as may; then the application says (request `Consumed`) when it has
    /// accepted one.
    pub fn waits_for_accept(&mut self, listener: u32, backlog: u32) -> bool {
        let waits = self.map.slot(listener).unaccepted() >= backlog;
        self.set_notify_bytes(listener, u32::from(waits));
        // It may have accepted just before it could see that.
        waits && self.map.slot(listener).unaccepted() >= backlog
    }

    /// A slot of the upper half for an accepted connection.
    pub fn allocate_slot(&mut self) -> Option<SlotRef> {
        let index = match self.slots.free.pop() {
            Some(index) => index,
            None if self.slots.fresh < self.slots.end => {
                self.slots.fresh += 1;
                self.slots.fresh - 1
            }
            None => return None,
        };
        let slot = self.slots.of(index);
        slot.allocated = true;
        let generation = slot.generation;
        Some(SlotRef { index, generation })
    }

    /// Ends the slot's use: takes its chunks back, starts a new generation, and makes it free for
    /// the next. Waiters that still watch it are signalled once more.
    pub fn free_slot(&mut self, index: u32) {
        self.signal(index);
        self.reclaim();
        self.drop_rx(index);
        self.drop_tx(index);
        for process in self.map.holders(index) {
            self.map.held(process, index / 64).fetch_and(!(1 << (index % 64)), Ordering::SeqCst);
        }
        for word in distant_words(self.map.slot(index).distant.load(Ordering::Relaxed)) {
            self.map.distant_interest(index)[word].store(0, Ordering::Relaxed);
        }
        let private = self.slots.of(index);
        let (generation, allocated) = (private.generation.wrapping_add(1), private.allocated);
        *private = Slot { generation, ..Slot::default() };
        let shared = self.map.slot(index);
        shared.generation.store(generation, Ordering::SeqCst);
        shared.reset();
        if index >= self.map.shape().slots / 2 {
            if allocated {
                self.slots.free.push(index);
            }
        } else if !self.map.header().free_slots.0.give_bounded(index, &shared.link) {
            // Only an application that changes the list all the time gets here; it loses the slot.
            self.violations += 1;
        }
    }

    /// Publishes the state, after all bytes pushed before.
    pub fn set_state(&mut self, index: u32, state: State) {
        self.publish_rx(index);
        self.map.slot(index).state.store(state as u32, Ordering::Release);
    }

    /// Adds flags, after all bytes pushed before.
    pub fn set_flags(&mut self, index: u32, flags: Flags) {
        self.publish_rx(index);
        self.map.slot(index).flags.fetch_or(flags.0, Ordering::AcqRel);
    }

    /// Takes flags off the slot.
    pub fn clear_flags(&mut self, index: u32, flags: Flags) {
        self.map.slot(index).flags.fetch_and(!flags.0, Ordering::AcqRel);
    }

    /// Publishes an error together with the flags that go with it. Publish the state afterwards.
    pub fn set_error(&mut self, index: u32, failure: Failure, flags: Flags) {
        self.publish_rx(index);
        self.map.slot(index).error.store(failure as u32, Ordering::Release);
        self.set_flags(index, flags);
    }

    /// Publishes an error of a datagram socket, which goes on: told once, and an event for edge-triggered waits.
    pub fn note_error(&mut self, index: u32, failure: Failure) {
        self.publish_rx(index);
        let shared = self.map.slot(index);
        shared.error.store(failure as u32, Ordering::Release);
        shared.accept_pushed.fetch_add(1, Ordering::Release);
    }

    /// Publishes where in the received stream (bytes, modulo 2^32) the urgent byte is, and that byte, if it has come.
    /// Do so before the bytes around it.
    pub fn set_mark(&mut self, index: u32, at: u32, byte: Option<u8>) {
        let slot = self.slots.of(index);
        let number = match slot.mark {
            Some(mark) if mark.at == at => mark.number,
            Some(mark) => mark.number.checked_add(1).unwrap_or(1),
            None => 1,
        };
        let mark = Mark { number, at, byte };
        slot.mark = Some(mark);
        self.map.slot(index).mark.store(mark.encode(), Ordering::Release);
    }

    /// Publishes both addresses.
    pub fn set_addresses(&mut self, index: u32, local: SocketAddr, remote: SocketAddr) {
        self.map.slot(index).set_addresses(local, remote);
    }

    /// Sets how many bytes the application may have written and not acknowledged at a time.
    pub fn set_send_limit(&mut self, index: u32, bytes: u32) {
        self.map.slot(index).send_limit.store(bytes, Ordering::Release);
    }

    /// Sets after how many bytes read the application says so (request `Consumed`). When lowering it
    /// because nothing more can be pushed, look at [`unread`](Self::unread) afterwards: the
    /// application may have read everything just before.
    pub fn set_notify_bytes(&mut self, index: u32, bytes: u32) {
        self.map.slot(index).notify_bytes.store(bytes, Ordering::SeqCst);
        ringway_shm::sync::fence(Ordering::SeqCst);
    }

    /// Puts the connection in `child` (made by [`allocate_slot`](Self::allocate_slot), state and
    /// addresses published) on the accept queue of `listener`, where it waits since `now`. Signal the listener afterwards. The slot must
    /// not be freed while it waits there, unless the listener is closed: a connection that dies
    /// meanwhile is accepted all the same, as in the kernel.
    pub fn push_accepted(&mut self, listener: u32, child: u32, now: Instant) -> bool {
        self.slots.of(child).parent = listener + 1;
        let shared = self.map.slot(listener);
        self.map.slot(child).accept_pushed.store(now.as_micros() as u32, Ordering::Relaxed);
        self.map.slot(child).parent.store(listener + 1, Ordering::Relaxed);
        let link = &self.map.slot(child).link;
        if list::push_chain(&shared.accept_stack, child, link, WORKER_ATTEMPTS).is_none() {
            self.violations += 1;
            self.slots.of(child).parent = 0;
            return false;
        }
        let private = self.slots.of(listener);
        private.accept_pushed = private.accept_pushed.wrapping_add(1);
        let pushed = private.accept_pushed;
        self.map.slot(listener).accept_pushed.store(pushed, Ordering::Release);
        true
    }

    /// Whether `child` was put on an accept queue and was not accepted yet.
    pub fn is_unaccepted(&self, child: u32) -> bool {
        let private = self.slots.peek(child);
        let taken = self.map.slot(child).taken.load(Ordering::Acquire);
        private.parent != 0 && taken != private.generation.wrapping_add(1)
    }

    /// The connections on the accept queue of `listener`; for when it closes. Looks at every slot of
    /// the upper half that was ever used.
    pub fn unaccepted(&self, listener: u32) -> Vec<u32> {
        let start = self.map.shape().slots / 2;
        (start..self.slots.fresh_end())
            .filter(|&child| self.slots.peek(child).parent == listener + 1 && self.is_unaccepted(child))
            .collect()
    }
}
