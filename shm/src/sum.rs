//! The Internet checksum's sum, alone or while bytes are copied, by the widest instructions that the processor has.
//!
//! Read RFC 1071 first. A sum is the ones'-complement sum of 16-bit words in network order, folded and *not*
//! complemented; an odd number of bytes counts as if a zero followed. Promises: all variants give the same sum of
//! the same bytes; a copy sums what it stores, even while another process changes the source. The processor is asked
//! once. Does not do: pseudo-headers (`wire::checksum` of the stack does).

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod avx2;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod avx512;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon;
mod portable;

use core::sync::atomic::{AtomicU8, Ordering};

/// Fewer bytes are summed in place: asking which variant to use would cost more.
const WIDE_MIN: usize = 128;

/// Which instructions do the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Variant {
    /// 64-bit words; every processor.
    Portable = 1,
    /// x86-64 with 32-byte vectors.
    Avx2 = 2,
    /// x86-64 with 64-byte vectors and masks.
    Avx512 = 3,
    /// AArch64 with 16-byte vectors.
    Neon = 4,
}

/// The chosen variant, or 0 before the processor was asked.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

impl Variant {
    /// All of them, the simplest first.
    pub const ALL: [Variant; 4] = [Variant::Portable, Variant::Avx2, Variant::Avx512, Variant::Neon];

    /// Whether this processor (or what emulates it) has the instructions.
    pub fn is_available(self) -> bool {
        match self {
            Variant::Portable => true,
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            Variant::Avx2 => std::arch::is_x86_feature_detected!("avx2"),
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            Variant::Avx512 => std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512bw"),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Variant::Neon => true,
            #[allow(unreachable_patterns, reason = "which arms there are depends on the target")]
            _ => false,
        }
    }

    /// The one that is used here.
    #[inline]
    pub fn chosen() -> Variant {
        match CHOSEN.load(Ordering::Relaxed) {
            1 => Variant::Portable,
            2 => Variant::Avx2,
            3 => Variant::Avx512,
            4 => Variant::Neon,
            _ => Variant::choose(),
        }
    }

    #[cold]
    fn choose() -> Variant {
        let best = Variant::ALL.into_iter().rev().find(|variant| variant.is_available()).unwrap_or(Variant::Portable);
        CHOSEN.store(best as u8, Ordering::Relaxed);
        best
    }

    /// The sum of `bytes` by this variant.
    ///
    /// # Panics
    /// When the processor does not have it.
    pub fn sum(self, bytes: &[u8]) -> u16 {
        assert!(self.is_available(), "the processor has the instructions");
        // SAFETY: the variant is available; without COPY nothing is written.
        unsafe { self.run::<false>(core::ptr::null_mut(), bytes.as_ptr(), bytes.len()) }
    }

    /// Copies `from` to `to`, which is as long, and sums it by this variant.
    ///
    /// # Panics
    /// When the processor does not have it, or the lengths differ.
    pub fn copy(self, to: &mut [u8], from: &[u8]) -> u16 {
        assert!(self.is_available() && to.len() == from.len(), "the processor has the instructions, and the lengths agree");
        // SAFETY: the variant is available; both ranges are of `from.len()` bytes and, being borrowed, apart.
        unsafe { self.run::<true>(to.as_mut_ptr(), from.as_ptr(), from.len()) }
    }

    /// # Safety
    /// The variant is available, `from` is readable for `len` bytes, and with `COPY` `to` is writable for as many,
    /// apart from them.
    #[inline]
    unsafe fn run<const COPY: bool>(self, to: *mut u8, from: *const u8, len: usize) -> u16 {
        // SAFETY: the caller's promise is passed on.
        let native = unsafe {
            match self {
                #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
                Variant::Avx2 => avx2::run::<COPY>(to, from, len),
                #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
                Variant::Avx512 => avx512::run::<COPY>(to, from, len),
                #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
                Variant::Neon => neon::run::<COPY>(to, from, len),
                _ => portable::run::<COPY>(to, from, len),
            }
        };
        // RFC 1071 §2 (B): the sum of native words is the sum of network words with its bytes swapped.
        u16::from_be(native)
    }
}

/// The sum of `bytes` (fewer than 2^32).
#[inline]
pub fn sum(bytes: &[u8]) -> u16 {
    // SAFETY: the bytes are borrowed.
    unsafe { sum_raw(bytes.as_ptr(), bytes.len()) }
}

/// As [`sum`], of bytes that another process may write to meanwhile: each is read once.
///
/// # Safety
/// `from` is readable for `len` bytes.
#[inline]
pub(crate) unsafe fn sum_raw(from: *const u8, len: usize) -> u16 {
    // SAFETY: what was chosen is available, and without COPY nothing is written; the rest is the caller's promise.
    unsafe { dispatch::<false>(core::ptr::null_mut(), from, len) }
}

/// Copies `from` to `to` and sums it in the same pass.
///
/// # Panics
/// When the lengths differ.
#[inline]
pub fn copy(to: &mut [u8], from: &[u8]) -> u16 {
    assert_eq!(to.len(), from.len(), "a copy is as long as its source");
    // SAFETY: both are of that length and, being borrowed, apart.
    unsafe { copy_raw(to.as_mut_ptr(), from.as_ptr(), from.len()) }
}

/// As [`copy`], for a source that another process may write to meanwhile: what is summed is what is stored.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they are apart.
#[inline]
pub(crate) unsafe fn copy_raw(to: *mut u8, from: *const u8, len: usize) -> u16 {
    // SAFETY: the caller's promise is passed on.
    unsafe { dispatch::<true>(to, from, len) }
}

/// # Safety
/// As [`Variant::run`] with the chosen variant.
#[inline]
unsafe fn dispatch<const COPY: bool>(to: *mut u8, from: *const u8, len: usize) -> u16 {
    let variant = if len < WIDE_MIN { Variant::Portable } else { Variant::chosen() };
    // SAFETY: what was chosen is available; the rest is the caller's promise.
    unsafe { variant.run::<COPY>(to, from, len) }
}

/// The 16-bit sum of native words in a 64-bit sum of them.
#[inline]
fn fold(sum: u64) -> u16 {
    let (half, carry) = (sum as u32).overflowing_add((sum >> 32) as u32);
    let half = half + u32::from(carry);
    add(half as u16, (half >> 16) as u16)
}

/// The sum of two sums.
#[inline]
pub fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

#[cfg(test)]
mod tests;
