//! Kernel sockets whose connection is set and not negotiated: TCP_REPAIR.
//!
//! ```text
//!   CLOSE --enter--> sequence numbers, connect --> ESTABLISHED without a packet --> options, queues, windows --leave--> it goes on
//! ```
//! Linux, net/ipv4/tcp.c, do_tcp_setsockopt, says what each option does, and when; kernels 6.1 to 6.18 do the same. While a socket is
//! in repair mode, `connect` sends nothing, what is written goes into the queue that is selected, and a disconnect is silent. It takes
//! CAP_NET_ADMIN in the socket's network namespace. Promises: thin calls, numbers in and out. Does not do: knowing what belongs into a socket.

mod sys;

use std::io;
use std::os::fd::BorrowedFd;

/// What writes go to while a socket is in repair mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Queue {
    /// Nothing may be written.
    None = 0,
    /// As if it had been received.
    Receive = 1,
    /// As if it had been sent.
    Send = 2,
}

/// Whether the end of repair mode sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Leave {
    /// A window probe, in ESTABLISHED: the peer says what it has got.
    WithProbe = 0,
    /// No packet.
    Silent = -1,
}

/// What the SYNs have agreed on, as values of their options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The peer's limit: payload and options of a full segment.
    pub mss: u16,
    /// Snd.Wind.Shift
    pub send_scale: u8,
    /// Rcv.Wind.Shift
    pub receive_scale: u8,
    /// SACK-permitted.
    pub sack: bool,
    /// Timestamps.
    pub timestamps: bool,
}

/// `struct tcp_repair_window`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Windows {
    /// SND.WL1
    pub wl1: u32,
    /// SND.WND, bytes.
    pub send: u32,
    /// Max(SND.WND)
    pub send_max: u32,
    /// The window that was advertised, bytes.
    pub receive: u32,
    /// RCV.NXT when it was advertised.
    pub advertised_at: u32,
}

/// A few values of `TCP_INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Linux's number of the state.
    pub state: u8,
    /// What the SYNs have agreed on; the MSS is that of full segments now, without options.
    pub agreed: Agreed,
    /// Segments without an acknowledgment.
    pub unacknowledged: u32,
    /// SRTT, microseconds.
    pub round_trip_us: u32,
    /// RTTVAR, microseconds.
    pub round_trip_variance_us: u32,
    /// Bytes that were written and not sent.
    pub unsent: u32,
    /// Milliseconds since data was last sent or received.
    pub silent_ms: u32,
    /// The SYNs have agreed on ECN.
    pub ecn: bool,
}

/// Options of a socket that are a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// SO_BUF_LOCK: bit 0 SO_SNDBUF was set, bit 1 SO_RCVBUF was set.
    BufferLocks,
    /// SO_BINDTOIFINDEX; 0: none.
    BoundInterface,
    /// TCP_MAXSEG
    MaximumSegmentSize,
    /// TCP_SYNCNT
    SynCount,
    /// TCP_LINGER2, seconds.
    FinTimeout,
    /// TCP_WINDOW_CLAMP, bytes.
    WindowClamp,
    /// TCP_NOTSENT_LOWAT, bytes.
    NotSentLowWater,
    /// IP_MTU_DISCOVER
    Ipv4MtuDiscovery,
    /// IPV6_MTU_DISCOVER
    Ipv6MtuDiscovery,
}

/// Starts repair mode; SO_REUSEADDR is lost.
///
/// # Errors
/// The right is missing, or it is no socket of TCP or a listener.
pub fn enter(socket: BorrowedFd<'_>) -> io::Result<()> {
    sys::set(socket, sys::REPAIR, 1)
}

/// Ends repair mode.
///
/// # Errors
/// As for [`enter`].
pub fn leave(socket: BorrowedFd<'_>, how: Leave) -> io::Result<()> {
    sys::set(socket, sys::REPAIR, how as i32)
}

/// Selects where writes go, and whose sequence number is meant.
///
/// # Errors
/// The socket is not in repair mode.
pub fn select(socket: BorrowedFd<'_>, queue: Queue) -> io::Result<()> {
    sys::set(socket, sys::REPAIR_QUEUE, queue as i32)
}

/// Sets the sequence number behind the selected queue, before `connect`.
///
/// # Errors
/// The socket is not closed, or has data.
pub fn set_sequence(socket: BorrowedFd<'_>, sequence: u32) -> io::Result<()> {
    sys::set(socket, sys::QUEUE_SEQUENCE, sequence.cast_signed())
}

