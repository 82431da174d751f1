//! `libmtcp.so`: the interface of mTCP, for programs that were written for it. `include/mtcp_api.h` and `include/mtcp_epoll.h` document it,
//! docs/mtcp.md what differs.
//!
//! ```text
//!   program --mtcp_read(context, id)--> descriptor of the id --read(2)--> libringway_preload.so, under `ringway run`
//! ```
//! Each call finds the descriptor and makes the call of libc, which is Ringway's or the kernel's as for any program: so epoll, options,
//! fallbacks and handover are the same. Does not do: packets; those are the service's.
//!
//! # Safety
//! Every function requires: a context was returned by this library and is not destroyed; a pointer is null only where the call of libc
//! allows it, and points to as much memory as the length beside it says.
#![allow(clippy::missing_safety_doc, reason = "said once above")]
#![allow(unreachable_pub, reason = "C calls these functions; Rust cannot see that")]
#![allow(missing_docs, reason = "the headers document every function")]
#![allow(non_snake_case, reason = "some names of mTCP's are so")]

mod bytes;
mod config;
mod context;
mod epoll;
mod machine;
mod sockets;
mod source;
