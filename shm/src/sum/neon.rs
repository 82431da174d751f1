//! Sums by vectors of 16 bytes: AArch64 adds neighboring 32-bit words to 64-bit lanes in one instruction.

use core::arch::aarch64::{vaddq_u64, vaddvq_u64, vdupq_n_u64, vld1q_u8, vpadalq_u32, vreinterpretq_u32_u8, vst1q_u8};

const VECTOR: usize = 16;

/// As `portable::run`.
///
/// # Safety
/// As `portable::run`, fewer than 2^32 bytes.
#[target_feature(enable = "neon")]
pub(super) unsafe fn run<const COPY: bool>(to: *mut u8, from: *const u8, len: usize) -> u16 {
    let mut sums = [vdupq_n_u64(0); 4];
    let mut at = 0;
    let vector = |at: usize| {
        // SAFETY: callers pass offsets with a vector of the range behind them.
        unsafe {
            let vector = vld1q_u8(from.add(at));
            if COPY {
                vst1q_u8(to.add(at), vector);
            }
            vreinterpretq_u32_u8(vector)
        }
    };
    while len - at >= 4 * VECTOR {
        for lane in 0..4 {
            sums[lane] = vpadalq_u32(sums[lane], vector(at + lane * VECTOR));
        }
        at += 4 * VECTOR;
    }
    while len - at >= VECTOR {
        sums[0] = vpadalq_u32(sums[0], vector(at));
        at += VECTOR;
    }
    let total = vaddvq_u64(vaddq_u64(vaddq_u64(sums[0], sums[1]), vaddq_u64(sums[2], sums[3])));
    // SAFETY: what is left of both ranges.
    super::add(super::fold(total), unsafe { super::portable::run::<COPY>(to.wrapping_add(at), from.add(at), len - at) })
}
