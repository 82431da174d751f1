//! Timers of the application, on the worker's clock.
//!
//! Promises: a timer fires in the first iteration at or after its time, in order of time. A periodic one fires once
//! however many periods have passed, and keeps its beat. Starting and stopping take logarithmic time.

use std::collections::{BTreeSet, VecDeque};

use ringway_shm::{Duration, Instant};

/// Names a timer until it has fired (if periodic, for ever) or was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerId {
    index: u32,
    generation: u32,
}

#[derive(Debug, Default)]
struct Timer {
    generation: u32,
    token: u64,
    /// Time at which it fires; `None`: the place is free.
    due: Option<Instant>,
    period: Option<Duration>,
}

/// All timers of one worker.
#[derive(Debug, Default)]
pub struct Timers {
    timers: Vec<Timer>,
    free: Vec<u32>,
    queue: BTreeSet<(Instant, u32)>,
    /// Tokens of fired timers that were not reported yet.
    fired: VecDeque<u64>,
}

impl Timers {
    /// Starts a timer that fires at `due`, and then every `period`.
    pub fn start(&mut self, due: Instant, period: Option<Duration>, token: u64) -> TimerId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.timers.push(Timer::default());
            self.timers.len() as u32 - 1
        });
        let timer = &mut self.timers[index as usize];
        (timer.token, timer.due, timer.period) = (token, Some(due), period.filter(|period| *period > Duration::ZERO));
        self.queue.insert((due, index));
        TimerId { index, generation: timer.generation }
    }

    /// Stops a timer; returns false if it has fired already, or was stopped before.
    pub fn stop(&mut self, id: TimerId) -> bool {
        let Some(timer) = self.timers.get(id.index as usize).filter(|timer| timer.generation == id.generation) else {
            return false;
        };
        let Some(due) = timer.due else { return false };
        self.queue.remove(&(due, id.index));
        self.forget(id.index);
        true
    }

    fn forget(&mut self, index: u32) {
        let timer = &mut self.timers[index as usize];
        timer.due = None;
        timer.generation = timer.generation.wrapping_add(1);
        self.free.push(index);
    }

    /// Fires the timers that are due; returns true if there were any.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(&(due, index)) = self.queue.first().filter(|(due, _)| *due <= now) {
            any = true;
            self.queue.pop_first();
            let timer = &mut self.timers[index as usize];
            self.fired.push_back(timer.token);
            match timer.period {
                Some(period) => {
                    let missed = now.since(due).as_nanos() / period.as_nanos();
                    let next = due + Duration::from_nanos(period.as_nanos() * (missed + 1));
                    timer.due = Some(next);
                    self.queue.insert((next, index));
                }
                None => self.forget(index),
            }
        }
        any
    }

    /// Time of the next timer.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.queue.first().map(|(due, _)| *due)
    }

    /// Takes the token of the next fired timer.
    #[inline]
    pub fn next_fired(&mut self) -> Option<u64> {
        self.fired.pop_front()
    }

    /// Returns true if a fired timer was not reported yet.
    #[inline]
    pub(crate) fn has_fired(&self) -> bool {
        !self.fired.is_empty()
    }
}
