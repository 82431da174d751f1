//! All limits and choices of the stack, checked at start.

use ringway_shm::Duration;

use crate::tcp::SharedRates;
use crate::tcp::congestion::OwnControl;

/// Congestion control algorithms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// draft-ietf-ccwg-bbr
    Bbr,
    /// RFC 9438
    #[default]
    Cubic,
    /// RFC 5681, RFC 6582
    NewReno,
    /// RFC 8257; asks for ECN whatever [`TcpConfig::ecn`] says, as in Linux.
    Dctcp,
    /// One that the program has added ([`Stack::add_congestion_control`](crate::Stack::add_congestion_control)). In a stack to which it
    /// was not added it means Reno.
    Own(OwnControl),
}

impl CongestionControl {
    /// All algorithms of the stack's own. Applications name them by their index here.
    pub const ALL: [CongestionControl; 4] =
        [CongestionControl::NewReno, CongestionControl::Cubic, CongestionControl::Bbr, CongestionControl::Dctcp];

    /// Returns Linux's name; `own` for one that the program has added.
    pub fn name(self) -> &'static str {
        match self {
            CongestionControl::Cubic => "cubic",
            CongestionControl::NewReno => "reno",
            CongestionControl::Bbr => "bbr",
            CongestionControl::Dctcp => "dctcp",
            CongestionControl::Own(_) => "own",
        }
    }

    /// Returns true when it sets a rate: a [`Controller`](crate::congestion::Controller).
    #[inline]
    pub(crate) fn is_rate_based(self) -> bool {
        matches!(self, CongestionControl::Bbr | CongestionControl::Own(_))
    }

    /// Returns the algorithm with this name.
    pub fn from_name(name: &str) -> Option<CongestionControl> {
        CongestionControl::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// When SYN cookies (RFC 4987) replace an entry in the SYN queue; Linux tcp_syncookies 0, 1, 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SynCookies {
    /// Never: a full queue drops its oldest record.
    Off,
    /// When the queue is full.
    #[default]
    WhenFull,
    /// Always.
    Always,
}

/// Explicit congestion notification: what our SYNs request, and what we accept. Linux: net.ipv4.tcp_ecn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// 0: neither.
    Off,
    /// 1: requests and accepts RFC 3168.
    Request,
    /// 2: accepts RFC 3168.
    #[default]
    Passive,
    /// 3: requests RFC 9768; accepts it and RFC 3168.
    AccurateRequest,
    /// 4: accepts RFC 9768; requests RFC 3168.
    AccuratePassiveRequest,
    /// 5: accepts RFC 9768 and RFC 3168.
    AccuratePassive,
}

impl Ecn {
    /// Converts Linux's number.
    pub fn from_number(number: u64) -> Option<Ecn> {
        use Ecn::{AccuratePassive, AccuratePassiveRequest, AccurateRequest, Off, Passive, Request};
        [Off, Request, Passive, AccurateRequest, AccuratePassiveRequest, AccuratePassive].get(number as usize).copied()
    }
}

/// RFC 7413; the settings of Linux's tcp_fastopen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastOpenConfig {
    /// Active opens may carry data (bit 0).
    pub client: bool,
    /// Listeners may accept such data (bit 1).
    pub server: bool,
    /// Data is sent without a cookie (bit 2).
    pub client_without_cookie: bool,
    /// Data is accepted without a cookie (bit 9).
    pub server_without_cookie: bool,
    /// Listeners need not enable it themselves (bit 10).
    pub every_listener: bool,
    /// Time without data in SYNs after SYNs with data were lost and SYNs without data were not; doubles each time; zero:
    /// off.
    pub black_hole_rest: Duration,
    /// Keys of listeners without keys of their own; `None`: derived from the seed. Hosts behind one address must share them.
    pub keys: Option<FastOpenKeys>,
}

impl FastOpenConfig {
    /// Converts the number of Linux's net.ipv4.tcp_fastopen.
    pub fn from_bits(bits: u32) -> FastOpenConfig {
        FastOpenConfig {
            client: bits & 1 != 0,
            server: bits & 2 != 0,
            client_without_cookie: bits & 4 != 0,
            server_without_cookie: bits & 0x200 != 0,
            every_listener: bits & 0x400 != 0,
            black_hole_rest: Duration::ZERO,
            keys: None,
        }
    }
}

