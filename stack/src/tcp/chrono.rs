//! Time a connection spends sending, and the reasons it waits: the times of `TCP_INFO`, which Linux calls chronographs.
//!
//! A connection is busy while it has data that is not acknowledged. Part of that time the peer's window may limit it, or its
//! own send buffer: everything in it is in flight, and the application waits for space. The state at one update counts until
//! the next; updates happen when data is sent and when everything is acknowledged. Milliseconds.

use super::connection::Connection;
use super::tcb::Tcb;

/// Activity of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Activity {
    Nothing = 0,
    Sending = 1,
    /// The peer's window lets nothing out.
    WaitingForWindow = 2,
    /// All that the buffer holds is sent, and the application waits to write more.
    WaitingForWriter = 3,
}

/// The application waits for buffer space.
const WRITER_WAITS: u32 = 4;
const ACTIVITY: u32 = 3;
const TICK_SHIFT: u32 = 3;

/// See the module's text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chrono {
    /// Busy milliseconds, without the running period.
    busy_ms: u32,
    /// Tick (modulo 2^29) of the last update, [`WRITER_WAITS`], and the activity since then.
    looked: u32,
}

/// A period in which something limited a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limited {
    /// True: by the peer's window; false: by our send buffer.
    by_window: bool,
    span_ms: u32,
}

/// Times at an instant, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) busy_ms: u32,
    pub(crate) window_limited_ms: u32,
    pub(crate) buffer_limited_ms: u32,
}

impl Chrono {
    /// Notes that the application has written more than fits.
    pub(crate) fn writer_waits(&mut self) {
        self.looked |= WRITER_WAITS;
    }

    /// Notes that the application is told of free space. Returns true when it has waited for that.
    pub(crate) fn writer_goes_on(&mut self) -> bool {
        let waited = self.looked & WRITER_WAITS != 0;
        self.looked &= !WRITER_WAITS;
        waited
    }

    /// Everything is acknowledged. Returns the same as [`turn`](Chrono::turn).
    #[inline(always)]
    pub(crate) fn stop(&mut self, tick: u32) -> Option<Limited> {
        self.turn(Activity::Nothing, tick)
    }

    /// All that is queued has just been sent. Returns the same as [`turn`](Chrono::turn).
    #[inline(always)]
    pub(crate) fn all_sent(&mut self, tick: u32) -> Option<Limited> {
        let waits = self.looked & WRITER_WAITS != 0;
        self.turn(if waits { Activity::WaitingForWriter } else { Activity::Sending }, tick)
    }

    /// Starts a period of `doing`. Returns the limit of the period that ends, if it had one.
    #[inline(always)]
    fn turn(&mut self, activity: Activity, tick: u32) -> Option<Limited> {
        let before = self.looked & ACTIVITY;
        if before == activity as u32 {
            return None;
        }
        let span_ms = self.span(tick);
        self.looked = tick << TICK_SHIFT | self.looked & WRITER_WAITS | activity as u32;
        if before == Activity::Nothing as u32 {
            return None;
        }
        self.busy_ms = self.busy_ms.wrapping_add(span_ms);
        let by_window = before == Activity::WaitingForWindow as u32;
        (before != Activity::Sending as u32 && span_ms > 0).then_some(Limited { by_window, span_ms })
    }

    /// Length of the running period.
    #[inline]
    fn span(self, tick: u32) -> u32 {
        (tick << TICK_SHIFT).wrapping_sub(self.looked & !(ACTIVITY | WRITER_WAITS)) >> TICK_SHIFT
    }
}

impl Connection<'_, '_> {
    /// Updates the activity after data may have been sent or freed.
    #[inline]
    pub(crate) fn look_at_clock(&mut self) {
        let tcb = &*self.tcb;
        let next = tcb.unsent().min(tcb.mss() as u32);
        let flight = tcb.flight();
        let waits = self.shared.conn_stats.of(self.tcb).is_some_and(|stats| stats.clock.looked & WRITER_WAITS != 0);
        let activity = match () {
            () if flight + next == 0 => Activity::Nothing,
            () if next > 0 && flight + next > tcb.snd_wnd() => Activity::WaitingForWindow,
            () if next == 0 && waits => Activity::WaitingForWriter,
            () => Activity::Sending,
        };
        self.set_activity(activity);
    }

    /// Everything is acknowledged.
    #[inline(always)]
    pub(crate) fn stop_clock(&mut self) {
        let tick = self.tick();
        if let Some(stats) = self.shared.conn_stats.of_mut(self.tcb)
            && let Some(limited) = stats.clock.stop(tick)
        {
            self.reborrow().count_limited(limited);
        }
    }

    fn set_activity(&mut self, activity: Activity) {
        if activity == Activity::Nothing {
            return self.stop_clock();
        }
        let tick = self.tick();
        if let Some(limited) = self.stats().clock.turn(activity, tick) {
            self.count_limited(limited);
        }
    }

    /// Adds a limited period to its total.
    #[cold]
    pub(crate) fn count_limited(&mut self, limited: Limited) {
        let rare = self.rare();
        let total_ms = if limited.by_window { &mut rare.window_limited_ms } else { &mut rare.buffer_limited_ms };
        *total_ms = total_ms.wrapping_add(limited.span_ms);
    }
}

impl super::conn_stats::ConnStatsTable {
    /// Times of a connection at `tick`, with the running period.
    pub(crate) fn times(&self, tcb: &Tcb, tick: u32) -> Times {
        let clock = self.of(tcb).map_or(Chrono::default(), |stats| stats.clock);
        let rare = self.rare(tcb);
        let mut times = Times {
            busy_ms: clock.busy_ms,
            window_limited_ms: rare.map_or(0, |rare| rare.window_limited_ms),
            buffer_limited_ms: rare.map_or(0, |rare| rare.buffer_limited_ms),
        };
        let (activity, span) = (clock.looked & ACTIVITY, clock.span(tick));
        if activity != Activity::Nothing as u32 {
            times.busy_ms = times.busy_ms.wrapping_add(span);
        }
        if activity == Activity::WaitingForWindow as u32 {
            times.window_limited_ms = times.window_limited_ms.wrapping_add(span);
        }
        if activity == Activity::WaitingForWriter as u32 {
            times.buffer_limited_ms = times.buffer_limited_ms.wrapping_add(span);
        }
        times
    }
}
