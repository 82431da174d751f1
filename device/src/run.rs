//! Packets as runs of frames: taking one off a burst, copying, making one piece of it.
//!
//! Does not know what the bytes mean.

use ringway_shm::arena::LARGE_BYTES;
use ringway_shm::{Arena, Burst, Class, Frame};

/// Headroom of a packet that was copied into one frame: room for TX metadata and for headers of a reply.
const LINEAR_HEADROOM: usize = 64;
/// The largest packet that [`linearize`] can make one frame of.
pub(crate) const LINEAR_MAX: usize = LARGE_BYTES - LINEAR_HEADROOM;

/// Moves the first packet of `burst` into `packet`, which is cleared first. `false`: there was none.
#[inline]
pub(crate) fn take_packet(burst: &mut Burst, packet: &mut Vec<Frame>) -> bool {
    packet.clear();
    while let Some(frame) = burst.pop() {
        let continues = frame.continues();
        packet.push(frame);
        if !continues {
            return true;
        }
    }
    !packet.is_empty()
}

/// Bytes of a packet.
#[inline]
pub(crate) fn packet_len(packet: &[Frame]) -> usize {
    packet.iter().map(Frame::len).sum()
}

/// Appends `packet` to `burst` and leaves it empty.
#[inline]
pub(crate) fn give_packet(burst: &mut Burst, packet: &mut Vec<Frame>) {
    let last = packet.len().saturating_sub(1);
    for (i, mut frame) in packet.drain(..).enumerate() {
        frame.set_continues(i != last);
        burst.push(frame);
    }
}

/// Copies the metadata of `from` to `to`.
#[inline]
pub(crate) fn copy_metadata(from: &Frame, to: &mut Frame) {
    to.set_checksum(from.checksum());
    to.set_segmentation(from.segmentation());
}

/// A copy of `packet` in frames of `arena`, or `None` when it has not enough of them.
pub(crate) fn copy_packet(arena: &Arena, packet: &[Frame]) -> Option<Vec<Frame>> {
    let first = packet.first()?;
    let mut copy: Vec<Frame> = Vec::with_capacity(packet.len());
    for from in packet {
        let mut bytes = from.payload();
        while !bytes.is_empty() {
            if copy.last().is_none_or(|frame| frame.tailroom() == 0) {
                let mut frame = arena.alloc(Class::Large)?;
                if !copy.is_empty() {
                    frame.reserve(0);
                }
                copy.push(frame);
            }
            let to = copy.last_mut().expect("one was pushed above");
            let count = bytes.len().min(to.tailroom());
            let (now, later) = bytes.split_at(count);
            now.copy_to(to.extend(count));
            bytes = later;
        }
    }
    copy_metadata(first, copy.first_mut()?);
    Some(copy)
}

/// One frame with all bytes of `packet`, or `None` when it is larger than [`LINEAR_MAX`] or the arena is used up.
pub(crate) fn linearize(arena: &Arena, packet: &[Frame]) -> Option<Frame> {
    if packet_len(packet) > LINEAR_MAX {
        return None;
    }
    let mut linear = arena.alloc(Class::Large)?;
    linear.reserve(LINEAR_HEADROOM);
    for frame in packet {
        frame.payload().copy_to(linear.extend(frame.len()));
    }
    copy_metadata(packet.first()?, &mut linear);
    Some(linear)
}
