//! Flags of a connection that decide its next actions; [`Tcb::has`](super::Tcb::has).

/// RFC 7323 timestamps are on.
pub(crate) const TIMESTAMPS: u16 = 1 << 0;
/// RFC 2018 is on.
pub(crate) const SACK: u16 = 1 << 1;
/// An ACK (or in an opening state a SYN) must go out in this pass.
pub(crate) const ACK_NOW: u16 = 1 << 2;
/// Received data has not been acknowledged yet.
pub(crate) const ACK_PENDING: u16 = 1 << 3;
/// Is in the list of control work.
pub(crate) const ON_CONTROL: u16 = 1 << 4;
/// Is in the list of data work.
pub(crate) const ON_DATA: u16 = 1 << 5;
/// TCP_NODELAY
pub(crate) const NO_DELAY: u16 = 1 << 6;
/// TCP_CORK
pub(crate) const CORK: u16 = 1 << 7;
/// TCP_QUICKACK
pub(crate) const QUICK_ACK: u16 = 1 << 8;
/// The application has closed; no one reads.
pub(crate) const ORPHAN: u16 = 1 << 9;
/// A FIN follows the queued data.
pub(crate) const FIN_QUEUED: u16 = 1 << 10;
/// A `Ready` event is pending.
pub(crate) const SIGNALLED: u16 = 1 << 11;
/// The first unacknowledged segment must be retransmitted.
pub(crate) const RETRANSMIT: u16 = 1 << 12;
/// The congestion window stopped the last transmission.
pub(crate) const CWND_LIMITED: u16 = 1 << 13;
/// A probe (zero window or keepalive) must go out.
pub(crate) const PROBE: u16 = 1 << 14;
/// `rto_deadline` is the persist timer's.
pub(crate) const PERSIST: u16 = 1 << 15;

/// The prediction relies on these: a change closes it.
pub(in crate::tcp) const OF_PREDICTION: u16 = TIMESTAMPS | ORPHAN;
