//! Sums by vectors of 64 bytes, as [`avx2`](super::avx2); masks read and write the tail.

use core::arch::x86_64::{
    _mm512_add_epi64, _mm512_loadu_si512, _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8, _mm512_reduce_add_epi64,
    _mm512_setzero_si512, _mm512_slli_epi64, _mm512_srli_epi64, _mm512_storeu_si512, _mm512_sub_epi64,
};

const VECTOR: usize = 64;

/// As `portable::run`.
///
/// # Safety
/// The processor has AVX-512 F and BW; the rest as `portable::run`, fewer than 2^32 bytes.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn run<const COPY: bool>(to: *mut u8, from: *const u8, len: usize) -> u16 {
    let zero = _mm512_setzero_si512();
    let (mut words, mut uppers) = ([zero; 2], [zero; 2]);
    let mut at = 0;
    while len - at >= 2 * VECTOR {
        for lane in 0..2 {
            // SAFETY: two vectors of both ranges lie behind `at`.
            let vector = unsafe {
                let vector = _mm512_loadu_si512(from.add(at + lane * VECTOR).cast());
                if COPY {
                    _mm512_storeu_si512(to.add(at + lane * VECTOR).cast(), vector);
                }
                vector
            };
            words[lane] = _mm512_add_epi64(words[lane], vector);
            uppers[lane] = _mm512_add_epi64(uppers[lane], _mm512_srli_epi64::<32>(vector));
        }
        at += 2 * VECTOR;
    }
    while at < len {
        let left = (len - at).min(VECTOR);
        let mask = u64::MAX >> (VECTOR - left);
        // SAFETY: the mask covers only bytes that are left in both ranges.
        let vector = unsafe {
            let vector = _mm512_maskz_loadu_epi8(mask, from.add(at).cast());
            if COPY {
                _mm512_mask_storeu_epi8(to.add(at).cast(), mask, vector);
            }
            vector
        };
        words[0] = _mm512_add_epi64(words[0], vector);
        uppers[0] = _mm512_add_epi64(uppers[0], _mm512_srli_epi64::<32>(vector));
        at += left;
    }
    let (words, uppers) = (_mm512_add_epi64(words[0], words[1]), _mm512_add_epi64(uppers[0], uppers[1]));
    let sums = _mm512_add_epi64(_mm512_sub_epi64(words, _mm512_slli_epi64::<32>(uppers)), uppers);
    super::fold(_mm512_reduce_add_epi64(sums) as u64)
}
