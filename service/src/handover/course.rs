//! The course of a handover up to the moment when the socket only waits: each step relies on those before it.
//!
//! ```text
//!   bind, sequence numbers, connect            CLOSE -> ESTABLISHED
//!   what the SYNs agreed on, timestamps        only before there is data
//!   receive queue, windows
//!   round trip                                 one byte before the stream is sent, and acknowledged by an injected segment
//!   sent data, both FINs                       ESTABLISHED -> the image's state
//!   comparison
//! ```
//! The round trip: without it the kernel waits three seconds before it sends lost data again, as it knows none. The byte never leaves:
//! it is acknowledged before the socket leaves repair mode.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use ringway_device::repair::{self, Agreed, Info, Queue, Windows};
use ringway_stack::State;
use ringway_stack::handover::ConnectionImage;
use ringway_stack::wire::tcp::{ACK, FIN, TIMESTAMPS_BYTES};
use rustix::io::Errno;
use rustix::net::{Shutdown, bind, connect, getsockname, shutdown};

use super::inject::{self, Peer, Segment};
use super::plan::{Fin, Plan};
use super::queues::{More, write};
use super::{Before, Family, Injector, Leaving, Refusal, has_ends, settings};

/// Whether a round trip is shown to the kernel, for which the socket must take an injected segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundTrip {
    Shown,
    Unknown,
}

/// See the module's text.
pub(super) struct Course<'a> {
    pub(super) leaving: &'a Leaving<'a>,
    pub(super) plan: &'a Plan,
    pub(super) family: Family,
    pub(super) injector: Option<&'a Injector>,
    pub(super) socket: BorrowedFd<'a>,
    pub(super) before: &'a Before,
}

/// What the SYNs have agreed on.
pub(super) fn agreed(image: &ConnectionImage) -> Agreed {
    let terms = &image.terms;
    let options = if terms.timestamps.is_some() { TIMESTAMPS_BYTES as u16 } else { 0 };
    Agreed {
        mss: terms.mss.saturating_add(options),
        send_scale: terms.send_scale,
        receive_scale: terms.receive_scale,
        sack: terms.sack,
        timestamps: terms.timestamps.is_some(),
    }
}

/// The TSval from which the kernel's clock goes on, which must be even. Zero without timestamps.
pub(super) fn clock(image: &ConnectionImage) -> u32 {
    let now = image.terms.timestamps.map_or(0, |clock| clock.now);
    now.wrapping_add(now & 1)
}

