//! What a payload says is what a slice of the same bytes would say, at every length and place.
use alloc::sync::Arc;
use alloc::vec;
use core::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::extent::{Access, Backing};
use crate::{Arena, ArenaConfig, FrameQueue, Note};

/// Lengths on both sides of every step of a copy or a sum; a few under Miri, which is slow.
fn lengths() -> impl Iterator<Item = usize> {
    let most = if cfg!(miri) { 70 } else { 700 };
    (0..most).chain([1_447, 1_448, 2_047, 2_048, 2_049, 4_096, 5_000])
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

/// Memory that stands for an application's: the test writes to it while frames are over it.
struct Application {
    memory: NonNull<u8>,
    len: usize,
    given_back: AtomicU32,
}

// SAFETY: the tests use it in one thread.
unsafe impl Send for Application {}
// SAFETY: as above.
unsafe impl Sync for Application {}

impl Backing for Application {
    fn release(&self, token: u32) {
        self.given_back.fetch_add(token, Ordering::Relaxed);
    }
}

impl Application {
    fn new(bytes: Vec<u8>) -> Arc<Application> {
        let len = bytes.len();
        let memory = NonNull::from(Vec::leak(bytes)).cast();
        Arc::new(Application { memory, len, given_back: AtomicU32::new(0) })
    }

    fn frame(self: &Arc<Self>, arena: &Arena) -> Frame {
        // SAFETY: the memory is there as long as this is, and others may write to it.
        unsafe { arena.extent_over(NonNull::slice_from_raw_parts(self.memory, self.len), Access::Foreign, self.clone(), 1) }
            .expect("an extent")
    }

    fn write(&self, byte: u8) {
        // SAFETY: the memory is of that length and not borrowed.
        unsafe { self.memory.as_ptr().write_bytes(byte, self.len) }
    }

    fn given_back(&self) -> u32 {
        self.given_back.load(Ordering::Relaxed)
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        // SAFETY: it was leaked with that length, and no frame is left.
        drop(unsafe { alloc::boxed::Box::from_raw(ptr::slice_from_raw_parts_mut(self.memory.as_ptr(), self.len)) });
    }
}

fn arena() -> Arena {
    Arena::new(ArenaConfig { large: 4, small: 4 })
}

#[test]
fn sums_and_copies_are_those_of_the_slice() {
    let data = bytes(6_000, 7);
    for len in lengths() {
        let start = len * 7 % 64;
        let part = &data[start..start + len];
        let payload = Payload::from(part);
        assert_eq!(payload.sum(), sum::sum(part), "length {len}, start {start}");
        assert_eq!((payload.len(), payload.first(), payload.to_vec()), (len, part.first().copied(), part.to_vec()));
        let mut copy = vec![0xa5; len + 2];
        payload.copy_to(&mut copy[1..=len]);
        assert_eq!((copy[0], &copy[1..=len], copy[len + 1]), (0xa5, part, 0xa5), "length {len}, start {start}");
        let mut pieces = Vec::new();
        payload.for_each_copy(|piece| pieces.extend_from_slice(piece));
        assert_eq!(pieces, part);
    }
}

#[test]
fn parts_are_those_of_the_slice() {
    let data = bytes(100, 9);
    let payload = Payload::from(&data);
    for (start, end) in (0..=100).flat_map(|start| (start..=100).step_by(13).map(move |end| (start, end))) {
        assert_eq!(payload.slice(start..end).to_vec(), data[start..end]);
    }
    let (front, back) = payload.split_at(33);
    assert_eq!((front.to_vec(), back.to_vec()), (data[..33].to_vec(), data[33..].to_vec()));
}

#[test]
#[should_panic(expected = "a part of the payload")]
fn no_part_reaches_beyond_the_end() {
    Payload::from(&[0; 4]).slice(3..5);
}

#[test]
#[should_panic(expected = "room for the bytes")]
fn nothing_is_written_beyond_the_end() {
    PayloadMut::from(&mut [0; 4][..]).write(usize::MAX, b"x");
}

#[test]
fn what_is_written_lies_where_it_was_asked_for() {
    let mut memory = [0xa5; 8];
    let mut place = PayloadMut::from(&mut memory[1..7]);
    place.write(0, b"ab");
    place.write(4, b"ef");
    place.write(6, b"");
    assert_eq!(&memory, b"\xa5ab\xa5\xa5ef\xa5");
}

/// The payload of a frame follows what the other process writes; a copy does not.
#[test]
fn foreign_bytes_are_copied_and_summed_as_they_are_then() {
    let (arena, application) = (arena(), Application::new(bytes(3_000, 3)));
    let frame = application.frame(&arena);
    let before = frame.payload().to_vec();
    assert_eq!(frame.payload().sum(), sum::sum(&before));
    application.write(0xff);
    assert_eq!((frame.payload().sum(), frame.payload().first()), (0xffff, Some(0xff)));
    assert_eq!(before, bytes(3_000, 3));
    let copy = arena.alloc_from(frame.payload().slice(0..1_000)).expect("a frame");
    application.write(1);
    assert_eq!(copy.bytes(), [0xff; 1_000]);
}

#[test]
#[should_panic(expected = "not borrowed")]
fn foreign_bytes_are_not_borrowed() {
    let (arena, application) = (arena(), Application::new(vec![7; 100]));
    application.frame(&arena).bytes();
}

#[test]
fn foreign_bytes_are_not_borrowed_to_be_written() {
    let (arena, application) = (arena(), Application::new(vec![7; 100]));
    let mut frame = application.frame(&arena);
    assert!(frame.is_foreign() && !frame.is_exclusive(), "push, extend and bytes_mut ask for an exclusive frame");
    frame.pull(50);
    frame.truncate(10);
    let writes: [fn(&mut Frame) -> usize; 3] =
        [|frame| frame.bytes_mut().len(), |frame| frame.push(1).len(), |frame| frame.extend(1).len()];
    for write in writes {
        let mut view = frame.share();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| write(&mut view)));
        assert!(result.is_err(), "a foreign frame was lent to be written");
    }
    let mut queue = FrameQueue::default();
    queue.push_back(frame, Note::default());
    assert_eq!(queue.append_bytes(&arena, b"x"), 0);
    assert_eq!(queue.extend_back(&arena, 1, &mut |_| panic!("nothing to fill")), 0);
    assert!(arena.packet_of(queue.front(), 1, |_, note| Some(note), |_, _| panic!("nothing to write")).is_none());
    queue.clear(&arena);
}

