//! All options of SOL_SOCKET, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP and IPPROTO_UDP in Linux 6.18, and their treatment.
//!
//! Promises: an option has its effect, or the socket is the kernel's, or the option has no effect on such a socket on
//! Linux either. Unlisted options are the kernel's too. docs/posix-deviations.md shows this table; a test compares the
//! two. Does not do: serving options; that is in `options` and `datagram_options`.

use crate::errno::Errno;
use Rule::{NoEffect, Served};

/// Treatment of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// The stack or this library acts on it, or the kernel's socket underneath does (a bind, multicast).
    Served,
    /// A socket on which it was set before `connect`, `listen` or the first datagram is the kernel's. Set later it makes a
    /// connection leave the stack (`Rule::is_worth_leaving`) or, where the service refuses that, is this error; a datagram socket goes
    /// back to the kernel.
    Kernels { errno: i32, undo: Undo },
    /// It has no effect on such a socket: only the kernel's result counts.
    NoEffect,
}

/// Possibility to take an option back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Undo {
    /// A value of zeros, or an empty one, means that it was never set.
    ByZero,
    /// There is no such value, or zero is a value like others.
    Never,
}

/// Number, name, and the rules for a stream and for a datagram socket.
type Row = (i32, &'static str, Rule, Rule);

const OFF: Rule = Rule::Kernels { errno: libc::ENOPROTOOPT, undo: Undo::ByZero };
const KEPT: Rule = Rule::Kernels { errno: libc::ENOPROTOOPT, undo: Undo::Never };
/// Error as for a program without the required capability.
const PRIVILEGED: Rule = Rule::Kernels { errno: libc::EPERM, undo: Undo::ByZero };
/// Error as for sockets of a protocol that lacks it.
const UNSUPPORTED: Rule = Rule::Kernels { errno: libc::EOPNOTSUPP, undo: Undo::ByZero };
/// Row of unlisted options.
const UNKNOWN: Row = (0, "unknown option", KEPT, KEPT);

/// Index of an option in the table; unlisted options have one too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known(u16);

impl Known {
    /// Index of unlisted options.
    const NOWHERE: Known = Known(0xffff);

    /// The index in sixteen bits; never zero.
    pub(crate) fn code(self) -> u16 {
        self.0
    }

    /// Returns true for an option that is in no row: newer than the table, or none.
    pub(crate) fn is_unlisted(self) -> bool {
        self == Known::NOWHERE
    }

    /// The option of a code.
    pub(crate) fn of_code(code: u16) -> Known {
        Known(code)
    }

    fn row(self) -> &'static Row {
        let (level, place) = (usize::from(self.0 >> 8).wrapping_sub(1), usize::from(self.0 & 0xff));
        LEVELS.get(level).and_then(|level| level.2.get(place)).unwrap_or(&UNKNOWN)
    }

    /// The option's name in the headers.
    pub(crate) fn name(self) -> &'static str {
        self.row().1
    }

    /// Treatment on a TCP socket.
    pub(crate) fn stream(self) -> Rule {
        self.row().2
    }

    /// Treatment on a UDP socket.
    pub(crate) fn datagram(self) -> Rule {
        self.row().3
    }
}

/// The option of this level and number. `None`: the level is not one of a TCP or UDP socket.
pub(crate) fn find(level: i32, number: i32) -> Option<Known> {
    let index = LEVELS.iter().position(|known| known.0 == level)?;
    let place = LEVELS[index].2.iter().position(|row| row.0 == number);
    Some(place.map_or(Known::NOWHERE, |place| Known(((index as u16 + 1) << 8) | place as u16)))
}

/// Options that a kernel socket returns: level, number, option.
pub(crate) fn readable() -> impl Iterator<Item = (i32, i32, Known)> {
    let of = |rule| matches!(rule, Rule::Kernels { undo: Undo::ByZero, .. });
    let all = LEVELS.iter().flat_map(|level| level.2.iter().map(|row| (level.0, row)));
    let wanted = all.filter(move |(_, row)| of(row.2) || of(row.3));
    wanted.filter_map(|(level, row)| find(level, row.0).map(|known| (level, row.0, known)))
}

