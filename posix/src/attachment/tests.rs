//! The one attach of a process, met by a fork and by a signal handler.

use super::*;
use crate::channel::NotAttached;
use crate::mock::TestKernel;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread;

/// There is no service. The first attempt says so when the test lets it.
struct Slow {
    attempts: AtomicU32,
    begun: Mutex<Sender<()>>,
    end: Mutex<Receiver<()>>,
}

impl Attach for Arc<Slow> {
    fn attach(&self, _floor: Fd, _earlier: u32) -> Result<Box<dyn Channel>, NotAttached> {
        if self.attempts.fetch_add(1, Ordering::SeqCst) == 0 {
            self.begun.lock().expect("one sender").send(()).expect("the test listens");
            self.end.lock().expect("one receiver").recv().expect("the test sends");
        }
        Err("there is none".into())
    }

    fn service(&self) -> String {
        "test".into()
    }
}

fn posix(attach: Box<dyn Attach>) -> Posix {
    Posix::new(Box::new(TestKernel::default()), attach, Settings { quiet: true, ..Settings::default() })
}

#[test]
fn a_child_does_not_wait_for_an_attach_of_its_parents_other_threads() {
    let ((begun, has_begun), (let_end, end)) = (channel(), channel());
    let slow = Arc::new(Slow { attempts: AtomicU32::new(0), begun: Mutex::new(begun), end: Mutex::new(end) });
    let posix = posix(Box::new(slow.clone()));
    thread::scope(|scope| {
        scope.spawn(|| posix.attach_early());
        has_begun.recv().expect("the thread attaches");
        // As in a child: that thread will never end what it has begun.
        posix.after_fork_in_child();
        assert!(!posix.attach_early());
        assert_eq!(slow.attempts.load(Ordering::SeqCst), 2, "the child tries by itself");
        let_end.send(()).expect("the thread waits");
    });
    assert!(!posix.attach_early());
    assert_eq!(slow.attempts.load(Ordering::SeqCst), 2, "one outcome stays");
}

/// A signal handler that runs during the attach, and opens a socket.
struct Interrupted(Arc<Mutex<Weak<Posix>>>, Arc<AtomicBool>);

impl Attach for Interrupted {
    fn attach(&self, _floor: Fd, _earlier: u32) -> Result<Box<dyn Channel>, NotAttached> {
        let posix = self.0.lock().expect("no panic").upgrade().expect("it attaches");
        let is_kernels = matches!(posix.channel(), Ok(None));
        self.1.store(is_kernels, Ordering::SeqCst);
        Err("there is none".into())
    }

    fn service(&self) -> String {
        "test".into()
    }
}

#[test]
fn a_socket_of_a_signal_handler_that_interrupts_the_attach_is_the_kernels() {
    let (itself, is_kernels) = (Arc::new(Mutex::new(Weak::new())), Arc::new(AtomicBool::new(false)));
    let posix = Arc::new(posix(Box::new(Interrupted(itself.clone(), is_kernels.clone()))));
    *itself.lock().expect("no panic") = Arc::downgrade(&posix);
    assert!(!posix.attach_early());
    assert!(is_kernels.load(Ordering::SeqCst));
}