/// Secrets from which Fast Open cookies are made (RFC 7413 §4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastOpenKeys {
    /// Makes cookies.
    pub primary: [u8; 16],
    /// Cookies made with this key are still accepted.
    pub backup: Option<[u8; 16]>,
}

/// Packetization-layer path MTU discovery (RFC 4821); Linux: tcp_mtu_probing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MtuProbing {
    /// Only ICMP lowers the path MTU (RFC 1191). Linux: 0.
    Off,
    /// Probes when segments vanish. Linux: 1.
    #[default]
    BlackHole,
    /// Probes on every connection. Linux: 2.
    Always,
}

/// Limits and defaults of one stack.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// Secret from which ISNs, ports, hashes and all else that must not be guessed are derived.
    pub seed: u64,
    /// Maximum number of connections, in all states with a full control block.
    pub connections_max: u32,
    /// Maximum number of listeners.
    pub listeners_max: u32,
    /// Maximum number of half-open connections (SYN-RECEIVED records); of one listener no more than its backlog.
    pub syn_queue_max: u32,
    /// Of those, the ones of all listeners of one owner ([`Stack::set_owner`](crate::Stack::set_owner)) at most.
    pub half_open_per_owner_max: u32,
    /// Maximum number of TIME-WAIT records; when full, the oldest is dropped.
    pub time_wait_max: u32,
    /// Maximum number of neighbors.
    pub neighbors_max: u32,
    /// Maximum number of packets that wait for one unresolved neighbor.
    pub neighbor_queue_max: u32,
    /// Maximum number of replies (RST, ICMP, challenge ACK) per second.
    pub replies_per_second: u32,
    /// Memory for fragments of incomplete datagrams, bytes; Linux ipfrag_high_thresh: 4 MiB.
    pub reassembly_memory_bytes: u32,
    /// Maximum number of destinations whose path MTU is stored.
    pub path_mtus_max: u32,
    /// TCP defaults.
    pub tcp: TcpConfig,
    /// UDP defaults.
    pub udp: UdpConfig,
}

/// Limits and defaults of UDP; a socket may override some with [`UdpOptions`].
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// Maximum number of sockets.
    pub sockets_max: u32,
    /// Send buffer, bytes of memory; Linux net.core.wmem_default: 212,992.
    pub send_buffer_bytes: u32,
    /// Receive buffer, bytes of memory; Linux net.core.rmem_default: 212,992.
    pub receive_buffer_bytes: u32,
}

/// Treatment of packets larger than the path MTU: IP_MTU_DISCOVER.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathMtuDiscovery {
    /// Fragments packets that are too large; sets "don't fragment" on all others (Linux's default).
    #[default]
    Want,
    /// Never sets "don't fragment".
    Dont,
    /// Always sets "don't fragment"; refuses packets that are too large.
    Do,
    /// Like `Do`, but only the link's MTU counts, not the path MTU that routers report.
    Probe,
    /// Only the link's MTU counts, and routers may fragment.
    Interface,
    /// Like `Interface`, and packets that are too large are fragmented here.
    Omit,
}

impl PathMtuDiscovery {
    /// Converts Linux's number (ip(7)).
    pub fn from_number(number: u32) -> Option<PathMtuDiscovery> {
        use PathMtuDiscovery::{Do, Dont, Interface, Omit, Probe, Want};
        [Dont, Want, Do, Probe, Interface, Omit].get(number as usize).copied()
    }

    /// Returns true when datagrams are sized for the path MTU, not for the link's.
    pub(crate) fn is_learning(self) -> bool {
        matches!(self, PathMtuDiscovery::Want | PathMtuDiscovery::Dont | PathMtuDiscovery::Do)
    }
}

