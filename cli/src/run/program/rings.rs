//! Does a program make io_urings by instructions of its own?
//!
//! liburing does, where it is linked into a program. Requests in such a ring name sockets of which the library in front of libc
//! does not hear, so that the program's sockets stay the kernel's. Promises: reads the executable parts of the file once, a piece
//! at a time. Does not do: libraries of the program (liburing's own functions are seen there: `preload/src/liburing.rs`), and
//! programs that this one starts.

use memchr::memmem::Finder;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The number of io_uring_setup(2) on its way into the register of system calls, as compilers write it, and the call.
#[cfg(not(target_arch = "aarch64"))]
const NUMBER: &[u8] = &[0xb8, 0xa9, 0x01, 0x00, 0x00];
#[cfg(not(target_arch = "aarch64"))]
const CALL: &[u8] = &[0x0f, 0x05];
#[cfg(target_arch = "aarch64")]
const NUMBER: &[u8] = &[0x28, 0x35, 0x80, 0xd2];
#[cfg(target_arch = "aarch64")]
const CALL: &[u8] = &[0x01, 0x00, 0x00, 0xd4];
/// Other arguments are put in their places in between.
const BETWEEN_MAX: usize = 48;
const PIECE_BYTES: usize = 256 << 10;

/// Looks through these parts of the file. What cannot be read has none.
pub(super) fn makes(file: &File, parts: &[Range<u64>]) -> bool {
    let (number, call) = (Finder::new(NUMBER), Finder::new(CALL));
    let mut bytes = vec![0; PIECE_BYTES];
    parts.iter().any(|part| {
        let mut at = part.start;
        loop {
            let room = usize::try_from(part.end.saturating_sub(at)).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let len = file.read_at(&mut bytes[..room], at).unwrap_or(0);
            let piece = &bytes[..len];
            let calls = |found: usize| {
                let behind = &piece[found + NUMBER.len()..];
                call.find(&behind[..behind.len().min(BETWEEN_MAX + CALL.len())]).is_some()
            };
            if number.find_iter(piece).any(calls) {
                return true;
            }
            // One that begins at the end of this piece is whole in the next.
            let step = len.saturating_sub(NUMBER.len() + BETWEEN_MAX + CALL.len());
            if step == 0 {
                return false;
            }
            at += step as u64;
        }
    })
}
