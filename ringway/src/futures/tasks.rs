//! A small executor: tasks of one thread that are polled when they were woken.
//!
//! Promises: a task is polled once for any number of wakes; a wake from another thread ends the sleep of this one; no
//! task is polled twice before every woken task was polled once. Does not do: fairness beyond that.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::Runtime;
use crate::{Net, NetHandle};

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// State that wakers reach from any thread.
struct Woken {
    /// Numbers of tasks to poll.
    queue: Mutex<Vec<usize>>,
    /// The thread is about to sleep, or sleeps.
    asleep: AtomicBool,
    wake_fd: NetHandle,
}

impl Woken {
    fn push(&self, number: usize) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        if self.asleep.load(Ordering::SeqCst) {
            self.wake_fd.wake();
        }
    }

    fn is_empty(&self) -> bool {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// The waker of one task.
struct TaskWaker {
    number: usize,
    /// The task is in the queue.
    queued: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::SeqCst) {
            self.woken.push(self.number);
        }
    }
}

/// Slot of one task.
struct Place {
    /// `None` while the task is polled, and after its end.
    task: Option<Task>,
    waker: Arc<TaskWaker>,
}

/// All tasks of a runtime. Number 0 is that of `block_on`.
pub(super) struct Tasks {
    places: RefCell<Vec<Option<Place>>>,
    free: RefCell<Vec<usize>>,
    /// Scratch: tasks of this round.
    round: RefCell<Vec<usize>>,
    woken: Arc<Woken>,
}

impl Tasks {
    pub(super) fn new(wake_fd: NetHandle) -> Tasks {
        let woken = Arc::new(Woken { queue: Mutex::default(), asleep: AtomicBool::new(false), wake_fd });
        Tasks { places: RefCell::new(vec![None]), free: RefCell::default(), round: RefCell::default(), woken }
    }

    fn waker(&self, number: usize) -> Arc<TaskWaker> {
        Arc::new(TaskWaker { number, queued: AtomicBool::new(true), woken: self.woken.clone() })
    }

    fn spawn(&self, task: Task) {
        let mut places = self.places.borrow_mut();
        let number = self.free.borrow_mut().pop().unwrap_or(places.len());
        if number == places.len() {
            places.push(None);
        }
        places[number] = Some(Place { task: Some(task), waker: self.waker(number) });
        self.woken.push(number);
    }

    /// Polls the tasks that were woken so far; returns whether there were any, and whether that of `block_on` was among
    /// them.
    fn run(&self) -> (bool, bool) {
        let mut round = self.round.take();
        std::mem::swap(&mut round, &mut self.woken.queue.lock().unwrap_or_else(PoisonError::into_inner));
        let (any, main) = (!round.is_empty(), round.contains(&0));
        for number in round.drain(..).filter(|&number| number != 0) {
            self.poll(number);
        }
        *self.round.borrow_mut() = round;
        (any, main)
    }

    fn poll(&self, number: usize) {
        // A waker may outlive its task, and the slot may have another by now: that one gets a spurious poll.
        let taken = self.places.borrow_mut().get_mut(number).and_then(Option::as_mut).and_then(|place| {
            place.waker.queued.store(false, Ordering::SeqCst);
            Some((place.task.take()?, place.waker.clone()))
        });
        let Some((mut task, waker)) = taken else { return };
        let done = task.as_mut().poll(&mut Context::from_waker(&Waker::from(waker))).is_ready();
        let mut places = self.places.borrow_mut();
        if done {
            places[number] = None;
            self.free.borrow_mut().push(number);
        } else if let Some(place) = &mut places[number] {
            place.task = Some(task);
            return;
        }
        // The task's fields may spawn, or borrow the slots, when they are dropped.
        drop(places);
        drop(task);
    }
}

/// The result of a spawned task. Dropping it does not stop the task.
///
/// ```
/// use ringway::NetConfig;
/// use ringway::Net;
/// use ringway::futures::Runtime;
///
/// # fn main() -> std::io::Result<()> {
/// let runtime = Runtime::new(Net::new(NetConfig::default())?);
/// let task = runtime.spawn_local(async { 6 * 7 });
/// assert_eq!(runtime.block_on(task)?, 42);
/// # Ok(()) }
/// ```
pub struct JoinHandle<T> {
    state: Rc<RefCell<Joined<T>>>,
}

/// State that a task and its handle share.
struct Joined<T> {
    output: Option<T>,
    waiting: Option<Waker>,
}

impl<T> JoinHandle<T> {
    /// The result, if the task has ended and the result was not taken yet.
    pub fn take(&self) -> Option<T> {
        self.state.borrow_mut().output.take()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.state.borrow_mut();
        match state.output.take() {
            Some(output) => Poll::Ready(output),
            None => {
                state.waiting = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Runtime {
    /// Starts a task beside the others; it runs while the runtime does.
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let state = Rc::new(RefCell::new(Joined { output: None, waiting: None }));
        let joined = state.clone();
        self.shared.tasks.spawn(Box::pin(async move {
            let output = future.await;
            let mut joined = joined.borrow_mut();
            joined.output = Some(output);
            if let Some(waker) = joined.waiting.take() {
                waker.wake();
            }
        }));
        JoinHandle { state }
    }

    /// Polls the spawned tasks that were woken; for a caller that runs the iterations. Returns true if there were any.
    pub fn run_woken(&self) -> bool {
        self.shared.tasks.run().0
    }

    /// Runs `future` and all spawned tasks until it ends.
    ///
    /// # Errors
    /// The system refused to wait.
    ///
    /// # Panics
    /// Panics if called inside a task of the same runtime.
    ///
    /// # Blocking
    /// Until `future` ends; the thread sleeps while no task is ready.
    pub fn block_on<F: Future>(&self, future: F) -> io::Result<F::Output> {
        let tasks = &self.shared.tasks;
        let waker = tasks.waker(0);
        let mut future = pin!(future);
        let mut due = true;
        loop {
            if due {
                waker.queued.store(false, Ordering::SeqCst);
                if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&Waker::from(waker.clone()))) {
                    self.turn();
                    return Ok(output);
                }
            }
            due = tasks.run().1;
            if due || !tasks.woken.is_empty() {
                self.turn();
            } else {
                self.wait_unless_woken()?;
            }
        }
    }

    /// Like `wait`; a wake from another thread ends it.
    fn wait_unless_woken(&self) -> io::Result<()> {
        let woken = &self.shared.tasks.woken;
        woken.asleep.store(true, Ordering::SeqCst);
        let waited = if woken.is_empty() { self.with(Net::wait) } else { Ok(()) };
        woken.asleep.store(false, Ordering::SeqCst);
        waited?;
        self.dispatch();
        Ok(())
    }

    /// Drops all spawned tasks, and with them their sockets. Tasks hold the runtime that holds them: without this call,
    /// unfinished ones live as long as the program.
    pub fn cancel_all(&self) {
        let places = std::mem::replace(&mut *self.shared.tasks.places.borrow_mut(), vec![None]);
        self.shared.tasks.free.borrow_mut().clear();
        drop(places);
    }
}
