//! The options of a socket: one table for program, library and worker.
//!
//! Promises: all that the contract says of an option is its line here: its number on the channel, its level and number
//! on Linux for each family, its initial value there, which values it has, and for which sockets. A new option is one
//! line here and its meaning in the stack (`engine/src/attach/options.rs`). Does not do: the options that a worker never
//! hears of and that are no plain number (the seconds of SO_LINGER, time limits, congestion control by name), and those that only the
//! kernel has (`posix/src/options/table.rs`).

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, SOL_UDP};

/// linux/tcp.h
const TCP_FASTOPEN_NO_COOKIE: i32 = 34;
const TCP_INQ: i32 = 36;

/// Values of an option, as setsockopt(2) takes them and getsockopt(2) returns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Reads back as 0 or 1.
    Switch,
    /// Reads back as it was set.
    Number,
    /// A byte without its ECN bits, which are TCP's own (net/ipv4/ip_sockglue.c, __ip_sock_set_tos).
    Class,
    /// Seconds; reads back the time of the retransmissions that fit into them (net/ipv4/tcp.c, secs_to_retrans).
    Retries,
    /// Bytes; zero: none; else at least half of the smallest receive buffer.
    Clamp,
    /// Seconds of FIN-WAIT-2; zero asks for the default, a negative value for none.
    Patience,
    /// Bytes, at least one; a negative value asks for the maximum.
    LowWater,
    /// Reads back doubled, within bounds (socket(7), SO_SNDBUF).
    Buffer {
        /// Smallest value that is read back.
        least: u32,
    },
}

/// What becomes of an option on a kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The worker acts on it.
    Worker,
    /// The library keeps it, and acts on it if it has a meaning.
    Library,
    /// Such a socket does not have it, or the kernel's socket underneath has it alone.
    Unused,
}

use Form::{Buffer, Clamp, Class, LowWater, Number, Patience, Retries, Switch};
use Use::{Library, Unused, Worker};

/// An option of Linux's that is a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinuxOption {
    /// Level of setsockopt(2).
    pub level: i32,
    /// Number of setsockopt(2).
    pub name: i32,
    /// The option on the channel; `None`: no worker knows it.
    pub option: Option<SocketOption>,
    /// Value of a fresh stream socket.
    pub default: u32,
    /// Its values.
    pub form: Form,
    /// On a stream.
    pub stream: Use,
    /// On a datagram socket.
    pub datagram: Use,
}