/// Options of one UDP socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// SO_REUSEADDR: other sockets with this option may bind the same address.
    pub reuse_address: bool,
    /// SO_REUSEPORT: the same, and the sockets share the datagrams by a hash of the flow.
    pub reuse_port: bool,
    /// SO_BROADCAST
    pub broadcast: bool,
    /// IPV6_V6ONLY: a socket bound to `::` does not serve IPv4.
    pub only_ipv6: bool,
    /// SO_BINDTODEVICE
    pub interface: Option<u32>,
    /// IP_TOS, IPV6_TCLASS
    pub type_of_service: u8,
    /// IP_TTL, IPV6_UNICAST_HOPS; zero: 64.
    pub time_to_live: u8,
    /// IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS; zero: datagrams to groups stay on this host.
    pub multicast_time_to_live: u8,
    /// IP_MULTICAST_IF, IPV6_MULTICAST_IF; `None`: the routes decide.
    pub multicast_interface: Option<u32>,
    /// IP_MULTICAST_LOOP: member sockets of this host receive datagrams sent to their group.
    pub multicast_loop: bool,
    /// IP_MULTICAST_ALL: the socket also receives from groups that only other sockets have joined.
    pub multicast_all: bool,
    /// SO_NO_CHECK (IPv4 only)
    pub no_checksum: bool,
    /// IP_MTU_DISCOVER
    pub path_mtu_discovery: PathMtuDiscovery,
    /// IP_RECVERR: `udp_error_report` returns ICMP errors, also for an unconnected socket.
    pub receive_errors: bool,
    /// SO_SNDBUF; zero: the default.
    pub send_buffer_bytes: u32,
    /// SO_RCVBUF; zero: the default.
    pub receive_buffer_bytes: u32,
    /// UDP_SEGMENT; zero: none. A call may give another size.
    pub segment_size: u16,
    /// UDP_GRO: datagrams of one flow and size that arrive together are delivered as one message.
    pub coalesce: bool,
}

/// Defaults of TCP; a socket may override some with [`TcpOptions`].
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Algorithm of new connections.
    pub congestion_control: CongestionControl,
    /// Maximum size of a send buffer, bytes; Linux: the third number of tcp_wmem, 4 MiB. BBR needs two bandwidth-delay
    /// products, and repairing a lost retransmission a third one.
    pub send_buffer_bytes: u32,
    /// Initial size of a send buffer, bytes.
    pub send_buffer_initial_bytes: u32,
    /// Receive buffer, bytes.
    pub receive_buffer_bytes: u32,
    /// RFC 6298; Linux: 200 ms.
    pub rto_min: Duration,
    /// RFC 6298: 60 s at least; Linux: 120 s.
    pub rto_max: Duration,
    /// RFC 6298: 1 s.
    pub rto_initial: Duration,
    /// RFC 9293 §3.8.6.3; Linux: 40 ms.
    pub delayed_ack: Duration,
    /// Minimum ACK delay; ACKs are delayed by a quarter of the round trip; Linux: 40 ms.
    pub delayed_ack_min: Duration,
    /// Number of full segments at the start of a connection that are acknowledged at once (Linux: 16); 0: the delay applies
    /// from the first segment on, which saves short exchanges a packet.
    pub quick_start_segments: u8,
    /// Maximum number of data retransmissions; Linux tcp_retries2: 15.
    pub retries: u8,
    /// Maximum number of SYN retransmissions; Linux tcp_syn_retries: 6.
    pub syn_retries: u8,
    /// Number of SYN retransmissions at equal intervals before the interval doubles (Linux tcp_syn_linear_timeouts); RFC
    /// 6298 (5.5): 0.
    pub syn_linear_timeouts: u8,
    /// Maximum number of SYN-ACK retransmissions; Linux tcp_synack_retries: 5.
    pub synack_retries: u8,
    /// Minimum interval between a connection's answers to invalid segments; Linux tcp_invalid_ratelimit: 500 ms.
    pub invalid_interval: Duration,
    /// RFC 7413; Linux: clients only.
    pub fast_open: FastOpenConfig,
    /// RFC 4987
    pub syn_cookies: SynCookies,
    /// Time in TIME-WAIT; Linux: 60 s.
    pub time_wait: Duration,
    /// Time of an orphan in FIN-WAIT-2; Linux tcp_fin_timeout: 60 s.
    pub fin_timeout: Duration,
    /// Idle time before keepalive; Linux: 2 h.
    pub keepalive_idle: Duration,
    /// Interval between keepalives; Linux: 75 s.
    pub keepalive_interval: Duration,
    /// Unanswered keepalives before the connection is given up; Linux: 9.
    pub keepalive_probes: u8,
    /// First and last port for active opens without a given port.
    pub ephemeral_ports: (u16, u16),
    /// RFC 7323 timestamps.
    pub timestamps: bool,
    /// RFC 7323 §3.2: segments without a timestamp are dropped on connections with timestamps; Linux accepts them.
    pub timestamps_required: bool,
    /// RFC 7323 window scaling.
    pub window_scaling: bool,
    /// RFC 2018 selective acknowledgment.
    pub sack: bool,
    /// RFC 8985 RACK: detects losses by time, with SACK; otherwise RFC 6675.
    pub rack: bool,
    /// RFC 8985 tail loss probes, with RACK.
    pub tail_loss_probe: bool,
    /// RFC 5682 F-RTO, with RACK.
    pub f_rto: bool,
    /// RFC 4821.
    pub mtu_probing: MtuProbing,
    /// Payload bytes at which the search for the path MTU starts; Linux tcp_base_mss: 1024.
    pub mtu_base_mss: u16,
    /// RFC 6928 initial window, segments.
    pub initial_window: u8,
    /// Connections whose congestion control does not pace are paced at the rate of their window.
    pub pacing: bool,
    /// RFC 3168 and RFC 9768.
    pub ecn: Ecn,
    /// RFC 9768 §3.2.3: an option carries the byte counters (Linux: tcp_ecn_option).
    pub accurate_option: bool,
    /// RFC 3168 §6.1.1.1: a retransmitted SYN does not ask for ECN (Linux: tcp_ecn_fallback).
    pub ecn_fallback: bool,
    /// RFC 5681 §4.1: after an idle time the window restarts from its initial size (Linux: tcp_slow_start_after_idle).
    pub restart_after_idle: bool,
    /// Sets PSH also on the last segment of each burst that Linux would give to a link as one packet, so that a coalescing
    /// receiver does not wait; minimum burst, segments (Linux tcp_min_tso_segs: 2). 0: only at the end of the data.
    pub push_trains: u8,
    /// Maximum payload bytes that one `transmit` writes while small messages are sent too; otherwise, and by default, 512
    /// KiB.
    pub turn_beside_small_bytes: u32,
}