/// A reader in this process is shown copies, so what is written behind them does not change them.
#[test]
fn a_reader_of_the_queue_is_shown_copies() {
    let (arena, application) = (arena(), Application::new(vec![7; 5_000]));
    let mut queue = FrameQueue::default();
    queue.push_back(application.frame(&arena), Note::default());
    let mut shown = Vec::new();
    let taken = queue.take_bytes(&arena, 4_000, &mut |piece| {
        let before = piece.to_vec();
        application.write(9);
        assert_eq!(piece, before);
        shown.extend_from_slice(piece);
    });
    assert_eq!((taken, shown.len(), shown[0]), (Some((4_000, 0)), 4_000, 7));
    let taken = queue.take_bytes(&arena, 4_000, &mut |piece| shown.extend_from_slice(piece));
    assert_eq!((taken, shown.len(), application.given_back()), (Some((1_000, 5_000)), 5_000, 1));
}

#[test]
fn a_frame_becomes_this_process_s_own_and_gives_the_bytes_back() {
    let (arena, application) = (arena(), Application::new(bytes(100, 5)));
    let mut frame = application.frame(&arena);
    frame.pull(10);
    frame.truncate(50);
    let other = frame.share();
    let mut frame = frame.into_own().expect_err("another frame would be left over its memory");
    drop(other);
    assert_eq!(application.given_back(), 0);
    frame = frame.into_own().expect("nobody shares it");
    assert_eq!(application.given_back(), 1);
    application.write(0);
    assert_eq!((frame.bytes(), frame.is_foreign()), (&bytes(100, 5)[10..60], false));
    assert!(!frame.is_exclusive(), "content is read-only");
    let own = frame.share();
    drop(frame);
    assert_eq!(own.into_own().expect("it is own").bytes(), &bytes(100, 5)[10..60]);
    assert_eq!((application.given_back(), Arc::strong_count(&application), arena.free_extents()), (1, 1, 4));
}

#[test]
fn a_room_is_written_and_then_a_frame() {
    let (arena, application) = (arena(), Application::new(vec![0; 6]));
    // SAFETY: the frame is the only one, and the memory can be written.
    let mut room = unsafe { Room::over(application.frame(&arena)) };
    room.payload_mut().write(1, b"abc");
    let frame = room.into_frame();
    assert_eq!((frame.payload().to_vec(), frame.is_foreign()), (b"\0abc\0\0".to_vec(), true));
}

#[test]
#[should_panic(expected = "read-only")]
fn content_is_no_room() {
    let arena = arena();
    Room::of(arena.frame_of(&crate::Content::new(*b"abc"), 0..3).expect("an extent"));
}