/// Each line: option = number on the channel [level, name, default, form, of a stream, of a datagram socket; ...].
macro_rules! options {
    (
        worker { $($(#[$doc:meta])* $option:ident = $number:literal
            [$($level:ident, $name:expr, $default:literal, $form:expr, $stream:ident, $datagram:ident);*];)* }
        library { $($own_level:ident, $own_name:expr, $own_default:literal, $own_form:expr;)* }
    ) => {
        /// Options that a worker knows; values are plain integers in the unit that is named.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum SocketOption {
            $($(#[$doc])* $option = $number,)*
        }

        impl SocketOption {
            /// All options.
            pub const ALL: &[SocketOption] = &[$(SocketOption::$option),*];
        }

        /// All options of Linux's that are plain numbers and that workers or the library know.
        pub const LINUX_OPTIONS: &[LinuxOption] = &[
            $($(LinuxOption {
                level: $level,
                name: $name,
                option: Some(SocketOption::$option),
                default: $default,
                form: $form,
                stream: $stream,
                datagram: $datagram,
            },)*)*
            $(LinuxOption {
                level: $own_level,
                name: $own_name,
                option: None,
                default: $own_default,
                form: $own_form,
                stream: Library,
                datagram: Unused,
            },)*
        ];
    };
}

options! { worker {
    /// 0 or 1
    NoDelay = 1 [IPPROTO_TCP, libc::TCP_NODELAY, 0, Switch, Worker, Unused];
    /// 0 or 1
    Cork = 2 [IPPROTO_TCP, libc::TCP_CORK, 0, Switch, Worker, Unused];
    /// 0 or 1
    KeepAlive = 3 [SOL_SOCKET, libc::SO_KEEPALIVE, 0, Switch, Worker, Unused];
    /// seconds
    KeepIdle = 4 [IPPROTO_TCP, libc::TCP_KEEPIDLE, 7_200, Number, Worker, Unused];
    /// seconds
    KeepInterval = 5 [IPPROTO_TCP, libc::TCP_KEEPINTVL, 75, Number, Worker, Unused];
    /// probes
    KeepCount = 6 [IPPROTO_TCP, libc::TCP_KEEPCNT, 9, Number, Worker, Unused];
    /// milliseconds
    UserTimeout = 7 [IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 0, Number, Worker, Unused];
    /// bytes, as set (not doubled)
    ReceiveBuffer = 8 [SOL_SOCKET, libc::SO_RCVBUF, 131_072, Buffer { least: 2_304 }, Worker, Worker];
    /// bytes, as set (not doubled)
    SendBuffer = 9 [SOL_SOCKET, libc::SO_SNDBUF, 87_040, Buffer { least: 4_608 }, Worker, Worker];
    /// bytes
    MaxSegment = 10 [IPPROTO_TCP, libc::TCP_MAXSEG, 1_448, Number, Worker, Unused];
    /// 0 or 1
    QuickAck = 11 [IPPROTO_TCP, libc::TCP_QUICKACK, 1, Switch, Worker, Unused];
    /// 0 NewReno, 1 CUBIC, 2 BBR, 3 DCTCP
    Congestion = 12 [];
    /// the IPv4 byte
    TypeOfService = 13 [
        IPPROTO_IP, libc::IP_TOS, 0, Class, Worker, Worker;
        IPPROTO_IPV6, libc::IPV6_TCLASS, 0, Class, Worker, Worker
    ];
    /// hops
    TimeToLive = 14 [
        IPPROTO_IP, libc::IP_TTL, 64, Number, Worker, Worker;
        IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, 64, Number, Worker, Worker
    ];
    /// bytes
    NotSentLowWater = 15 [IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, 0, Number, Worker, Unused];
    /// seconds
    DeferAccept = 16 [IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 0, Retries, Worker, Unused];
    /// attempts
    SynCount = 17 [IPPROTO_TCP, libc::TCP_SYNCNT, 6, Number, Worker, Unused];
    /// bytes
    WindowClamp = 18 [IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, 0, Clamp, Worker, Unused];
    /// bytes
    ReceiveLowWater = 19 [SOL_SOCKET, libc::SO_RCVLOWAT, 1, LowWater, Library, Unused];
    /// RFC 7413, of a listener: connections at most that have sent data and not finished the handshake
    FastOpenQueue = 20 [IPPROTO_TCP, libc::TCP_FASTOPEN, 0, Number, Worker, Unused];
    /// 0 or 1: `Connect` may answer before the handshake, whose SYN carries the first data
    FastOpenConnect = 21 [IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 0, Switch, Worker, Unused];
    /// 0 or 1
    FastOpenNoCookie = 22 [IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, 0, Switch, Worker, Unused];
    /// bytes per second; all ones: without limit
    PacingRate = 23 [SOL_SOCKET, libc::SO_MAX_PACING_RATE, 0xffff_ffff, Number, Worker, Unused];
    /// 0 or 1
    ReuseAddress = 24 [SOL_SOCKET, libc::SO_REUSEADDR, 0, Switch, Library, Worker];
    /// 0 or 1
    ReusePort = 25 [SOL_SOCKET, libc::SO_REUSEPORT, 0, Switch, Worker, Worker];
    /// 0 or 1
    Broadcast = 26 [SOL_SOCKET, libc::SO_BROADCAST, 0, Switch, Library, Worker];
    /// 0 or 1: an IPv6 socket does not serve IPv4
    OnlyIpv6 = 27 [IPPROTO_IPV6, libc::IPV6_V6ONLY, 0, Switch, Library, Unused];
    /// 0 or 1: datagrams leave without a checksum
    NoChecksum = 28 [SOL_SOCKET, libc::SO_NO_CHECK, 0, Switch, Unused, Worker];
    /// 0 don't, 1 want, 2 do, 3 probe, 4 interface, 5 omit (ip(7))
    PathMtuDiscovery = 29 [
        IPPROTO_IP, libc::IP_MTU_DISCOVER, 1, Number, Worker, Worker;
        IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, 1, Number, Worker, Worker
    ];
    /// bytes of each datagram of a train; 0: no train
    SegmentSize = 30 [SOL_UDP, libc::UDP_SEGMENT, 0, Number, Unused, Worker];
    /// 0 or 1: datagrams of a flow come joined
    Coalesce = 31 [SOL_UDP, libc::UDP_GRO, 0, Switch, Unused, Worker];
    /// seconds in FIN-WAIT-2 without a holder, signed; 0: the default, negative: none
    FinTimeout = 32 [IPPROTO_TCP, libc::TCP_LINGER2, 60, Patience, Worker, Unused];
    /// 0 or 1: every worker of the service has a listener of the same program for the same port, and each accepts its
    /// share of the flows
    EveryWorker = 33 [];
    /// 1: the application reads no more (SHUT_RD)
    ReadShut = 34 [];
    /// 1: closing resets, also when the last holder ends without a close (SO_LINGER with zero seconds)
    ResetAtClose = 35 [];
    /// 0 or 1: more follows the bytes that are pushed next (MSG_MORE); given again for each send
    More = 36 [];
    /// hops of datagrams to multicast groups
    MulticastTimeToLive = 37 [IPPROTO_IP, libc::IP_MULTICAST_TTL, 1, Number, Unused, Worker];
    /// 0 or 1: sockets of this host hear what it sends to multicast groups
    MulticastLoop = 38 [IPPROTO_IP, libc::IP_MULTICAST_LOOP, 1, Switch, Unused, Worker];
} library {
    SOL_SOCKET, libc::SO_OOBINLINE, 0, Switch;
    SOL_SOCKET, libc::SO_BUSY_POLL, 0, Number;
    IPPROTO_TCP, TCP_INQ, 0, Switch;
} }

impl SocketOption {
    /// The option of a number on the channel.
    pub(crate) fn from_number(number: u16) -> Option<SocketOption> {
        SocketOption::ALL.iter().copied().find(|&option| option as u16 == number)
    }
}

impl LinuxOption {
    /// The option that a worker hears of when it is set on a stream.
    pub const fn of_stream(&self) -> Option<SocketOption> {
        match self.stream {
            Worker => self.option,
            Library | Unused => None,
        }
    }

    /// The option that a worker hears of when it is set on a datagram socket.
    pub const fn of_datagram(&self) -> Option<SocketOption> {
        match self.datagram {
            Worker => self.option,
            Library | Unused => None,
        }
    }
}

#[cfg(test)]
mod tests;