impl Rule {
    /// The error on a stream of the stack; `None`: this value counts as unset, or the rule is another.
    pub(crate) fn refusal(self, value: &[u8]) -> Option<Errno> {
        match self {
            Rule::Kernels { errno, .. } if self.claims(value) => Some(Errno(errno)),
            _ => None,
        }
    }

    /// Returns true for options for which a connection leaves the stack: all that the stack lacks but those for which a program needs
    /// privileges, since the kernel would refuse most programs.
    pub(crate) fn is_worth_leaving(self) -> bool {
        !matches!(self, Rule::Kernels { errno: libc::EPERM, .. })
    }

    /// Returns true if this value makes the socket the kernel's.
    pub(crate) fn claims(self, value: &[u8]) -> bool {
        match self {
            Rule::Kernels { undo: Undo::ByZero, .. } => value.iter().any(|&byte| byte != 0),
            Rule::Kernels { undo: Undo::Never, .. } => true,
            Served | NoEffect => false,
        }
    }
}

const LEVELS: [(i32, &str, &[Row]); 5] = [
    (libc::SOL_SOCKET, "SOL_SOCKET", &SOCKET),
    (libc::IPPROTO_IP, "IPPROTO_IP", &IP),
    (libc::IPPROTO_IPV6, "IPPROTO_IPV6", &IPV6),
    (libc::IPPROTO_TCP, "IPPROTO_TCP", &TCP),
    (libc::IPPROTO_UDP, "IPPROTO_UDP", &UDP),
];

