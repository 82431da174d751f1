//! Middleware between two hosts beside the wire: a narrow hop, a liar, ICMP messages of routers.
//!
//! They work on copies of whole packets: a [`Packet`] has its checksums completed.

pub mod hop;
pub mod icmp;
pub mod liar;
pub mod rumor;

use hop::Narrow;
use liar::Lie;
use ringway_shm::{Arena, Burst, Checksum, Class, Frame, SegmentationKind};
use ringway_stack::wire::checksum;

/// The path between a host and the wire: the same hop and ICMP lies both ways, lies of each end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// A hop with a smaller MTU than the hosts' links.
    pub hop: Option<Narrow>,
    /// Lies of client and server about what they receive.
    pub lies: [Option<Lie>; 2],
    /// So many segments in a million are followed by a false ICMP message about them.
    pub rumor_ppm: u32,
}

/// A copy of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The link header, if the link has one.
    pub link: Vec<u8>,
    /// The packet from the IP header on (or whatever the link carries).
    pub network: Vec<u8>,
}

impl Packet {
    /// Copies `frames`, whose first `link_bytes` are the link header. `None`: shorter than that, or a super-segment that
    /// only a link with segmentation offload could send.
    pub fn copy(link_bytes: usize, frames: &[Frame]) -> Option<Packet> {
        let first = frames.first()?;
        if first.segmentation().kind != SegmentationKind::None {
            return None;
        }
        let mut bytes = Vec::with_capacity(frames.iter().map(|frame| frame.len()).sum());
        frames.iter().for_each(|frame| frame.payload().append_to(&mut bytes));
        if let Checksum::Partial { start, offset } = first.checksum() {
            let (start, field) = (usize::from(start), usize::from(start) + usize::from(offset));
            let sum = match !checksum::sum(bytes.get(start..)?) {
                0 => 0xffff,
                sum => sum,
            };
            bytes.get_mut(field..field + 2)?.copy_from_slice(&sum.to_be_bytes());
        }
        if bytes.len() < link_bytes {
            return None;
        }
        let network = bytes.split_off(link_bytes);
        Some(Packet { link: bytes, network })
    }

    /// Appends the packet to `burst`, in frames of `arena`, in a single one when it fits: not every link gathers. Without
    /// free frames the packet is lost.
    pub fn push(&self, arena: &Arena, burst: &mut Burst) {
        let mut rest = [&self.link[..], &self.network[..]].concat();
        let mut frames: Vec<Frame> = Vec::new();
        while !rest.is_empty() {
            let Some(mut frame) = arena.alloc(Class::Large) else { return };
            frame.reserve(0);
            let later = rest.split_off(rest.len().min(frame.tailroom()));
            frame.extend(rest.len()).copy_from_slice(&rest);
            frame.set_continues(!later.is_empty());
            frames.push(frame);
            rest = later;
        }
        frames.into_iter().for_each(|frame| burst.push(frame));
    }

    /// Returns the link header of a reply.
    pub fn link_back(&self) -> Vec<u8> {
        let mut link = self.link.clone();
        if link.len() >= MACS_LEN {
            link[..MACS_LEN].rotate_left(MACS_LEN / 2);
        }
        link
    }
}

/// Takes the frames of the first packet of `burst`; empty: there is none.
pub fn take(burst: &mut Burst) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(frame) = burst.pop() {
        let last = !frame.continues();
        frames.push(frame);
        if last {
            break;
        }
    }
    frames
}

/// Length of both link addresses of an Ethernet header.
const MACS_LEN: usize = 12;

#[cfg(test)]
mod tests;
