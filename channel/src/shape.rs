//! How large a region is: how many slots, and chunks of each size.

use super::layout::Layout;

/// How large a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sockets: a power of two from 128 to 2^20. The lower half is for the application, the upper
    /// half for accepted connections.
    pub slots: u32,
    /// Receive chunks of [`LARGE_CHUNK`](super::layout::LARGE_CHUNK) bytes.
    pub rx_large: u32,
    /// Receive chunks of [`SMALL_CHUNK`](super::layout::SMALL_CHUNK) bytes.
    pub rx_small: u32,
    /// Send chunks of [`LARGE_CHUNK`](super::layout::LARGE_CHUNK) bytes.
    pub tx_large: u32,
    /// Send chunks of [`SMALL_CHUNK`](super::layout::SMALL_CHUNK) bytes.
    pub tx_small: u32,
    /// Send chunks of [`BULK_CHUNK`](super::layout::BULK_CHUNK) bytes, which leave without being copied; may be none.
    pub tx_bulk: u32,
    /// Receive chunks of [`ROOM_CHUNK`](super::layout::ROOM_CHUNK) bytes, into which large packets are read; may be none.
    pub rx_bulk: u32,
    /// Receive chunks of [`MIDDLE_CHUNK`](super::layout::MIDDLE_CHUNK) bytes, for packets that are smaller but no large chunk holds; may be none.
    pub rx_middle: u32,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            slots: 65_536,
            rx_large: 4096,
            rx_small: 4096,
            tx_large: 4096,
            tx_small: 4096,
            tx_bulk: 1024,
            rx_bulk: 128,
            rx_middle: 1024,
        }
    }
}

impl Shape {
    /// Whether a region of this shape can exist.
    pub fn is_valid(&self) -> bool {
        let chunks = [self.rx_large, self.rx_small, self.tx_large, self.tx_small];
        self.slots.is_power_of_two()
            && (128..=1 << 20).contains(&self.slots)
            && chunks.iter().all(|&count| (1..=1 << 20).contains(&count))
            && self.tx_bulk.max(self.rx_bulk).max(self.rx_middle) <= 1 << 16
    }

    /// Bytes of a region of this shape.
    ///
    /// # Panics
    /// When the shape is not valid.
    pub fn bytes(&self) -> usize {
        Layout::of(*self).total
    }

    /// Receive chunks of all classes: the large ones come first, then the small, the bulk ones and those of middle size.
    pub(crate) fn rx_chunks(&self) -> u32 {
        self.first_middle() + self.rx_middle
    }

    /// The first receive chunk of middle size.
    pub(crate) fn first_middle(&self) -> u32 {
        self.first_room() + self.rx_bulk
    }

    /// The first bulk receive chunk's number.
    pub(crate) fn first_room(&self) -> u32 {
        self.rx_large + self.rx_small
    }

    /// Send chunks of all classes: the large ones come first, then the small, then the bulk ones.
    pub(crate) fn tx_chunks(&self) -> u32 {
        self.first_bulk() + self.tx_bulk
    }

    /// The first bulk chunk's number.
    pub(crate) fn first_bulk(&self) -> u32 {
        self.tx_large + self.tx_small
    }

    /// Words of a bitmap of slots.
    pub(crate) fn slot_words(&self) -> u32 {
        self.slots / 64
    }

    /// Words of the summary of such a bitmap.
    pub(crate) fn summary_words(&self) -> u32 {
        self.slot_words().div_ceil(64)
    }
}