/// Returns the sequence number behind the selected queue.
///
/// # Errors
/// The socket is not in repair mode.
pub fn sequence(socket: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(sys::get(socket, sys::QUEUE_SEQUENCE)?.cast_unsigned())
}

/// Sets what the SYNs have agreed on, after `connect` and before any data.
///
/// # Errors
/// A scale is larger than 14, or it is too late.
pub fn agree(socket: BorrowedFd<'_>, agreed: &Agreed) -> io::Result<()> {
    let scales = u32::from(agreed.receive_scale) << 16 | u32::from(agreed.send_scale);
    // Option kinds of RFC 9293 §3.2, RFC 7323 §2.2, §3.2, RFC 2018 §2. Scales are always set: else those of the kernel's own SYN count.
    let mut options = vec![[2, u32::from(agreed.mss)], [3, scales]];
    options.extend(agreed.sack.then_some([4, 0]));
    options.extend(agreed.timestamps.then_some([8, 0]));
    sys::set_pairs(socket, &options)
}

/// Sets the clock of outgoing timestamps, which counts milliseconds from `value` on. Its lowest bit must be 0: to kernels since 6.7 it
/// says that the clock counts microseconds.
///
/// # Errors
/// The socket is not in repair mode.
pub fn set_timestamp(socket: BorrowedFd<'_>, value: u32) -> io::Result<()> {
    sys::set(socket, sys::TIMESTAMP, value.cast_signed())
}

/// Returns the clock of outgoing timestamps. Its lowest bit says that it counts microseconds.
///
/// # Errors
/// The socket is not in repair mode.
pub fn timestamp(socket: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(sys::get(socket, sys::TIMESTAMP)?.cast_unsigned())
}

/// Returns true when a protocol stands above TCP in the kernel (TCP_ULP), as TLS does.
///
/// # Errors
/// It is no socket of TCP.
pub fn has_protocol_above(socket: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(sys::length(socket, sys::UPPER_PROTOCOL)? > 0)
}

/// Sets the windows of both directions.
///
/// # Errors
/// They contradict each other, or the socket is not in repair mode.
pub fn set_windows(socket: BorrowedFd<'_>, windows: Windows) -> io::Result<()> {
    sys::set_windows(socket, windows)
}

/// Returns the windows of both directions.
///
/// # Errors
/// The socket is not in repair mode.
pub fn windows(socket: BorrowedFd<'_>) -> io::Result<Windows> {
    sys::windows(socket)
}

/// Returns some values of `TCP_INFO`.
///
/// # Errors
/// It is no socket of TCP.
pub fn info(socket: BorrowedFd<'_>) -> io::Result<Info> {
    sys::info(socket)
}

/// Sets an option.
///
/// # Errors
/// The kernel refuses the value.
pub fn set_number(socket: BorrowedFd<'_>, option: Number, value: i32) -> io::Result<()> {
    sys::set(socket, option.name(), value)
}

/// Returns the value of an option.
///
/// # Errors
/// The kernel does not know the option.
pub fn number(socket: BorrowedFd<'_>, option: Number) -> io::Result<i32> {
    sys::get(socket, option.name())
}

/// Sets SO_MAX_PACING_RATE, bytes per second.
///
/// # Errors
/// The kernel refuses.
pub fn set_pacing_rate_max(socket: BorrowedFd<'_>, rate: u64) -> io::Result<()> {
    sys::set_large(socket, (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE), rate)
}

impl Number {
    fn name(self) -> sys::Name {
        match self {
            Number::BufferLocks => (libc::SOL_SOCKET, sys::SO_BUF_LOCK),
            Number::BoundInterface => (libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX),
            Number::MaximumSegmentSize => (libc::SOL_TCP, libc::TCP_MAXSEG),
            Number::SynCount => (libc::SOL_TCP, libc::TCP_SYNCNT),
            Number::FinTimeout => (libc::SOL_TCP, libc::TCP_LINGER2),
            Number::WindowClamp => (libc::SOL_TCP, libc::TCP_WINDOW_CLAMP),
            Number::NotSentLowWater => (libc::SOL_TCP, libc::TCP_NOTSENT_LOWAT),
            Number::Ipv4MtuDiscovery => (libc::SOL_IP, libc::IP_MTU_DISCOVER),
            Number::Ipv6MtuDiscovery => (libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER),
        }
    }
}

#[cfg(test)]
mod tests;