/// Options of one TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// TCP_NODELAY: no Nagle.
    pub no_delay: bool,
    /// TCP_CORK: hold partial segments.
    pub cork: bool,
    /// MSG_MORE: hold partial segments until the next packet of the peer; set it again for each send.
    pub more: bool,
    /// TCP_QUICKACK: true: ACKs go at once until the connection answers; false: they wait from the first segment on; `None`:
    /// not set.
    pub quick_ack: Option<bool>,
    /// SO_KEEPALIVE.
    pub keepalive: bool,
    /// TCP_KEEPIDLE; zero: the default.
    pub keepalive_idle: Duration,
    /// TCP_KEEPINTVL; zero: the default.
    pub keepalive_interval: Duration,
    /// TCP_KEEPCNT; zero: the default.
    pub keepalive_probes: u8,
    /// TCP_USER_TIMEOUT; zero: the default.
    pub user_timeout: Duration,
    /// SO_SNDBUF; zero: as much as the congestion window needs.
    pub send_buffer_bytes: u32,
    /// SO_RCVBUF; zero: the default.
    pub receive_buffer_bytes: u32,
    /// TCP_MAXSEG; zero: from the MTU.
    pub maximum_segment_size: u16,
    /// TCP_CONGESTION
    pub congestion_control: CongestionControl,
    /// SO_MAX_PACING_RATE, bytes per second; zero: none.
    pub pacing_rate_max: u64,
    /// Rates that it shares with other connections, also of other stacks.
    pub shared_rates: SharedRates,
    /// IP_TOS, the DSCP bits.
    pub type_of_service: u8,
    /// IP_TTL; zero: 64.
    pub time_to_live: u8,
    /// TCP_FASTOPEN_CONNECT or MSG_FASTOPEN: an active open may wait for data to send with its SYN.
    pub fast_open: bool,
    /// TCP_FASTOPEN_NO_COOKIE
    pub fast_open_without_cookie: bool,
    /// TCP_FASTOPEN of a listener: maximum number of connections with data and an unfinished handshake.
    pub fast_open_queue: u32,
    /// TCP_NOTSENT_LOWAT: maximum number of queued bytes not sent yet; zero: the send buffer's size.
    pub not_sent_low_water: u32,
    /// TCP_DEFER_ACCEPT of a listener: number of SYN-ACK retransmissions that are skipped while the peer has not sent data;
    /// zero: a connection can be accepted when its handshake is complete.
    pub defer_accept_retries: u8,
    /// TCP_SYNCNT: maximum number of SYN retransmissions; zero: the default.
    pub syn_retries: u8,
    /// TCP_WINDOW_CLAMP: largest window advertised, bytes; zero: none.
    pub window_clamp: u32,
    /// TCP_LINGER2: time of an orphan in FIN-WAIT-2; `None`: the default; zero: none.
    pub fin_timeout: Option<Duration>,
    /// IP_MTU_DISCOVER, IPV6_MTU_DISCOVER: whether routers may fragment segments, and whether their path MTU is used.
    pub path_mtu_discovery: PathMtuDiscovery,
    /// SO_REUSEPORT of a listener: others with this option may listen on the same address, and share the connections by a
    /// hash of the flow.
    pub reuse_port: bool,
}

