//! How long a connection was busy sending, and what it waited for: the times of `TCP_INFO`, which Linux calls chronographs.
//!
//! Busy is whoever has data that is not acknowledged. Part of that time it may be limited by the peer's window, or by its own
//! send buffer: everything in it is under way, and the application waits for room. What was so at the last look counts
//! until the next; looked at when data was sent and when everything is acknowledged. Milliseconds.

use super::connection::Connection;

/// What a connection does with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Doing {
    Nothing = 0,
    Sending = 1,
    /// The peer's window lets nothing out.
    WaitingForWindow = 2,
    /// All that the buffer holds is sent, and the application waits to write more.
    WaitingForWriter = 3,
}

/// The application was told to wait for room.
const WRITER_WAITS: u32 = 4;
const DOING: u32 = 3;
const TICK_SHIFT: u32 = 3;

/// See the module's text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// Ticks, without the running period.
    busy_ms: u32,
    /// Tick (modulo 2^29) of the last look, [`WRITER_WAITS`], and what was done then.
    looked: u32,
}

/// Times at an instant, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) busy_ms: u32,
    pub(crate) window_limited_ms: u32,
    pub(crate) buffer_limited_ms: u32,
}

impl Clock {
    /// The application has written more than fits.
    pub(crate) fn writer_waits(&mut self) {
        self.looked |= WRITER_WAITS;
    }

    /// It is told that there is room. Returns whether it has waited for that.
    pub(crate) fn writer_goes_on(&mut self) -> bool {
        let waited = self.looked & WRITER_WAITS != 0;
        self.looked &= !WRITER_WAITS;
        waited
    }

    /// How long the running period has lasted.
    #[inline]
    fn span(self, tick: u32) -> u32 {
        (tick << TICK_SHIFT).wrapping_sub(self.looked & !(DOING | WRITER_WAITS)) >> TICK_SHIFT
    }
}

impl Connection<'_, '_> {
    /// Data may have been sent or freed.
    #[inline]
    pub(crate) fn look_at_clock(&mut self) {
        let tcb = &*self.tcb;
        let next = tcb.unsent().min(tcb.mss as u32);
        let flight = tcb.flight();
        let waits = self.shared.tallies.of(self.index).clock.looked & WRITER_WAITS != 0;
        let doing = match () {
            () if flight + next == 0 => Doing::Nothing,
            () if next > 0 && flight + next > tcb.snd_wnd => Doing::WaitingForWindow,
            () if next == 0 && waits => Doing::WaitingForWriter,
            () => Doing::Sending,
        };
        self.turn_clock(doing);
    }

    /// As [`look_at_clock`](Connection::look_at_clock), when all that is queued has just been sent.
    #[inline]
    pub(crate) fn clock_of_all_sent(&mut self) {
        let waits = self.shared.tallies.of(self.index).clock.looked & WRITER_WAITS != 0;
        self.turn_clock(if waits { Doing::WaitingForWriter } else { Doing::Sending });
    }

    /// Everything is acknowledged.
    #[inline]
    pub(crate) fn stop_clock(&mut self) {
        self.turn_clock(Doing::Nothing);
    }

    #[inline(always)]
    fn turn_clock(&mut self, doing: Doing) {
        let tick = self.tick();
        let clock = &mut self.shared.tallies.of_mut(self.index).clock;
        let before = clock.looked & DOING;
        if before == doing as u32 {
            return;
        }
        let span = clock.span(tick);
        clock.looked = tick << TICK_SHIFT | clock.looked & WRITER_WAITS | doing as u32;
        if before == Doing::Nothing as u32 {
            return;
        }
        clock.busy_ms = clock.busy_ms.wrapping_add(span);
        if before != Doing::Sending as u32 && span > 0 {
            self.count_limited(before == Doing::WaitingForWindow as u32, span);
        }
    }

    #[cold]
    fn count_limited(&mut self, by_window: bool, span: u32) {
        let ledger = self.ledger();
        let limited_ms = if by_window { &mut ledger.window_limited_ms } else { &mut ledger.buffer_limited_ms };
        *limited_ms = limited_ms.wrapping_add(span);
    }
}

impl super::tally::Tallies {
    /// The times of a connection at `tick`, with the running period.
    pub(crate) fn times(&self, index: u32, tick: u32) -> Times {
        let clock = self.of(index).clock;
        let ledger = self.ledger(index);
        let mut times = Times {
            busy_ms: clock.busy_ms,
            window_limited_ms: ledger.map_or(0, |ledger| ledger.window_limited_ms),
            buffer_limited_ms: ledger.map_or(0, |ledger| ledger.buffer_limited_ms),
        };
        let (doing, span) = (clock.looked & DOING, clock.span(tick));
        if doing != Doing::Nothing as u32 {
            times.busy_ms = times.busy_ms.wrapping_add(span);
        }
        if doing == Doing::WaitingForWindow as u32 {
            times.window_limited_ms = times.window_limited_ms.wrapping_add(span);
        }
        if doing == Doing::WaitingForWriter as u32 {
            times.buffer_limited_ms = times.buffer_limited_ms.wrapping_add(span);
        }
        times
    }
}
