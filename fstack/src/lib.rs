//! `libfstack.so`: the interface of F-Stack, with the additions of Z-stack, for programs that were written for them. The headers in `include/`
//! document it, docs/fstack.md what differs.
//!
//! ```text
//!   program --ff_read(fd)--> read(2) --> libringway_preload.so, under `ringway run`
//!           --ff_kevent--> epoll_wait(2), and the filters of `kqueue/filters.rs`
//!           --ff_run--> its loop again and again; sleeps where nothing happens
//! ```
//! A descriptor of F-Stack's is one of the process: so options, fallbacks and handover are those of any program. Does not do: packets and
//! interfaces; those are the service's.
//!
//! # Safety
//! Every function requires: a pointer is null only where the call of libc or the header allows it, and points to as much memory as the
//! length beside it says.
#![allow(clippy::missing_safety_doc, reason = "said once above")]
#![allow(unreachable_pub, reason = "C calls these functions; Rust cannot see that")]
#![allow(missing_docs, reason = "the headers document every function")]

mod buffers;
mod bytes;
mod config;
mod kqueue;
mod log;
mod micro;
mod network;
mod run;
mod sockets;
mod sysctl;
mod waiting;
