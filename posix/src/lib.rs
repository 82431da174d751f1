//! Implementation of libc's socket calls for sockets in the Ringway stack.
//!
//! This crate knows a [`channel::Channel`] (the worker's end of shared memory) and a [`fallback::Kernel`] (the real
//! libc) as traits, so that it also runs against mocks and in the simulator. It promises Linux's behaviour for TCP and
//! UDP sockets over IPv4 and IPv6: numbers, flags, errors, blocking, duplication, inheritance. A deciding function
//! returns `None` for what is the kernel's; the caller then makes the real call.
//!
//! Reading order: `fd_table` (is it ours?), `descriptions` (one per socket and process), `attachment` (getting a
//! channel), `socket` and `accept` (opening), `stream` (bytes), `blocking` (one wait), `readiness` (what poll returns),
//! `options`, `dup`, `fork_exec`.
#![forbid(unsafe_code)]

mod accept;
mod address;
mod apart;
mod attachment;
mod blocking;
pub mod channel;
pub mod client;
mod connect;
mod copies;
mod datagram;
mod datagram_options;
mod descriptions;
mod dup;
mod epoll;
pub mod errno;
pub mod fallback;
mod fcntl_ioctl;
pub mod fd_table;
mod first_use;
mod fork_exec;
mod fork_gate;
mod interest;
mod message;
mod moved;
mod options;
mod passing;
mod poll_select;
mod readiness;
mod reasons;
mod reattach;
mod rings;
mod sendfile;
mod socket;
mod spares;
mod stream;
mod strict;
mod tcp_info;
mod yield_policy;

#[cfg(test)]
mod mock;

pub use attachment::Settings;
pub use blocking::Waiter;
pub use datagram::{Arrival, Outgoing};
pub use errno::{Answer, Errno};
pub use fcntl_ioctl::Control;
pub use first_use::FirstUse;
pub use fork_exec::Departure;
pub use fork_gate::Inside;
pub use message::ancillary_descriptors;
pub use passing::Passage;
pub use poll_select::SelectSets;
pub use reasons::Fallback;
pub use stream::{Receive, Send};

use attachment::Attachment;
use blocking::WaitPool;
use channel::Attach;
use copies::Copies;
use datagram::routes::Routes;
use descriptions::Descriptions;
use epoll::Epolls;
use fallback::Kernel;
use fd_table::FdTable;
use fork_gate::ForkGate;
use moved::Leaving;
use options::marks::Marks;
use passing::Flights;
use reattach::Away;
use rings::Rings;
use spares::Spares;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use yield_policy::YieldPolicy;

/// All state of the crate for one process.
pub struct Posix {
    kernel: Box<dyn Kernel>,
    table: FdTable,
    fork_gate: ForkGate,
    descriptions: Descriptions,
    attachment: Attachment,
    waits: WaitPool,
    yield_policy: YieldPolicy,
    writers_yield_policy: YieldPolicy,
    /// The wait context of the epoll instance that was checked last, + 1; 0: none.
    waited_for: AtomicU32,
    epolls: Epolls,
    settings: Settings,
    /// Options of `options::KNOWN` that this process (or its parents by fork) has ever set on a kernel socket.
    options_set: AtomicU64,
    /// Kernel sockets with options for which they must stay the kernel's.
    marks: Marks,
    /// Recent answers about datagram destinations: the stack's, or the kernel's.
    routes: Routes,
    /// The process that owns this memory; a child of `vfork` has another number and must leave the tables alone.
    process: AtomicU32,
    /// The child of `vfork` for which a socket was named before the child moved the descriptor; `before_exec` asks.
    named_for: AtomicU32,
    /// Numbers that may become a socket's later.
    copies: Copies,
    /// Sent descriptors.
    flights: Flights,
    /// Kernel sockets for future connections.
    spares: Spares,
    /// Sockets that leave the stack.
    leaving: Leaving,
    /// Listeners that may come back to a later service.
    away: Away,
    /// The program's sockets in rings.
    rings: Rings,
    /// A parked fresh kernel TCP socket, for its defaults; -1 until it is needed.
    sample: AtomicI32,
}

impl Posix {
    /// Creates the state; it attaches through `attach` when the first socket needs it.
    pub fn new(kernel: Box<dyn Kernel>, attach: Box<dyn Attach>, settings: Settings) -> Posix {
        let process = kernel.process_id();
        Posix {
            kernel,
            table: FdTable::new(),
            fork_gate: ForkGate::default(),
            descriptions: Descriptions::new(),
            attachment: Attachment::new(attach),
            waits: WaitPool::new(),
            yield_policy: YieldPolicy::default(),
            writers_yield_policy: YieldPolicy::default(),
            waited_for: AtomicU32::new(0),
            epolls: Epolls::new(),
            settings,
            options_set: AtomicU64::new(0),
            marks: Marks::default(),
            routes: Routes::default(),
            process: AtomicU32::new(process),
            named_for: AtomicU32::new(0),
            copies: Copies::new(),
            flights: Flights::new(),
            spares: Spares::new(),
            leaving: Leaving::new(),
            away: Away::new(),
            rings: Rings::default(),
            sample: AtomicI32::new(-1),
        }
    }

    /// The descriptor table.
    #[inline]
    pub fn table(&self) -> &FdTable {
        &self.table
    }

    /// Returns true in a child of `vfork`, which has borrowed the parent's memory.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.kernel.process_id() != self.process.load(Ordering::Relaxed)
    }

    /// Returns true if the caller has other descriptors than the table's (a child of `vfork`, an unshared thread).
    pub(crate) fn is_outside_table(&self) -> bool {
        apart::is_apart() || self.is_borrowed()
    }

    /// The kernel interface.
    pub fn kernel(&self) -> &dyn Kernel {
        &*self.kernel
    }
}
