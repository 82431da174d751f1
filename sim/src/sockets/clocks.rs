//! What TCP_INFO says of time: how long a connection was busy, and what it waited for. Linux calls these chronographs.
//!
//! Looked at whenever anything may have changed; what was so at the last look counts until the next.

use ringway_shm::{Duration, Instant};
use ringway_stack::TcpInfo;

/// Times of one socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    looked: Instant,
    doing: Doing,
    pub(super) busy: Duration,
    pub(super) window_limited: Duration,
    pub(super) buffer_limited: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    Sending,
    /// The peer's window lets nothing out.
    WaitingForWindow,
    /// All that the buffer holds is sent, and a program waits to write more.
    WaitingForWriter,
}

impl Clocks {
    pub(super) fn new(now: Instant) -> Clocks {
        let (busy, window_limited, buffer_limited) = Default::default();
        Clocks { looked: now, doing: Doing::Nothing, busy, window_limited, buffer_limited }
    }

    /// Time has come to `now`. `blocked`: a program waits for room in the buffer.
    pub(super) fn look(&mut self, now: Instant, info: &TcpInfo, blocked: bool) {
        self.pass(now);
        let queued = info.unsent_bytes + info.unacked_bytes;
        let next = info.unsent_bytes.min(info.send_mss);
        self.doing = match () {
            () if queued == 0 => Doing::Nothing,
            () if next > 0 && info.unacked_bytes + next > info.send_window => Doing::WaitingForWindow,
            () if next == 0 && blocked => Doing::WaitingForWriter,
            () => Doing::Sending,
        };
    }

    /// The clocks as they stand at `now`.
    pub(super) fn at(mut self, now: Instant) -> Clocks {
        self.pass(now);
        self
    }

    fn pass(&mut self, now: Instant) {
        let span = now.since(self.looked);
        self.looked = now;
        match self.doing {
            Doing::Nothing => return,
            Doing::Sending => {}
            Doing::WaitingForWindow => self.window_limited = self.window_limited + span,
            Doing::WaitingForWriter => self.buffer_limited = self.buffer_limited + span,
        }
        self.busy = self.busy + span;
    }
}
