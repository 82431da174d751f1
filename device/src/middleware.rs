//! Devices around another device.
//!
//! A middleware says what it does differently; everything else is the inner device's. Promises: `receive_to` calls the
//! middleware's own `receive`, so that no packet passes it unseen.

use std::io;
use std::os::fd::BorrowedFd;

use ringway_shm::{Burst, Duration, Instant};

use crate::{Capabilities, Counters, Device};

/// A device around another. Each method is that of [`Device`] with the same name; without one, the inner device's stands.
/// Implement it by its path, without `use`: then calls of the methods mean those of [`Device`].
///
/// ```
/// use ringway_device::{Counters, Device};
///
/// /// Counts nothing.
/// struct Quiet(Box<dyn Device>);
///
/// impl ringway_device::Middleware for Quiet {
///     fn inner(&self) -> &dyn Device {
///         &*self.0
///     }
///     fn inner_mut(&mut self) -> &mut dyn Device {
///         &mut *self.0
///     }
///     fn counters(&self) -> Counters {
///         Counters::default()
///     }
/// }
///
/// fn quiet(device: Box<dyn Device>) -> Box<dyn Device> {
///     Box::new(Quiet(device))
/// }
/// ```
#[expect(missing_docs, reason = "the methods are those of `Device`")]
pub trait Middleware {
    /// The inner device.
    fn inner(&self) -> &dyn Device;

    /// The inner device.
    fn inner_mut(&mut self) -> &mut dyn Device;

    fn capabilities(&self) -> Capabilities {
        self.inner().capabilities()
    }

    /// # Errors
    /// The inner device's.
    fn receive(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        self.inner_mut().receive(now, burst)
    }

    /// # Errors
    /// The inner device's.
    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        self.inner_mut().transmit(now, burst)
    }

    fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        self.inner().wait_fds(fds);
    }

    fn arm(&mut self) -> bool {
        self.inner_mut().arm()
    }

    fn expect(&mut self, connections: usize) {
        self.inner_mut().expect(connections);
    }

    fn first_arrival(&self) -> Option<Duration> {
        self.inner().first_arrival()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner().poll_timeout()
    }

    fn counters(&self) -> Counters {
        self.inner().counters()
    }

    fn advice(&self) -> Option<String> {
        self.inner().advice()
    }
}

impl<M: Middleware> Device for M {
    fn capabilities(&self) -> Capabilities {
        Middleware::capabilities(self)
    }
    fn receive(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        Middleware::receive(self, now, burst)
    }
    fn transmit(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        Middleware::transmit(self, now, burst)
    }
    fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        Middleware::wait_fds(self, fds);
    }
    fn arm(&mut self) -> bool {
        Middleware::arm(self)
    }
    fn expect(&mut self, connections: usize) {
        Middleware::expect(self, connections);
    }
    fn first_arrival(&self) -> Option<Duration> {
        Middleware::first_arrival(self)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        Middleware::poll_timeout(self)
    }
    fn counters(&self) -> Counters {
        Middleware::counters(self)
    }
    fn advice(&self) -> Option<String> {
        Middleware::advice(self)
    }
}

#[cfg(test)]
mod tests;
