//! The process in the middle of a path: forwards packets between two TAP interfaces, delayed, in order, with losses.
//!
//! It creates both interfaces; its parent moves them to their namespaces. They have no segmentation or checksum offload, so
//! each packet has at most one MTU and is lost by itself. Promises: release times are absolute, so that a late iteration
//! delays one burst and not those behind it; the process sleeps until the next one. Does not do: less than one system call
//! per packet.

use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, TryRecvError};

use ringway_device::Device;
use ringway_device::impair::{Impair, Impairments};
use ringway_device::tap::Tap;
use ringway_shm::{Arena, ArenaConfig, Burst, Instant};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};

use crate::load::order::{Answer, Order, Passage};
use crate::path::Path;

/// Names of the two interfaces before they are moved.
pub const ENDS: [&str; 2] = ["rwpath0", "rwpath1"];
/// Small frames, to which acknowledgments are copied.
const SMALL_FRAMES: u32 = 65_536;
/// Frames beyond those in flight, ready for the next packets.
const SPARE_FRAMES: usize = 1_024;

/// The wire; see the module's documentation.
pub(super) struct PathWire {
    /// Each end impairs the packets sent to it.
    ends: [Impair; 2],
    bursts: [Burst; 2],
    wake_fd: OwnedFd,
}

impl PathWire {
    /// Creates both interfaces.
    pub(super) fn open(path: &Path, seed: u64) -> io::Result<PathWire> {
        let large = u32::try_from(2 * path.packets_max() + SPARE_FRAMES).expect("a path has a bound");
        let arena = Arena::new(ArenaConfig { large, small: SMALL_FRAMES });
        let open = |number: usize| -> io::Result<Impair> {
            let tap = Box::new(Tap::open_plain(ENDS[number], &arena)?);
            Ok(Impair::new(tap, &arena, seed + number as u64, path.impairments(), Impairments::default()))
        };
        // Without this, a sleep ends up to 50 microseconds late.
        set_current_timer_slack(NonZeroU64::new(1))?;
        let wake_fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(PathWire { ends: [open(0)?, open(1)?], bursts: [Burst::default(), Burst::default()], wake_fd })
    }

    /// The eventfd that wakes the wire for an order.
    pub(super) fn wake_fd(&self) -> io::Result<File> {
        Ok(File::from(self.wake_fd.try_clone()?))
    }

    /// Forwards until the sender of orders is gone.
    pub(super) fn run(&mut self, orders: &Receiver<Order>, answer: &mut dyn FnMut(Answer) -> io::Result<()>) -> io::Result<()> {
        loop {
            match orders.try_recv() {
                Ok(Order::Count) => answer(Answer::Counted(self.passage()))?,
                Ok(other) => return Err(io::Error::other(format!("a wire cannot {other:?}"))),
                Err(TryRecvError::Disconnected) => return Ok(()),
                Err(TryRecvError::Empty) => {}
            }
            let now = now();
            let mut moved = 0;
            for from in [0, 1] {
                let burst = &mut self.bursts[from];
                moved += or_down(self.ends[from].receive(now, burst))?;
                or_down(self.ends[1 - from].transmit(now, burst))?;
            }
            if moved == 0 {
                self.sleep(now)?;
            }
        }
    }

    /// Sleeps until a packet or an order arrives, or a packet is due.
    fn sleep(&mut self, now: Instant) -> io::Result<()> {
        let due = self.ends.iter().filter_map(Device::poll_timeout).min();
        let patience = due.map(|due| {
            let nanos = due.max(now).since(now).as_nanos();
            Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
        });
        let mut fds = vec![self.wake_fd.as_fd()];
        self.ends.iter().for_each(|end| end.wait_fds(&mut fds));
        let mut waits: Vec<PollFd<'_>> = fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut waits, patience.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if waits[0].revents().contains(PollFlags::IN) {
            // The count does not matter; every order is taken.
            rustix::io::read(self.wake_fd.as_fd(), &mut [0; 8]).map(drop).or_else(|error| match error {
                rustix::io::Errno::AGAIN => Ok(()),
                other => Err(other),
            })?;
        }
        Ok(())
    }

    /// Packet counts of both directions.
    fn passage(&self) -> Passage {
        let mut passage = Passage::default();
        for end in &self.ends {
            let (sent, _) = end.damage();
            passage.forwarded += end.counters().tx_packets;
            passage.lost += sent.lost - sent.overflowed;
            passage.overflowed += sent.overflowed;
        }
        passage
    }
}

/// Maps the error of an interface that is not up yet to 0: the packet is lost.
fn or_down(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => Ok(0),
        other => other,
    }
}

/// Writes to the eventfd.
pub(super) fn ring(mut wake_fd: &File) {
    // A full eventfd wakes the wire already.
    wake_fd.write_all(&1_u64.to_ne_bytes()).unwrap_or_default();
}

/// Time of CLOCK_MONOTONIC.
fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
