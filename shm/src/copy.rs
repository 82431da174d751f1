//! Copies between a region and ordinary memory, without the one case in which processors copy at a tenth of their rate.
//!
//! From some 2 KiB on, libraries copy with one string instruction. Where the target begins less than a cache line behind the
//! source, counted within a page, AMD's Zen 4 then copies slower, and within 15 bytes at 3 instead of 40 GB/s. A reader from the
//! start of a page to a large buffer of malloc(3), which begins 16 bytes behind that of a page, always comes close to it. Short
//! copies go through vectors, which hardly mind. Promises: every byte is copied once, whatever the places. Does not do: copies
//! of the kernel.

/// Copies up to this are done with vectors everywhere.
const PIECE: usize = 2048;
/// Bytes behind the source, within a page, from which on a target is far enough.
const NEAR: usize = 64;
const PAGE: usize = 4096;

/// Copies `count` bytes.
///
/// # Safety
/// As [`core::ptr::copy_nonoverlapping`]: `from` can be read and `to` written for `count` bytes, and they are apart.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
    if count > PIECE && is_close_behind(from as usize, to as usize) {
        // SAFETY: the caller's.
        unsafe { copy_in_pieces(from, to, count) }
    } else {
        // SAFETY: the caller's.
        unsafe { core::ptr::copy_nonoverlapping(from, to, count) }
    }
}

/// Whether the target begins behind the source, but less than a cache line, if both were in one page.
fn is_close_behind(from: usize, to: usize) -> bool {
    (1..NEAR).contains(&(to.wrapping_sub(from) % PAGE))
}

#[cold]
unsafe fn copy_in_pieces(from: *const u8, to: *mut u8, count: usize) {
    for at in (0..count).step_by(PIECE) {
        // SAFETY: inside what the caller of `copy` promises.
        unsafe { core::ptr::copy_nonoverlapping(from.add(at), to.add(at), PIECE.min(count - at)) }
    }
}

#[cfg(test)]
mod tests;
