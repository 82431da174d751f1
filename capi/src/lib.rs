//! `libringway.so`: the C API, a thin layer over [`ringway::remote`]. `include/ringway.h` documents it. Each function here
//! checks its arguments, calls the method of the same meaning and converts its error to errno.
//!
//! # Safety
//! Every function requires: a handle was returned by this library and is not closed; a pointer is null only where the header
//! allows it, and points to as much memory as the length beside it says.
#![allow(clippy::missing_safety_doc, reason = "said once above")]
#![allow(unreachable_pub, reason = "C calls these functions; Rust cannot see that")]
#![allow(missing_docs, reason = "the header documents every function")]

mod address;
mod answer;
mod datagram;
mod listener;
mod option;
mod poller;
mod session;
mod stream;
mod version;
mod zero_copy;
