//! `libringway.so`: the C API, a thin door in front of [`ringway::remote`]. `include/ringway.h` is its documentation; each
//! function here checks what C can get wrong, calls the method of the same meaning, and turns its error into errno.
//!
//! # Safety
//! Of every function: handles are what a function of this library returned and were not closed; pointers are null only where
//! the header allows it, and point to as much as the length beside them says.
#![allow(clippy::missing_safety_doc, reason = "said once above")]
#![allow(unreachable_pub, reason = "what C calls is public, whatever Rust can reach")]
#![allow(missing_docs, reason = "the header documents every function")]

mod address;
mod answer;
mod datagram;
mod listener;
mod poller;
mod session;
mod stream;
mod zero_copy;
