//! Congestion control that sets a window and a rate, as a trait: BBR is one such control, a program may bring others.
//!
//! What is measured and what is decided are apart, as in CCP (Narayan et al., SIGCOMM 2018): the stack counts, samples and finds losses; a
//! [`Controller`] answers each report with a window and a pacing rate. Recovery, retransmission and pacing are the stack's: whatever a
//! controller answers, each byte arrives. No packet is ECN-capable. State of a connection stays in its stack: one that moves to another
//! goes on with Reno and the window that it had.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::CWND_MAX;
use crate::config::CongestionControl;
pub use crate::tcp::rate::Sample;

/// State of a connection when something is reported. Volumes are bytes, times microseconds.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Flow {
    /// The time, on the stack's clock.
    pub now_us: u64,
    /// Largest payload of a segment.
    pub mss: u32,
    /// The congestion window. A controller changes it here.
    pub cwnd: u32,
    /// The window with which connections begin (RFC 6928).
    pub initial_cwnd: u32,
    /// Sent and neither acknowledged nor lost.
    pub in_flight: u32,
    /// Smoothed round-trip time (RFC 6298); 0: not measured.
    pub srtt_us: u32,
    /// Delivered since the first data was sent (C.delivered).
    pub delivered: u64,
    /// The window was the limit of what was sent last.
    pub cwnd_limited: bool,
    /// The application was the limit: samples say less than the path can carry.
    pub app_limited: bool,
    /// The peer sends selective acknowledgments.
    pub sack: bool,
    /// In fast recovery or after a timeout.
    pub in_recovery: bool,
    /// See [`hold_back`](Flow::hold_back).
    pub(crate) is_held_back: bool,
}

impl Flow {
    /// The window that does not limit a flow of `rate` bytes per second: twice what it has under way in a round trip.
    pub fn window_at(&self, rate: u64, round_trip_us: u32) -> u32 {
        let under_way = u128::from(rate) * u128::from(round_trip_us) / 1_000_000;
        (2 * under_way).clamp(self.initial_cwnd.into(), CWND_MAX.into()) as u32
    }

    /// Says that the controller itself keeps the connection from sending what it could: samples of what is in flight count as
    /// limited by the application.
    pub fn hold_back(&mut self) {
        self.is_held_back = true;
    }
}

/// A packet that was found lost. Bytes.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Lost {
    /// Its payload (P.size).
    pub len: u32,
    /// In flight when it was sent, itself included (P.tx_in_flight).
    pub in_flight: u32,
    /// Lost since it was sent, itself included (C.lost - P.lost).
    pub lost: u64,
    /// The application was the limit when it was sent (P.is_app_limited).
    pub app_limited: bool,
}

/// How losses were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Episode {
    /// By acknowledgments: fast recovery begins (RFC 6675, RFC 8985).
    Loss,
    /// The retransmission timer has expired (RFC 6298). The stack sets the window to one segment afterwards.
    Timeout,
}

/// A congestion control that sets a window and a rate. Each connection has one of its own, made when its first data is sent.
///
/// The calls are made while the stack works; they must not block. The window is at least one segment, whatever is set.
///
/// ```
/// use ringway_stack::congestion::{Controller, Flow, Sample};
///
/// /// Sends as fast as the path has delivered at best, a tenth faster.
/// #[derive(Debug, Default)]
/// struct Greedy {
///     best: u64,
/// }
///
/// impl Controller for Greedy {
///     fn on_ack(&mut self, flow: &mut Flow, sample: &Sample) {
///         self.best = self.best.max(sample.delivery_rate);
///         let in_a_round_trip = self.best * u64::from(flow.srtt_us) / 1_000_000;
///         flow.cwnd = (2 * in_a_round_trip).max(flow.initial_cwnd.into()).min(1 << 30) as u32;
///     }
///
///     fn pacing_rate(&self) -> u64 {
///         if self.best == 0 { 1_000_000 } else { self.best / 10 * 11 }
///     }
/// }
/// ```
pub trait Controller: fmt::Debug + Send {
    /// An acknowledgment was processed. `sample` says what it has delivered.
    fn on_ack(&mut self, flow: &mut Flow, sample: &Sample);

    /// The rate at which packets leave from now on, bytes per second.
    fn pacing_rate(&self) -> u64;

    /// A packet was found lost.
    fn on_lost(&mut self, _flow: &mut Flow, _packet: &Lost) {}

    /// A loss episode begins. Until it is over, no other begins unless the timer expires.
    fn on_episode(&mut self, _flow: &mut Flow, _episode: Episode) {}

    /// The episode is over: what was in flight when it began has arrived.
    fn on_recovered(&mut self, _flow: &mut Flow) {}

    /// The episode was spurious: nothing was lost (RFC 4015, RFC 5682, D-SACK).
    fn on_undo(&mut self, _flow: &mut Flow) {}

    /// Data is about to be sent and nothing is in flight.
    fn on_idle_restart(&mut self, _flow: &mut Flow) {}
}

/// A congestion control that a program has added to its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnControl(Number);

/// Its number: few enough for a [`CongestionControl`] to be one byte of the control block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    First,
    Second,
    Third,
    Fourth,
    Fifth,
    Sixth,
    Seventh,
    Eighth,
}

impl Number {
    const ALL: [Number; OWN_MAX] = [
        Number::First,
        Number::Second,
        Number::Third,
        Number::Fourth,
        Number::Fifth,
        Number::Sixth,
        Number::Seventh,
        Number::Eighth,
    ];
}

/// Maximum number that a stack has.
const OWN_MAX: usize = 8;

/// Makes a connection's controller.
pub(crate) type Make = Box<dyn Fn(&Flow) -> Box<dyn Controller> + Send>;

/// The congestion controls that a program has added.
#[derive(Default)]
pub(crate) struct OwnControls(Vec<Make>);

impl OwnControls {
    /// Adds one, by which `make` is known from now on.
    ///
    /// # Panics
    /// When there are already eight.
    pub(crate) fn add(&mut self, make: Make) -> CongestionControl {
        let number = *Number::ALL.get(self.0.len()).expect("a stack has at most eight congestion controls of its program's");
        self.0.push(make);
        CongestionControl::Own(OwnControl(number))
    }

    /// A controller for a connection; `None`: the control is another stack's.
    pub(crate) fn make(&self, own: OwnControl, flow: &Flow) -> Option<Box<dyn Controller>> {
        self.0.get(own.0 as usize).map(|make| make(flow))
    }
}

impl fmt::Debug for OwnControls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} congestion controls", self.0.len())
    }
}
