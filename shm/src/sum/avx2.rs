//! Sums by vectors of 32 bytes.
//!
//! Each 64-bit lane keeps two sums: of the words, wrapping, and of their upper halves, which does not overflow. The
//! first less the second one's shift is the sum of the lower halves: three instructions a vector, no masks.

use core::arch::x86_64::{
    __m256i, _mm256_add_epi64, _mm256_loadu_si256, _mm256_setzero_si256, _mm256_slli_epi64, _mm256_srli_epi64,
    _mm256_storeu_si256, _mm256_sub_epi64,
};

const VECTOR: usize = 32;

/// As `portable::run`.
///
/// # Safety
/// The processor has AVX2; the rest as `portable::run`, fewer than 2^32 bytes.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn run<const COPY: bool>(to: *mut u8, from: *const u8, len: usize) -> u16 {
    let zero = _mm256_setzero_si256();
    let (mut words, mut uppers) = ([zero; 4], [zero; 4]);
    let mut at = 0;
    let vector = |at: usize| {
        // SAFETY: callers pass offsets with a vector of the range behind them.
        unsafe {
            let vector = _mm256_loadu_si256(from.add(at).cast());
            if COPY {
                _mm256_storeu_si256(to.add(at).cast(), vector);
            }
            vector
        }
    };
    while len - at >= 4 * VECTOR {
        for lane in 0..4 {
            let vector = vector(at + lane * VECTOR);
            words[lane] = _mm256_add_epi64(words[lane], vector);
            uppers[lane] = _mm256_add_epi64(uppers[lane], _mm256_srli_epi64::<32>(vector));
        }
        at += 4 * VECTOR;
    }
    while len - at >= VECTOR {
        let vector = vector(at);
        words[0] = _mm256_add_epi64(words[0], vector);
        uppers[0] = _mm256_add_epi64(uppers[0], _mm256_srli_epi64::<32>(vector));
        at += VECTOR;
    }
    let join = |sums: [__m256i; 4]| _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3]));
    let (words, uppers) = (join(words), join(uppers));
    let sums = _mm256_add_epi64(_mm256_sub_epi64(words, _mm256_slli_epi64::<32>(uppers)), uppers);
    let mut lanes = [0u64; 4];
    // SAFETY: the array holds a vector.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sums) };
    let sum = super::fold(lanes.iter().sum());
    // SAFETY: what is left of both ranges.
    super::add(sum, unsafe { super::portable::run::<COPY>(to.wrapping_add(at), from.add(at), len - at) })
}
