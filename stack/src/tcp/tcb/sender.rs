//! The send sequence space: what the peer has acknowledged, what it accepts, and what was sent.
//!
//! Read RFC 9293 §3.3.1 first. Its two parts lie in two cache lines: received segments need the first, transmissions both.
//!
//! ```text
//!      SND.UNA            SND.NXT         SND.UNA + SND.WND
//! --------|------------------|-------------------|------->
//!         | in flight        | may be sent       |
//! ```

use super::{Tcb, flag};
use crate::wire::sequence::SeqNum;

/// The peer's answers.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct SendWindow {
    /// SND.UNA
    una: SeqNum,
    /// SND.WND, bytes.
    wnd: u32,
    /// SND.WL1
    wl1: SeqNum,
}

/// See the module's text.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Sender {
    /// SND.NXT
    nxt: SeqNum,
    /// One past the last segment that was sent smaller than the MSS (Minshall's Nagle).
    sml: SeqNum,
}

/// The values of a send sequence space that comes from another stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendSpace {
    pub(crate) una: SeqNum,
    pub(crate) nxt: SeqNum,
    /// Of the first queued byte.
    pub(crate) start: SeqNum,
    pub(crate) wnd: u32,
    pub(crate) wl1: SeqNum,
    pub(crate) sml: SeqNum,
    pub(crate) max_window: u32,
    pub(crate) bytes_acked: u64,
}

impl Tcb {
    /// SND.UNA
    #[inline(always)]
    pub(crate) fn snd_una(&self) -> SeqNum {
        self.send_window.una
    }

    /// SND.WND, bytes.
    #[inline(always)]
    pub(crate) fn snd_wnd(&self) -> u32 {
        self.send_window.wnd
    }

    /// SND.WL1
    #[inline(always)]
    pub(crate) fn snd_wl1(&self) -> SeqNum {
        self.send_window.wl1
    }

    /// Max(SND.WND) of RFC 9293 §3.8.6.2.1.
    #[inline(always)]
    pub(crate) fn max_window(&self) -> u32 {
        self.max_window
    }

    /// SND.NXT
    #[inline(always)]
    pub(crate) fn snd_nxt(&self) -> SeqNum {
        self.sender.nxt
    }

    /// One past the last segment that was sent smaller than the MSS.
    #[inline(always)]
    pub(crate) fn snd_sml(&self) -> SeqNum {
        self.sender.sml
    }

    /// Payload bytes that the peer has acknowledged.
    #[inline(always)]
    pub(crate) fn bytes_acked(&self) -> u64 {
        self.bytes_acked
    }

    /// Bytes sent and not acknowledged (a SYN and a FIN count one each).
    #[inline(always)]
    pub(crate) fn flight(&self) -> u32 {
        self.sender.nxt - self.send_window.una
    }

    /// SND.UNA = ISS, SND.NXT = ISS + 1; data begins behind the SYN. For Nagle the SYN is no small segment. RFC 6582 §3.2:
    /// `recover` is ISS.
    pub(crate) fn begin_sending(&mut self, iss: SeqNum) {
        self.send_window = SendWindow { una: iss, ..SendWindow::default() };
        self.sender = Sender { nxt: iss + 1, sml: iss };
        self.send_queue.begin(iss + 1);
        self.recover = iss;
    }

    /// Goes on with a sequence space of another stack, in a block that nothing predicts yet. The send queue begins at `start`.
    pub(crate) fn resume_sending(&mut self, space: &SendSpace) {
        self.prediction.close();
        self.send_window = SendWindow { una: space.una, wnd: space.wnd, wl1: space.wl1 };
        self.sender = Sender { nxt: space.nxt, sml: space.sml };
        self.send_queue.begin(space.start);
        self.max_window = space.max_window;
        self.bytes_acked = space.bytes_acked;
    }

    /// Moves SND.UNA to `ack`, for `data_acked` bytes of payload.
    #[inline(always)]
    pub(crate) fn advance_una(&mut self, ack: SeqNum, data_acked: u32) {
        self.send_window.una = ack;
        self.bytes_acked += u64::from(data_acked);
        self.sender.sml = self.sender.sml.latest(ack);
    }

    /// Moves SND.NXT to `end`, behind new data that was sent. `partial`: the end of a last segment that is not full.
    #[inline(always)]
    pub(crate) fn advance_next(&mut self, end: SeqNum, partial: Option<SeqNum>) {
        self.sender.nxt = end;
        self.clear(flag::PROBE);
        if let Some(partial) = partial {
            self.sender.sml = partial;
        }
    }

    /// RFC 7413 §4.2.2: moves SND.NXT back to `nxt`; the data behind it, sent with a SYN, counts as never sent.
    pub(crate) fn retract_next(&mut self, nxt: SeqNum) {
        self.sender.nxt = nxt;
    }

    /// Takes the window of the segment at `sequence`. Returns true when it has changed.
    #[inline(always)]
    pub(crate) fn take_window(&mut self, sequence: SeqNum, window: u32) -> bool {
        self.send_window.wl1 = sequence;
        let is_new = window != self.send_window.wnd;
        if is_new {
            self.send_window.wnd = window;
            self.max_window = self.max_window.max(window);
        }
        is_new
    }
}
