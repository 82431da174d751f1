//! The door-frame between libc's symbols and `ringway_posix`: nothing but translation.
//!
//! Loaded with LD_PRELOAD. Each exported function asks one question (is this descriptor ours?) and either calls the next
//! definition of its own name (`real.rs`) or translates pointers to slices and calls the room. A panic in an exported
//! function ends the program with a line on standard error: `extern "C"` functions cannot unwind.
//!
//! What it does not do: catch calls that glibc makes inside itself (the resolver; stdio only where a stream is
//! made from a socket: `stdio.rs`), system calls without libc's `syscall`, static programs. Every socket of ours is backed by a real kernel descriptor for those.

#![allow(unreachable_pub, reason = "exported by name, not by path")]
#![allow(clippy::missing_safety_doc, reason = "the contract of each exported function is libc's own")]

mod c;
mod datagram;
mod environment;
mod epoll;
#[cfg(target_arch = "x86_64")]
mod exec_list;
#[cfg(test)]
mod fake;
mod files;
mod io;
mod kernel;
mod liburing;
mod listed;
mod makers;
mod message;
mod peer;
mod poll;
mod print;
mod process;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod raw;
mod reach;
mod reading;
mod real;
mod ring;
mod shim;
mod signals;
mod sockets;
mod stderr;
mod stdio;
#[cfg(all(target_arch = "x86_64", not(test)))]
mod unwind;

pub(crate) use c::set_errno;

#[cfg(test)]
mod tests;
