//! SipHash: a keyed hash with output that may be visible to remote hosts.
//!
//! Jean-Philippe Aumasson and Daniel J. Bernstein, "SipHash: a fast short-input PRF" (2012). SipHash-1-3 for values that
//! only this stack checks, SipHash-2-4 when others use the same key (Fast Open cookies).

/// Rounds for each word and at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds(u8, u8);

/// For values that only this stack checks.
pub(crate) const SIP_1_3: Rounds = Rounds(1, 3);
/// The common variant.
pub(crate) const SIP_2_4: Rounds = Rounds(2, 4);

/// A hash in progress.
pub(crate) struct Sip {
    v: [u64; 4],
    rounds: Rounds,
}

impl Sip {
    /// Starts with a key, its two halves in little-endian order.
    pub(crate) fn new([a, b]: [u64; 2], rounds: Rounds) -> Sip {
        let v = [a ^ 0x736f_6d65_7073_6575, b ^ 0x646f_7261_6e64_6f6d, a ^ 0x6c79_6765_6e65_7261, b ^ 0x7465_6462_7974_6573];
        Sip { v, rounds }
    }

    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.v;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.v = [a, b, c, d];
    }

    /// Takes eight bytes in little-endian order.
    pub(crate) fn word(&mut self, word: u64) {
        self.v[3] ^= word;
        (0..self.rounds.0).for_each(|_| self.round());
        self.v[0] ^= word;
    }

    /// The hash of the words taken.
    pub(crate) fn finish(mut self) -> u64 {
        self.v[2] ^= 0xff;
        (0..self.rounds.1).for_each(|_| self.round());
        self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3]
    }

    /// The hash of bytes, padded as in the paper.
    pub(crate) fn of_bytes(key: [u64; 2], rounds: Rounds, bytes: &[u8]) -> u64 {
        let mut state = Sip::new(key, rounds);
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| state.word(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        last[7] = bytes.len() as u8;
        state.word(u64::from_le_bytes(last));
        state.finish()
    }
}

#[cfg(test)]
mod tests;
