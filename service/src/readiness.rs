//! Devices that are made when the first program attaches: what makes a packet ring waits for the kernel's RCU grace periods,
//! tens of milliseconds at its making and again at its end, which a program without sockets of ours need not pay.
//!
//! ```text
//!   broker: pass() -- the first one rings --> thread "ringway-netlink": opens, tells the workers what it knows, answers
//!           <----------------- waits --------'
//! ```
//! Promises: a requester that has passed finds devices, addresses and routes in place; a failure is every requester's
//! answer. Does not do: open
//! anything; see `interfaces`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rustix::event::{EventfdFlags, eventfd};

/// When a service opens its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Before any program can attach; a failure is the start's.
    AtStart,
    /// When the first program attaches, where the devices need not exist before; a failure is that program's refusal.
    AtFirstProgram,
}

type Answer = Option<Result<(), String>>;

/// See the module's text.
pub(crate) struct Readiness {
    asked: OwnedFd,
    /// `None`: not opened yet.
    answer: Mutex<Answer>,
    answered: Condvar,
}

impl Readiness {
    /// Waits for [`answer`](Readiness::answer) or, `is_open`, lets every caller through.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(is_open: bool) -> io::Result<Arc<Readiness>> {
        let asked = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Readiness { asked, answer: Mutex::new(is_open.then_some(Ok(()))), answered: Condvar::new() }))
    }

    /// Asks for the devices.
    ///
    /// # Errors
    /// Why there are none.
    ///
    /// # Blocking
    /// Until they are open, the first time.
    pub(crate) fn pass(&self) -> Result<(), String> {
        let mut answer = self.lock();
        if answer.is_none() {
            rustix::io::write(&self.asked, &1u64.to_ne_bytes()).map_err(|error| error.to_string())?;
        }
        loop {
            if let Some(result) = &*answer {
                return result.clone();
            }
            answer = self.answered.wait(answer).expect("nobody panics while holding it");
        }
    }

    /// Becomes readable on the first request; never again once that is answered.
    pub(crate) fn asked(&self) -> BorrowedFd<'_> {
        self.asked.as_fd()
    }

    /// Answers those that have asked and those that will; only the first answer counts.
    pub(crate) fn answer(&self, result: Result<(), String>) {
        self.lock().get_or_insert(result);
        self.answered.notify_all();
        let mut count = [0; 8];
        // Empty: no request.
        rustix::io::read(&self.asked, &mut count).ok();
    }

    fn lock(&self) -> MutexGuard<'_, Answer> {
        self.answer.lock().expect("nobody panics while holding it")
    }
}
