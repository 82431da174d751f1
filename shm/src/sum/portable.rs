//! Sums by 64-bit words, for every processor and for the tails of the others.

/// The sum of native words of `len` bytes at `from`, which are copied to `to` with `COPY`.
///
/// # Safety
/// `from` is readable for `len` bytes, and with `COPY` `to` is writable for as many, apart from them.
#[inline]
pub(super) unsafe fn run<const COPY: bool>(to: *mut u8, from: *const u8, len: usize) -> u16 {
    // Two 128-bit accumulators of 64-bit words never overflow and run in parallel.
    let (mut even, mut odd) = (0u128, 0u128);
    let mut at = 0;
    let word = |at: usize| {
        // SAFETY: callers pass offsets with eight bytes of the range behind them.
        unsafe {
            let word = from.add(at).cast::<u64>().read_unaligned();
            if COPY {
                to.add(at).cast::<u64>().write_unaligned(word);
            }
            u128::from(word)
        }
    };
    while len - at >= 32 {
        even += word(at) + word(at + 8);
        odd += word(at + 16) + word(at + 24);
        at += 32;
    }
    while len - at >= 8 {
        even += word(at);
        at += 8;
    }
    if at < len {
        let mut padded = [0u8; 8];
        // SAFETY: fewer than eight bytes are left in both ranges, and `padded` holds eight.
        unsafe {
            core::ptr::copy_nonoverlapping(from.add(at), padded.as_mut_ptr(), len - at);
            if COPY {
                core::ptr::copy_nonoverlapping(padded.as_ptr(), to.add(at), len - at);
            }
        }
        odd += u128::from(u64::from_ne_bytes(padded));
    }
    let total = even + odd;
    let (half, carry) = (total as u64).overflowing_add((total >> 64) as u64);
    // After a carry the rest is smaller than what was added, so one more fits.
    super::fold(half + u64::from(carry))
}