impl Default for StackConfig {
    fn default() -> StackConfig {
        StackConfig {
            seed: 0,
            connections_max: 262_144,
            listeners_max: 1_024,
            syn_queue_max: 4_096,
            half_open_per_owner_max: 3_072,
            time_wait_max: 65_536,
            neighbors_max: 4_096,
            neighbor_queue_max: 64,
            replies_per_second: 1_000,
            reassembly_memory_bytes: 4 << 20,
            path_mtus_max: 4_096,
            tcp: TcpConfig::default(),
            udp: UdpConfig::default(),
        }
    }
}

impl Default for UdpConfig {
    fn default() -> UdpConfig {
        UdpConfig { sockets_max: 65_536, send_buffer_bytes: 212_992, receive_buffer_bytes: 212_992 }
    }
}

impl Default for UdpOptions {
    fn default() -> UdpOptions {
        UdpOptions {
            reuse_address: false,
            reuse_port: false,
            broadcast: false,
            only_ipv6: false,
            interface: None,
            type_of_service: 0,
            time_to_live: 0,
            multicast_time_to_live: 1,
            multicast_interface: None,
            multicast_loop: true,
            multicast_all: true,
            no_checksum: false,
            path_mtu_discovery: PathMtuDiscovery::Want,
            receive_errors: false,
            send_buffer_bytes: 0,
            receive_buffer_bytes: 0,
            segment_size: 0,
            coalesce: false,
        }
    }
}

impl Default for TcpConfig {
    fn default() -> TcpConfig {
        TcpConfig {
            congestion_control: CongestionControl::Cubic,
            send_buffer_bytes: 16 << 20,
            send_buffer_initial_bytes: 256 << 10,
            receive_buffer_bytes: 16 << 20,
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(120),
            rto_initial: Duration::from_secs(1),
            delayed_ack: Duration::from_millis(40),
            delayed_ack_min: Duration::from_millis(1),
            quick_start_segments: 0,
            retries: 15,
            syn_retries: 6,
            syn_linear_timeouts: 0,
            synack_retries: 5,
            invalid_interval: Duration::from_millis(500),
            fast_open: FastOpenConfig::from_bits(1),
            syn_cookies: SynCookies::WhenFull,
            time_wait: Duration::from_secs(60),
            fin_timeout: Duration::from_secs(60),
            keepalive_idle: Duration::from_secs(7_200),
            keepalive_interval: Duration::from_secs(75),
            keepalive_probes: 9,
            ephemeral_ports: (32_768, 60_999),
            timestamps: true,
            timestamps_required: true,
            window_scaling: true,
            sack: true,
            rack: true,
            tail_loss_probe: true,
            f_rto: true,
            mtu_probing: MtuProbing::BlackHole,
            mtu_base_mss: 1_024,
            initial_window: 10,
            pacing: false,
            ecn: Ecn::Passive,
            accurate_option: true,
            ecn_fallback: true,
            restart_after_idle: true,
            push_trains: 0,
            turn_beside_small_bytes: 512 << 10,
        }
    }
}

impl Default for TcpOptions {
    fn default() -> TcpOptions {
        TcpOptions {
            no_delay: false,
            cork: false,
            more: false,
            quick_ack: None,
            keepalive: false,
            keepalive_idle: Duration::ZERO,
            keepalive_interval: Duration::ZERO,
            keepalive_probes: 0,
            user_timeout: Duration::ZERO,
            send_buffer_bytes: 0,
            receive_buffer_bytes: 0,
            maximum_segment_size: 0,
            congestion_control: CongestionControl::Cubic,
            pacing_rate_max: 0,
            shared_rates: SharedRates::default(),
            type_of_service: 0,
            time_to_live: 0,
            fast_open: false,
            fast_open_without_cookie: false,
            fast_open_queue: 0,
            not_sent_low_water: 0,
            defer_accept_retries: 0,
            syn_retries: 0,
            window_clamp: 0,
            fin_timeout: None,
            path_mtu_discovery: PathMtuDiscovery::Want,
            reuse_port: false,
        }
    }
}
