//! Tests of the exported functions, family by family, over libc functions that a test writes (`fake.rs`).

mod bytes;
mod descriptors;
mod messages;
mod moved;
mod numbers;
mod passing_on;
mod programs;
mod waiting;

use crate::c::errno;
use libc::{c_int, iovec};

/// What a call answered, and errno where it failed.
fn told(answer: isize) -> Result<usize, c_int> {
    usize::try_from(answer).map_err(|_| errno().0)
}

fn piece(bytes: &mut [u8]) -> iovec {
    iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}
