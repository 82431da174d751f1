//! Bytes as a supply of decisions; once they are used up, every decision is zero.

/// The unused rest of the input.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    pub(crate) fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn long(&mut self) -> u32 {
        u32::from(self.word()) << 16 | u32::from(self.word())
    }

    /// Takes up to `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Takes a distance: mostly small, sometimes any value.
    pub(crate) fn distance(&mut self) -> u32 {
        match self.byte() {
            kind @ 0..=63 => u32::from(kind),
            64..=127 => 0,
            128..=191 => u32::from(self.word()),
            192..=223 => 0_u32.wrapping_sub(u32::from(self.word())),
            _ => self.long(),
        }
    }
}