/// include/uapi/asm-generic/socket.h
const SOCKET: [Row; 81] = [
    (1, "SO_DEBUG", NoEffect, NoEffect),
    (2, "SO_REUSEADDR", Served, Served),
    (3, "SO_TYPE", Served, Served),
    (4, "SO_ERROR", Served, Served),
    (5, "SO_DONTROUTE", OFF, OFF),
    (6, "SO_BROADCAST", NoEffect, Served),
    (7, "SO_SNDBUF", Served, Served),
    (8, "SO_RCVBUF", Served, Served),
    (9, "SO_KEEPALIVE", Served, NoEffect),
    (10, "SO_OOBINLINE", Served, NoEffect),
    (11, "SO_NO_CHECK", NoEffect, Served),
    (12, "SO_PRIORITY", OFF, OFF),
    (13, "SO_LINGER", Served, NoEffect),
    (14, "SO_BSDCOMPAT", NoEffect, NoEffect),
    (15, "SO_REUSEPORT", Served, Served),
    (16, "SO_PASSCRED", NoEffect, NoEffect),
    (17, "SO_PEERCRED", NoEffect, NoEffect),
    (18, "SO_RCVLOWAT", Served, NoEffect),
    (19, "SO_SNDLOWAT", NoEffect, NoEffect),
    (20, "SO_RCVTIMEO_OLD", Served, Served),
    (21, "SO_SNDTIMEO_OLD", Served, Served),
    (22, "SO_SECURITY_AUTHENTICATION", NoEffect, NoEffect),
    (23, "SO_SECURITY_ENCRYPTION_TRANSPORT", NoEffect, NoEffect),
    (24, "SO_SECURITY_ENCRYPTION_NETWORK", NoEffect, NoEffect),
    (25, "SO_BINDTODEVICE", OFF, OFF),
    (26, "SO_ATTACH_FILTER", KEPT, KEPT),
    (27, "SO_DETACH_FILTER", NoEffect, NoEffect),
    (28, "SO_PEERNAME", Served, Served),
    (29, "SO_TIMESTAMP_OLD", OFF, Served),
    (30, "SO_ACCEPTCONN", Served, Served),
    (31, "SO_PEERSEC", NoEffect, NoEffect),
    (32, "SO_SNDBUFFORCE", Served, Served),
    (33, "SO_RCVBUFFORCE", Served, Served),
    (34, "SO_PASSSEC", NoEffect, NoEffect),
    (35, "SO_TIMESTAMPNS_OLD", OFF, Served),
    (36, "SO_MARK", PRIVILEGED, OFF),
    (37, "SO_TIMESTAMPING_OLD", OFF, OFF),
    (38, "SO_PROTOCOL", Served, Served),
    (39, "SO_DOMAIN", Served, Served),
    (40, "SO_RXQ_OVFL", NoEffect, OFF),
    (41, "SO_WIFI_STATUS", NoEffect, OFF),
    (42, "SO_PEEK_OFF", KEPT, KEPT),
    (43, "SO_NOFCS", NoEffect, NoEffect),
    (44, "SO_LOCK_FILTER", OFF, OFF),
    (45, "SO_SELECT_ERR_QUEUE", NoEffect, OFF),
    (46, "SO_BUSY_POLL", NoEffect, NoEffect),
    (47, "SO_MAX_PACING_RATE", Served, KEPT),
    (48, "SO_BPF_EXTENSIONS", NoEffect, NoEffect),
    (49, "SO_INCOMING_CPU", KEPT, KEPT),
    (50, "SO_ATTACH_BPF", KEPT, KEPT),
    (51, "SO_ATTACH_REUSEPORT_CBPF", KEPT, KEPT),
    (52, "SO_ATTACH_REUSEPORT_EBPF", KEPT, KEPT),
    (53, "SO_CNX_ADVICE", KEPT, KEPT),
    (55, "SO_MEMINFO", NoEffect, NoEffect),
    (56, "SO_INCOMING_NAPI_ID", NoEffect, NoEffect),
    (57, "SO_COOKIE", NoEffect, NoEffect),
    (59, "SO_PEERGROUPS", NoEffect, NoEffect),
    (60, "SO_ZEROCOPY", UNSUPPORTED, OFF),
    (61, "SO_TXTIME", KEPT, KEPT),
    (62, "SO_BINDTOIFINDEX", OFF, OFF),
    (63, "SO_TIMESTAMP_NEW", OFF, Served),
    (64, "SO_TIMESTAMPNS_NEW", OFF, Served),
    (65, "SO_TIMESTAMPING_NEW", OFF, OFF),
    (66, "SO_RCVTIMEO_NEW", Served, Served),
    (67, "SO_SNDTIMEO_NEW", Served, Served),
    (68, "SO_DETACH_REUSEPORT_BPF", NoEffect, NoEffect),
    (69, "SO_PREFER_BUSY_POLL", NoEffect, NoEffect),
    (70, "SO_BUSY_POLL_BUDGET", NoEffect, NoEffect),
    (71, "SO_NETNS_COOKIE", NoEffect, NoEffect),
    (72, "SO_BUF_LOCK", KEPT, KEPT),
    (73, "SO_RESERVE_MEM", NoEffect, NoEffect),
    (74, "SO_TXREHASH", NoEffect, NoEffect),
    (75, "SO_RCVMARK", NoEffect, OFF),
    (76, "SO_PASSPIDFD", NoEffect, NoEffect),
    (77, "SO_PEERPIDFD", NoEffect, NoEffect),
    (78, "SO_DEVMEM_LINEAR", KEPT, KEPT),
    (79, "SO_DEVMEM_DMABUF", KEPT, KEPT),
    (80, "SO_DEVMEM_DONTNEED", KEPT, KEPT),
    (82, "SO_RCVPRIORITY", NoEffect, OFF),
    (83, "SO_PASSRIGHTS", NoEffect, NoEffect),
    (84, "SO_INQ", NoEffect, NoEffect),
];

