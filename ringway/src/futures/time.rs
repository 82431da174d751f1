//! Waiting for time, on the worker's clock.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::Runtime;
use crate::TimerId;

/// Sleeping tasks by the token of their timer.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    places: Vec<Place>,
    free: Vec<usize>,
}

#[derive(Debug, Default)]
struct Place {
    /// Number of earlier uses, so that a late timer does not wake another task.
    generation: u32,
    fired: bool,
    waker: Option<Waker>,
}

impl Sleepers {
    fn open(&mut self) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() - 1
        });
        let place = &mut self.places[index];
        (place.fired, place.waker) = (false, None);
        u64::from(place.generation) << 32 | index as u64
    }

    fn place(&mut self, token: u64) -> Option<&mut Place> {
        self.places.get_mut(token as u32 as usize).filter(|place| place.generation == (token >> 32) as u32)
    }

    fn close(&mut self, token: u64) {
        if let Some(place) = self.place(token) {
            place.generation = place.generation.wrapping_add(1);
            self.free.push(token as u32 as usize);
        }
    }

    /// Takes the waker for a timer that has fired.
    pub(super) fn fire(&mut self, token: u64) -> Option<Waker> {
        let place = self.place(token)?;
        place.fired = true;
        place.waker.take()
    }
}

/// A future that ends after a duration. Dropping it stops its timer.
///
/// ```
/// use ringway::futures::Runtime;
/// use std::time::Duration;
///
/// async fn beat(runtime: Runtime) {
///     loop {
///         runtime.sleep(Duration::from_secs(1)).await;
///         println!("a second has passed");
///     }
/// }
/// ```
pub struct Sleep {
    runtime: Runtime,
    duration: Duration,
    /// Its token and its timer, after the first poll.
    started: Option<(u64, TimerId)>,
}

impl Runtime {
    /// Returns a future that ends `duration` after its first poll.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep { runtime: self.clone(), duration, started: None }
    }

    /// Runs `future` for at most `limit`; then drops it.
    pub fn timeout<F: Future>(&self, limit: Duration, future: F) -> Timeout<F> {
        Timeout { future: Box::pin(future), sleep: self.sleep(limit) }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let shared = &this.runtime.shared;
        let (token, _) = *this.started.get_or_insert_with(|| {
            let token = shared.sleepers.borrow_mut().open();
            (token, shared.net.borrow_mut().after(this.duration, token))
        });
        let mut sleepers = shared.sleepers.borrow_mut();
        let place = sleepers.place(token).expect("the place is this future's until it is dropped");
        if place.fired {
            return Poll::Ready(());
        }
        place.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some((token, timer)) = self.started {
            self.runtime.shared.net.borrow_mut().cancel(timer);
            self.runtime.shared.sleepers.borrow_mut().close(token);
        }
    }
}

/// A future with a limit; see [`Runtime::timeout`].
///
/// ```
/// use ringway::futures::{Runtime, TcpStream};
/// use std::time::Duration;
///
/// async fn read(runtime: &Runtime, stream: &TcpStream, buffer: &mut [u8]) -> std::io::Result<usize> {
///     let limited = runtime.timeout(Duration::from_secs(5), stream.read(buffer));
///     Ok(limited.await.map_err(|_| std::io::ErrorKind::TimedOut)??)
/// }
/// ```
pub struct Timeout<F> {
    future: Pin<Box<F>>,
    sleep: Sleep,
}

/// The limit has passed first.
///
/// ```
/// use ringway::futures::Elapsed;
///
/// assert_eq!(Elapsed.to_string(), "the time limit has passed");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time limit has passed")
    }
}

impl std::error::Error for Elapsed {}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut self.sleep).poll(context).map(|()| Err(Elapsed))
    }
}
