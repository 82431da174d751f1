//! A burst: packets on their way between a device and the stack, in order.

use crate::fifo::Fifo;
use crate::frame::Frame;

/// Packets in order; each is a run of frames of which all but the last say `continues`.
#[derive(Debug, Default)]
pub struct Burst {
    frames: Fifo<Frame>,
    packets: usize,
}

impl Burst {
    /// An empty burst with room for `frames` frames.
    pub fn with_capacity(frames: usize) -> Burst {
        Burst { frames: Fifo::with_capacity(frames), packets: 0 }
    }

    /// Appends the next frame of the packet at the end, or the first of a new packet.
    #[inline]
    pub fn push(&mut self, frame: Frame) {
        if !frame.continues() {
            self.packets += 1;
        }
        self.frames.push_back(frame);
    }

    /// Takes the first frame.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        if !frame.continues() {
            self.packets -= 1;
        }
        Some(frame)
    }

    /// Whole packets in the burst.
    #[inline]
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Whether the burst is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// All frames in order, without taking them.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter()
    }

    /// The first frame, without taking it.
    #[inline]
    pub fn front(&self) -> Option<&Frame> {
        self.frames.front()
    }

    /// The frames of the first packet, without taking them.
    pub fn front_packet(&self) -> impl Iterator<Item = &Frame> {
        let count = self.frames.iter().position(|f| !f.continues()).map_or(0, |last| last + 1);
        self.frames.iter().take(count)
    }

    /// All frames in order, without taking them.
    pub fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter()
    }

    /// The first frame of each packet, without taking them.
    #[inline]
    pub fn heads(&self) -> impl Iterator<Item = &Frame> {
        let mut begins = true;
        self.frames.iter().filter(move |frame| core::mem::replace(&mut begins, !frame.continues()))
    }

    /// Drops the first packet.
    #[inline]
    pub fn drop_packet(&mut self) {
        while let Some(frame) = self.pop() {
            if !frame.continues() {
                break;
            }
        }
    }

    /// Bytes of the first packet.
    #[inline]
    pub fn front_len(&self) -> usize {
        if let Some(frame) = self.front()
            && !frame.continues()
        {
            return frame.len();
        }
        self.front_packet().map(Frame::len).sum()
    }

    /// Moves everything from `other` to the end of this burst.
    #[inline]
    pub fn append(&mut self, other: &mut Burst) {
        if other.packets == 0 {
            return;
        }
        self.frames.append(&mut other.frames);
        self.packets += core::mem::take(&mut other.packets);
    }

    /// Moves the first packet of `other` to the end of this burst.
    pub fn append_packet(&mut self, other: &mut Burst) {
        while let Some(frame) = other.pop() {
            let continues = frame.continues();
            self.push(frame);
            if !continues {
                break;
            }
        }
    }

    /// Drops everything.
    #[inline]
    pub fn clear(&mut self) {
        if !self.frames.is_empty() {
            self.frames.clear();
        }
        self.packets = 0;
    }
}