/// include/uapi/linux/in.h
const IP: [Row; 47] = [
    (1, "IP_TOS", Served, Served),
    (2, "IP_TTL", Served, Served),
    (3, "IP_HDRINCL", NoEffect, NoEffect),
    (4, "IP_OPTIONS", OFF, OFF),
    (5, "IP_ROUTER_ALERT", NoEffect, NoEffect),
    (6, "IP_RECVOPTS", NoEffect, OFF),
    (7, "IP_RETOPTS", NoEffect, OFF),
    (8, "IP_PKTINFO", NoEffect, Served),
    (9, "IP_PKTOPTIONS", NoEffect, NoEffect),
    (10, "IP_MTU_DISCOVER", Served, Served),
    (11, "IP_RECVERR", OFF, Served),
    (12, "IP_RECVTTL", NoEffect, Served),
    (13, "IP_RECVTOS", NoEffect, Served),
    (14, "IP_MTU", Served, Served),
    (15, "IP_FREEBIND", Served, Served),
    (16, "IP_IPSEC_POLICY", KEPT, KEPT),
    (17, "IP_XFRM_POLICY", KEPT, KEPT),
    (18, "IP_PASSSEC", NoEffect, OFF),
    (19, "IP_TRANSPARENT", PRIVILEGED, OFF),
    (20, "IP_ORIGDSTADDR", NoEffect, OFF),
    (21, "IP_MINTTL", OFF, OFF),
    (22, "IP_NODEFRAG", NoEffect, NoEffect),
    (23, "IP_CHECKSUM", NoEffect, OFF),
    (24, "IP_BIND_ADDRESS_NO_PORT", Served, Served),
    (25, "IP_RECVFRAGSIZE", NoEffect, OFF),
    (26, "IP_RECVERR_RFC4884", OFF, OFF),
    (32, "IP_MULTICAST_IF", NoEffect, Served),
    (33, "IP_MULTICAST_TTL", NoEffect, Served),
    (34, "IP_MULTICAST_LOOP", NoEffect, Served),
    (35, "IP_ADD_MEMBERSHIP", NoEffect, Served),
    (36, "IP_DROP_MEMBERSHIP", NoEffect, Served),
    (37, "IP_UNBLOCK_SOURCE", NoEffect, Served),
    (38, "IP_BLOCK_SOURCE", NoEffect, Served),
    (39, "IP_ADD_SOURCE_MEMBERSHIP", NoEffect, Served),
    (40, "IP_DROP_SOURCE_MEMBERSHIP", NoEffect, Served),
    (41, "IP_MSFILTER", NoEffect, Served),
    (42, "MCAST_JOIN_GROUP", NoEffect, Served),
    (43, "MCAST_BLOCK_SOURCE", NoEffect, Served),
    (44, "MCAST_UNBLOCK_SOURCE", NoEffect, Served),
    (45, "MCAST_LEAVE_GROUP", NoEffect, Served),
    (46, "MCAST_JOIN_SOURCE_GROUP", NoEffect, Served),
    (47, "MCAST_LEAVE_SOURCE_GROUP", NoEffect, Served),
    (48, "MCAST_MSFILTER", NoEffect, Served),
    (49, "IP_MULTICAST_ALL", NoEffect, Served),
    (50, "IP_UNICAST_IF", OFF, OFF),
    (51, "IP_LOCAL_PORT_RANGE", OFF, OFF),
    (52, "IP_PROTOCOL", NoEffect, NoEffect),
];