impl Course<'_> {
    pub(super) fn run(&self, round_trip: RoundTrip) -> Result<(), Refusal> {
        let round_trip_ms = self.round_trip_ms().filter(|_| round_trip == RoundTrip::Shown);
        let early = u32::from(round_trip_ms.is_some());
        self.connect(self.plan.send_start.wrapping_sub(early))?;
        self.agree()?;
        self.fill_receive_queue()?;
        if let Some(ms) = round_trip_ms {
            self.show_round_trip(ms)?;
        }
        repair::select(self.socket, Queue::Send)?;
        for piece in self.plan.sent(self.leaving.image) {
            write(self.socket, piece, More::No)?;
        }
        self.bring_fins()?;
        repair::set_windows(self.socket, self.windows())?;
        settings::after(self.socket, self.leaving.options);
        self.compare()
    }

    /// The round trip to show, in the milliseconds of timestamps; `None`: there is none, or no way. A segment without the peer's time would set it wrong.
    fn round_trip_ms(&self) -> Option<u32> {
        let image = self.leaving.image;
        let srtt_us = image.deadlines.srtt_us;
        let is_known = image.terms.timestamps.is_some_and(|clock| clock.recent.is_some());
        (is_known && self.injector.is_some() && srtt_us > 0).then(|| srtt_us.div_ceil(1_000))
    }

    /// Our address and the peer's, as the socket has them.
    pub(super) fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.family.address(self.leaving.image.local), self.family.address(self.leaving.image.remote))
    }

    fn connect(&self, send_start: u32) -> Result<(), Refusal> {
        let (ours, peers) = self.ends();
        let bound = SocketAddr::try_from(getsockname(self.socket)?)?;
        if bound.port() == 0 {
            bind(self.socket, &ours).map_err(|error| match error {
                Errno::ADDRNOTAVAIL | Errno::ADDRINUSE | Errno::INVAL => Refusal::Address,
                Errno::ACCESS => Refusal::LowPort,
                error => error.into(),
            })?;
        } else if bound.port() != ours.port() || !(bound.ip().is_unspecified() || bound.ip() == ours.ip()) {
            return Err(Refusal::Address);
        }
        self.before.restore_reuse(self.socket)?;
        for (queue, start) in [(Queue::Receive, self.plan.receive_start), (Queue::Send, send_start)] {
            repair::select(self.socket, queue)?;
            repair::set_sequence(self.socket, start)?;
        }
        repair::select(self.socket, Queue::None)?;
        settings::before(self.socket, self.family, self.agreed().mss, self.leaving.options);
        connect(self.socket, &peers).map_err(|error| match error {
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Refusal::InUse,
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::INVAL | Errno::ACCESS => Refusal::Route,
            error => error.into(),
        })?;
        // A socket that is bound to no address takes the one that the route prefers.
        if has_ends(self.socket, (ours, peers))? { Ok(()) } else { Err(Refusal::Route) }
    }

    fn agreed(&self) -> Agreed {
        agreed(self.leaving.image)
    }

    fn agree(&self) -> Result<(), Refusal> {
        let terms = &self.leaving.image.terms;
        repair::agree(self.socket, &self.agreed())?;
        if terms.timestamps.is_some() {
            repair::set_timestamp(self.socket, self.clock())?;
        }
        Ok(())
    }

    fn clock(&self) -> u32 {
        clock(self.leaving.image)
    }

    fn fill_receive_queue(&self) -> Result<(), Refusal> {
        let (image, leaving) = (self.leaving.image, self.leaving);
        let window = image.receiving.edge.wrapping_sub(image.receiving.nxt).cast_signed().max(0) as usize;
        let unread = leaving.delivered.len() + image.receiving.unread.len();
        let queued: usize = image.sending.extents.iter().map(|extent| extent.data.len()).sum();
        self.before.buffers.enlarge(self.socket, unread + window, queued + leaving.unqueued.len())?;
        repair::select(self.socket, Queue::Receive)?;
        for piece in [leaving.delivered, &image.receiving.unread] {
            write(self.socket, piece, More::No)?;
        }
        // Segments that are injected must find a window.
        let (wl1, send) = (self.received_up_to(), image.sending.wnd);
        let windows = Windows { wl1, send, send_max: send, receive: window.max(1) as u32, advertised_at: wl1 };
        Ok(repair::set_windows(self.socket, windows)?)
    }

    fn received_up_to(&self) -> u32 {
        self.plan.received_up_to(self.leaving.image)
    }

    fn show_round_trip(&self, ms: u32) -> Result<(), Refusal> {
        repair::select(self.socket, Queue::Send)?;
        write(self.socket, &[0], More::No)?;
        let echo = self.clock().wrapping_sub(ms).max(1);
        self.inject(ACK, self.received_up_to(), self.plan.send_start, echo)?;
        self.wait_for(|info| info.unacknowledged == 0)
    }

    /// Our FIN goes into the send queue, the peer's comes as a segment, in the order in which they have been.
    fn bring_fins(&self) -> Result<(), Refusal> {
        let is_first = self.plan.state != State::LastAck;
        if self.plan.peer_fin && !is_first {
            self.bring_peers_fin()?;
        }
        if matches!(self.plan.fin, Fin::Sent | Fin::Acknowledged) {
            // In repair mode, with this queue selected, it counts as sent (net/ipv4/tcp_output.c, tcp_write_xmit).
            repair::select(self.socket, Queue::Send)?;
            shutdown(self.socket, Shutdown::Write)?;
        }
        if self.plan.peer_fin && is_first {
            self.bring_peers_fin()?;
        }
        if self.plan.fin == Fin::Acknowledged {
            self.inject(ACK, self.received_up_to(), self.leaving.image.sending.una, self.clock())?;
            self.wait_for(|info| info.state == State::FinWait2.linux())?;
        }
        Ok(())
    }

    fn bring_peers_fin(&self) -> Result<(), Refusal> {
        self.inject(FIN | ACK, self.received_up_to(), self.leaving.image.sending.una, self.clock())?;
        self.wait_for(|info| [State::CloseWait, State::Closing, State::LastAck].iter().any(|state| state.linux() == info.state))
    }

    /// Shows the kernel a segment of the peer's, which echoes our timestamp `echo`.
    fn inject(&self, flags: u8, sequence: u32, acknowledgment: u32, echo: u32) -> Result<(), Refusal> {
        let injector = self.injector.ok_or(Refusal::Injection)?;
        Peer { image: self.leaving.image, injector }.show(Segment { flags, sequence, acknowledgment, echo }, &[])
    }

    fn wait_for(&self, reached: impl Fn(&Info) -> bool) -> Result<(), Refusal> {
        inject::wait_for(|| Ok(reached(&repair::info(self.socket)?)))
    }

    fn windows(&self) -> Windows {
        let (sending, receiving) = (&self.leaving.image.sending, &self.leaving.image.receiving);
        Windows {
            wl1: sending.wl1,
            send: sending.wnd,
            send_max: sending.max_window,
            receive: receiving.edge.wrapping_sub(receiving.nxt).cast_signed().max(0).cast_unsigned(),
            advertised_at: receiving.nxt,
        }
    }

    /// Holds the socket against the image.
    fn compare(&self) -> Result<(), Refusal> {
        let image = self.leaving.image;
        for (queue, end) in [(Queue::Receive, image.receiving.nxt), (Queue::Send, image.sending.nxt)] {
            repair::select(self.socket, queue)?;
            if repair::sequence(self.socket)? != end {
                return Err(Refusal::NotTaken);
            }
        }
        repair::select(self.socket, Queue::None)?;
        let info = repair::info(self.socket)?;
        // The link may allow less than the peer.
        let agreed = Agreed { mss: info.agreed.mss, ..self.agreed() };
        let is_taken = info.state == self.plan.state.linux()
            && info.agreed == agreed
            && info.agreed.mss <= image.terms.mss
            && repair::windows(self.socket)? == self.windows()
            && has_ends(self.socket, self.ends())?;
        if is_taken { Ok(()) } else { Err(Refusal::NotTaken) }
    }
}