/// include/uapi/linux/in6.h
const IPV6: [Row; 63] = [
    (1, "IPV6_ADDRFORM", KEPT, KEPT),
    (2, "IPV6_2292PKTINFO", NoEffect, OFF),
    (3, "IPV6_2292HOPOPTS", NoEffect, OFF),
    (4, "IPV6_2292DSTOPTS", NoEffect, OFF),
    (5, "IPV6_2292RTHDR", NoEffect, OFF),
    (6, "IPV6_2292PKTOPTIONS", OFF, OFF),
    (7, "IPV6_CHECKSUM", NoEffect, NoEffect),
    (8, "IPV6_2292HOPLIMIT", NoEffect, OFF),
    (9, "IPV6_NEXTHOP", OFF, OFF),
    (10, "IPV6_AUTHHDR", OFF, OFF),
    (11, "IPV6_FLOWINFO", OFF, OFF),
    (16, "IPV6_UNICAST_HOPS", Served, Served),
    (17, "IPV6_MULTICAST_IF", NoEffect, Served),
    (18, "IPV6_MULTICAST_HOPS", NoEffect, Served),
    (19, "IPV6_MULTICAST_LOOP", NoEffect, Served),
    (20, "IPV6_ADD_MEMBERSHIP", NoEffect, Served),
    (21, "IPV6_DROP_MEMBERSHIP", NoEffect, Served),
    (22, "IPV6_ROUTER_ALERT", NoEffect, NoEffect),
    (23, "IPV6_MTU_DISCOVER", Served, Served),
    (24, "IPV6_MTU", KEPT, KEPT),
    (25, "IPV6_RECVERR", OFF, Served),
    (26, "IPV6_V6ONLY", Served, Served),
    (27, "IPV6_JOIN_ANYCAST", OFF, OFF),
    (28, "IPV6_LEAVE_ANYCAST", NoEffect, NoEffect),
    (29, "IPV6_MULTICAST_ALL", NoEffect, Served),
    (30, "IPV6_ROUTER_ALERT_ISOLATE", NoEffect, NoEffect),
    (31, "IPV6_RECVERR_RFC4884", OFF, OFF),
    (32, "IPV6_FLOWLABEL_MGR", KEPT, KEPT),
    (33, "IPV6_FLOWINFO_SEND", OFF, OFF),
    (34, "IPV6_IPSEC_POLICY", KEPT, KEPT),
    (35, "IPV6_XFRM_POLICY", KEPT, KEPT),
    (36, "IPV6_HDRINCL", NoEffect, NoEffect),
    (42, "IPV6_MCAST_JOIN_GROUP", NoEffect, Served),
    (43, "IPV6_MCAST_BLOCK_SOURCE", NoEffect, Served),
    (44, "IPV6_MCAST_UNBLOCK_SOURCE", NoEffect, Served),
    (45, "IPV6_MCAST_LEAVE_GROUP", NoEffect, Served),
    (46, "IPV6_MCAST_JOIN_SOURCE_GROUP", NoEffect, Served),
    (47, "IPV6_MCAST_LEAVE_SOURCE_GROUP", NoEffect, Served),
    (48, "IPV6_MCAST_MSFILTER", NoEffect, Served),
    (49, "IPV6_RECVPKTINFO", NoEffect, Served),
    (50, "IPV6_PKTINFO", OFF, OFF),
    (51, "IPV6_RECVHOPLIMIT", NoEffect, Served),
    (52, "IPV6_HOPLIMIT", NoEffect, NoEffect),
    (53, "IPV6_RECVHOPOPTS", NoEffect, OFF),
    (54, "IPV6_HOPOPTS", OFF, OFF),
    (55, "IPV6_RTHDRDSTOPTS", OFF, OFF),
    (56, "IPV6_RECVRTHDR", NoEffect, OFF),
    (57, "IPV6_RTHDR", OFF, OFF),
    (58, "IPV6_RECVDSTOPTS", NoEffect, OFF),
    (59, "IPV6_DSTOPTS", OFF, OFF),
    (60, "IPV6_RECVPATHMTU", NoEffect, OFF),
    (61, "IPV6_PATHMTU", NoEffect, NoEffect),
    (62, "IPV6_DONTFRAG", NoEffect, OFF),
    (66, "IPV6_RECVTCLASS", NoEffect, Served),
    (67, "IPV6_TCLASS", Served, Served),
    (70, "IPV6_AUTOFLOWLABEL", NoEffect, NoEffect),
    (72, "IPV6_ADDR_PREFERENCES", KEPT, KEPT),
    (73, "IPV6_MINHOPCOUNT", OFF, OFF),
    (74, "IPV6_ORIGDSTADDR", NoEffect, OFF),
    (75, "IPV6_TRANSPARENT", PRIVILEGED, OFF),
    (76, "IPV6_UNICAST_IF", OFF, OFF),
    (77, "IPV6_RECVFRAGSIZE", NoEffect, OFF),
    (78, "IPV6_FREEBIND", Served, Served),
];

/// include/uapi/linux/tcp.h
const TCP: [Row; 46] = [
    (1, "TCP_NODELAY", Served, NoEffect),
    (2, "TCP_MAXSEG", Served, NoEffect),
    (3, "TCP_CORK", Served, NoEffect),
    (4, "TCP_KEEPIDLE", Served, NoEffect),
    (5, "TCP_KEEPINTVL", Served, NoEffect),
    (6, "TCP_KEEPCNT", Served, NoEffect),
    (7, "TCP_SYNCNT", Served, NoEffect),
    (8, "TCP_LINGER2", Served, NoEffect),
    (9, "TCP_DEFER_ACCEPT", Served, NoEffect),
    (10, "TCP_WINDOW_CLAMP", Served, NoEffect),
    (11, "TCP_INFO", Served, NoEffect),
    (12, "TCP_QUICKACK", Served, NoEffect),
    (13, "TCP_CONGESTION", Served, NoEffect),
    (14, "TCP_MD5SIG", KEPT, NoEffect),
    (15, "TCP_COOKIE_TRANSACTIONS", NoEffect, NoEffect),
    (16, "TCP_THIN_LINEAR_TIMEOUTS", OFF, NoEffect),
    (17, "TCP_THIN_DUPACK", NoEffect, NoEffect),
    (18, "TCP_USER_TIMEOUT", Served, NoEffect),
    (19, "TCP_REPAIR", PRIVILEGED, NoEffect),
    (20, "TCP_REPAIR_QUEUE", PRIVILEGED, NoEffect),
    (21, "TCP_QUEUE_SEQ", PRIVILEGED, NoEffect),
    (22, "TCP_REPAIR_OPTIONS", PRIVILEGED, NoEffect),
    (23, "TCP_FASTOPEN", Served, NoEffect),
    (24, "TCP_TIMESTAMP", KEPT, NoEffect),
    (25, "TCP_NOTSENT_LOWAT", Served, NoEffect),
    (26, "TCP_CC_INFO", NoEffect, NoEffect),
    (27, "TCP_SAVE_SYN", OFF, NoEffect),
    (28, "TCP_SAVED_SYN", NoEffect, NoEffect),
    (29, "TCP_REPAIR_WINDOW", PRIVILEGED, NoEffect),
    (30, "TCP_FASTOPEN_CONNECT", Served, NoEffect),
    (31, "TCP_ULP", KEPT, NoEffect),
    (32, "TCP_MD5SIG_EXT", KEPT, NoEffect),
    (33, "TCP_FASTOPEN_KEY", Served, NoEffect),
    (34, "TCP_FASTOPEN_NO_COOKIE", Served, NoEffect),
    (35, "TCP_ZEROCOPY_RECEIVE", KEPT, NoEffect),
    (36, "TCP_INQ", Served, NoEffect),
    (37, "TCP_TX_DELAY", OFF, NoEffect),
    (38, "TCP_AO_ADD_KEY", KEPT, NoEffect),
    (39, "TCP_AO_DEL_KEY", KEPT, NoEffect),
    (40, "TCP_AO_INFO", KEPT, NoEffect),
    (41, "TCP_AO_GET_KEYS", KEPT, NoEffect),
    (42, "TCP_AO_REPAIR", KEPT, NoEffect),
    (43, "TCP_IS_MPTCP", NoEffect, NoEffect),
    (44, "TCP_RTO_MAX_MS", KEPT, NoEffect),
    (45, "TCP_RTO_MIN_US", KEPT, NoEffect),
    (46, "TCP_DELACK_MAX_US", KEPT, NoEffect),
];

/// include/uapi/linux/udp.h
const UDP: [Row; 6] = [
    (1, "UDP_CORK", NoEffect, Served),
    (100, "UDP_ENCAP", NoEffect, OFF),
    (101, "UDP_NO_CHECK6_TX", NoEffect, OFF),
    (102, "UDP_NO_CHECK6_RX", NoEffect, OFF),
    (103, "UDP_SEGMENT", NoEffect, Served),
    (104, "UDP_GRO", NoEffect, Served),
];

#[cfg(test)]
mod tests;
