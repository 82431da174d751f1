//! All limits and choices of the stack, checked at start.

use ringway_shm::Duration;

/// Congestion control algorithms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// RFC 9438
    #[default]
    Cubic,
    /// RFC 5681, RFC 6582
    NewReno,
    /// draft-ietf-ccwg-bbr
    Bbr,
    /// RFC 8257; asks for ECN whatever [`TcpConfig::ecn`] says, as in Linux.
    Dctcp,
}

impl CongestionControl {
    /// All of them. Applications name them by their place here.
    pub const ALL: [CongestionControl; 4] =
        [CongestionControl::NewReno, CongestionControl::Cubic, CongestionControl::Bbr, CongestionControl::Dctcp];

    /// The name that Linux gives it.
    pub fn name(self) -> &'static str {
        match self {
            CongestionControl::Cubic => "cubic",
            CongestionControl::NewReno => "reno",
            CongestionControl::Bbr => "bbr",
            CongestionControl::Dctcp => "dctcp",
        }
    }

    /// The one with this name.
    pub fn from_name(name: &str) -> Option<CongestionControl> {
        CongestionControl::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// When SYN cookies (RFC 4987) answer instead of a place in the SYN queue; Linux tcp_syncookies 0, 1, 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SynCookies {
    /// Never: a full queue loses its oldest record.
    Off,
    /// When the queue is full.
    #[default]
    WhenFull,
    /// Always.
    Always,
}

/// Explicit congestion notification: what is requested in our SYNs, and what is answered. Linux: net.ipv4.tcp_ecn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// 0: neither.
    Off,
    /// 1: RFC 3168 is requested, and answered.
    Request,
    /// 2: RFC 3168 is answered.
    #[default]
    Passive,
    /// 3: RFC 9768 is requested, and answered, as is RFC 3168.
    AccurateRequest,
    /// 4: RFC 9768 is answered; RFC 3168 is requested.
    AccuratePassiveRequest,
    /// 5: RFC 9768 is answered, as is RFC 3168.
    AccuratePassive,
}

impl Ecn {
    /// From the number that Linux uses.
    pub fn from_number(number: u64) -> Option<Ecn> {
        use Ecn::{AccuratePassive, AccuratePassiveRequest, AccurateRequest, Off, Passive, Request};
        [Off, Request, Passive, AccurateRequest, AccuratePassiveRequest, AccuratePassive].get(number as usize).copied()
    }
}

/// RFC 7413, as Linux's tcp_fastopen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastOpenConfig {
    /// Active opens may carry data (bit 0).
    pub client: bool,
    /// Listeners may take it (bit 1).
    pub server: bool,
    /// Data is sent without a cookie (bit 2).
    pub client_without_cookie: bool,
    /// Data is taken without a cookie (bit 9).
    pub server_without_cookie: bool,
    /// Listeners need not ask for it (bit 10).
    pub every_listener: bool,
    /// How long no data is sent in SYNs after those with data went lost and those without did not; zero: no matter.
    pub black_hole_rest: Duration,
    /// Of listeners that have none of their own; `None`: made of the seed. Hosts behind one address share them.
    pub keys: Option<FastOpenKeys>,
}

impl FastOpenConfig {
    /// What the number in Linux's net.ipv4.tcp_fastopen means.
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

/// Secrets of which Fast Open cookies are made (RFC 7413 §4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastOpenKeys {
    /// Makes cookies.
    pub primary: [u8; 16],
    /// Cookies made with this one are still good.
    pub backup: Option<[u8; 16]>,
}

/// Packetization-layer path MTU discovery (RFC 4821); Linux: tcp_mtu_probing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MtuProbing {
    /// Only ICMP tells (RFC 1191). Linux: 0.
    Off,
    /// When segments vanish. Linux: 1.
    #[default]
    BlackHole,
    /// On every connection. Linux: 2.
    Always,
}

/// Limits and defaults of one stack.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// Secret for ISNs, ports, hashes: everything that must not be guessed comes from here.
    pub seed: u64,
    /// Connections at most, in all states with a full control block.
    pub connections_max: u32,
    /// Listeners at most.
    pub listeners_max: u32,
    /// Half-open connections (SYN-RECEIVED records) at most; of one listener no more than its backlog.
    pub syn_queue_max: u32,
    /// Of those, the ones of all listeners of one owner ([`Stack::set_owner`](crate::Stack::set_owner)) at most.
    pub half_open_per_owner_max: u32,
    /// TIME-WAIT records at most; the oldest goes when full.
    pub time_wait_max: u32,
    /// Neighbors at most.
    pub neighbors_max: u32,
    /// Packets that wait for one unresolved neighbor.
    pub neighbor_queue_max: u32,
    /// Replies (RST, ICMP, challenge ACK) per second at most.
    pub replies_per_second: u32,
    /// Memory that fragments which wait for others may hold, bytes; Linux ipfrag_high_thresh: 4 MiB.
    pub reassembly_memory_bytes: u32,
    /// Destinations whose path MTU is remembered at most.
    pub path_mtus_max: u32,
    /// TCP defaults.
    pub tcp: TcpConfig,
    /// UDP defaults.
    pub udp: UdpConfig,
}

/// Limits and defaults of UDP; a socket may override some with [`UdpOptions`].
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// Sockets at most.
    pub sockets_max: u32,
    /// Send buffer, bytes of memory; Linux net.core.wmem_default: 212,992.
    pub send_buffer_bytes: u32,
    /// Receive buffer, bytes of memory; Linux net.core.rmem_default: 212,992.
    pub receive_buffer_bytes: u32,
}

/// What is done about packets larger than the path takes: IP_MTU_DISCOVER.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathMtuDiscovery {
    /// Fragment what is too large; "don't fragment" is set on what is not (Linux's default).
    #[default]
    Want,
    /// Never set "don't fragment".
    Dont,
    /// Always set it; what is too large is refused.
    Do,
    /// As `Do`, but only the link's MTU counts, not what routers have said.
    Probe,
    /// Only the link's MTU counts, and routers may cut.
    Interface,
    /// As `Interface`, and what is too large is cut here.
    Omit,
}

impl PathMtuDiscovery {
    /// From the number that Linux uses (ip(7)).
    pub fn from_number(number: u32) -> Option<PathMtuDiscovery> {
        use PathMtuDiscovery::{Do, Dont, Interface, Omit, Probe, Want};
        [Dont, Want, Do, Probe, Interface, Omit].get(number as usize).copied()
    }

    /// Whether datagrams are made for the path's MTU, not for the link's.
    pub(crate) fn is_learning(self) -> bool {
        matches!(self, PathMtuDiscovery::Want | PathMtuDiscovery::Dont | PathMtuDiscovery::Do)
    }
}

/// What an application may ask for on one UDP socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// SO_REUSEADDR: others that ask for it too may bind the same address.
    pub reuse_address: bool,
    /// SO_REUSEPORT: as above, and datagrams are shared out among them by the hash of the flow.
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
    /// IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS; zero: what is sent to groups stays on this host.
    pub multicast_time_to_live: u8,
    /// IP_MULTICAST_IF, IPV6_MULTICAST_IF; `None`: as the routes say.
    pub multicast_interface: Option<u32>,
    /// IP_MULTICAST_LOOP: sockets of this host that have joined hear what is sent to their group.
    pub multicast_loop: bool,
    /// IP_MULTICAST_ALL: also groups that only other sockets have joined are heard.
    pub multicast_all: bool,
    /// SO_NO_CHECK (IPv4 only)
    pub no_checksum: bool,
    /// IP_MTU_DISCOVER
    pub path_mtu_discovery: PathMtuDiscovery,
    /// IP_RECVERR: ICMP errors are kept for `udp_error_report`, also on an unconnected socket.
    pub receive_errors: bool,
    /// SO_SNDBUF; zero: the default.
    pub send_buffer_bytes: u32,
    /// SO_RCVBUF; zero: the default.
    pub receive_buffer_bytes: u32,
    /// UDP_SEGMENT; zero: none. A call may name another.
    pub segment_size: u16,
    /// UDP_GRO: datagrams of one flow and size that come together are given as one message.
    pub coalesce: bool,
}

/// Defaults of TCP; a socket may override some with [`TcpOptions`].
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// For new connections.
    pub congestion_control: CongestionControl,
    /// Largest send buffer to which a connection may grow, bytes; Linux: the third number of tcp_wmem, 4 MiB. BBR holds two
    /// bandwidth-delay products, and a repair of a repair a third one.
    pub send_buffer_bytes: u32,
    /// Send buffer before any growth, bytes.
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
    /// ACKs are delayed by a quarter of the round trip, but at least by this; Linux: 40 ms.
    pub delayed_ack_min: Duration,
    /// So many full segments at the start of a connection are acknowledged at once (Linux: 16); 0: the delay is the same
    /// from the first segment on, which saves short exchanges a packet.
    pub quick_start_segments: u8,
    /// Retransmissions of data before the connection is given up; Linux tcp_retries2: 15.
    pub retries: u8,
    /// Retransmissions of SYN; Linux tcp_syn_retries: 6.
    pub syn_retries: u8,
    /// So many retransmissions of a SYN come at equal distances before the distance doubles (Linux tcp_syn_linear_timeouts);
    /// RFC 6298 (5.5): 0.
    pub syn_linear_timeouts: u8,
    /// Retransmissions of SYN-ACK; Linux tcp_synack_retries: 5.
    pub synack_retries: u8,
    /// How long a connection that has answered an impossible segment does not answer another one; Linux
    /// tcp_invalid_ratelimit: 500 ms.
    pub invalid_interval: Duration,
    /// RFC 7413; Linux: clients only.
    pub fast_open: FastOpenConfig,
    /// RFC 4987
    pub syn_cookies: SynCookies,
    /// How long a closed connection stays in TIME-WAIT; Linux: 60 s.
    pub time_wait: Duration,
    /// How long an orphan waits in FIN-WAIT-2; Linux tcp_fin_timeout: 60 s.
    pub fin_timeout: Duration,
    /// Idle time before keepalive; Linux: 2 h.
    pub keepalive_idle: Duration,
    /// Time between keepalives; Linux: 75 s.
    pub keepalive_interval: Duration,
    /// Unanswered keepalives before the connection is given up; Linux: 9.
    pub keepalive_probes: u8,
    /// First and last port for active opens, when the caller names none.
    pub ephemeral_ports: (u16, u16),
    /// RFC 7323 timestamps.
    pub timestamps: bool,
    /// RFC 7323 §3.2: segments without a timestamp are dropped where timestamps were agreed on; Linux takes them.
    pub timestamps_required: bool,
    /// RFC 7323 window scaling.
    pub window_scaling: bool,
    /// RFC 2018 selective acknowledgment.
    pub sack: bool,
    /// RFC 8985 RACK: losses by time, where SACK is on; otherwise RFC 6675.
    pub rack: bool,
    /// RFC 8985 tail loss probes, where RACK is on.
    pub tail_loss_probe: bool,
    /// RFC 5682 F-RTO, where RACK is on.
    pub f_rto: bool,
    /// RFC 4821.
    pub mtu_probing: MtuProbing,
    /// Payload bytes from which the search for the path MTU starts; Linux tcp_base_mss: 1024.
    pub mtu_base_mss: u16,
    /// RFC 6928 initial window, segments.
    pub initial_window: u8,
    /// Connections whose congestion control does not pace are paced at the rate of their window.
    pub pacing: bool,
    /// RFC 3168 and RFC 9768.
    pub ecn: Ecn,
    /// RFC 9768 §3.2.3: counts of bytes are told in an option (Linux: tcp_ecn_option).
    pub accurate_option: bool,
    /// RFC 3168 §6.1.1.1: a SYN that is sent again does not ask for ECN (Linux: tcp_ecn_fallback).
    pub ecn_fallback: bool,
    /// RFC 5681 §4.1: after an idle time the window restarts from its initial size (Linux: tcp_slow_start_after_idle).
    pub restart_after_idle: bool,
    /// PSH also on the last segment of each train that Linux would hand to a link as one packet, so that a receiver which
    /// coalesces does not wait; the least train, segments (Linux tcp_min_tso_segs: 2). 0: only where the data ends.
    pub push_trains: u8,
    /// Payload bytes that one call writes at most while small messages are sent as well; otherwise, and as the default, 512 KiB.
    pub turn_beside_small_bytes: u32,
}

/// What one socket chooses for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// TCP_NODELAY: no Nagle.
    pub no_delay: bool,
    /// TCP_CORK: hold partial segments.
    pub cork: bool,
    /// TCP_QUICKACK: ACKs go at once until the connection answers, or wait from the first segment on; `None`: not set.
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
    /// SO_SNDBUF; zero: as much as the congestion window asks for.
    pub send_buffer_bytes: u32,
    /// SO_RCVBUF; zero: the default.
    pub receive_buffer_bytes: u32,
    /// TCP_MAXSEG; zero: from the MTU.
    pub maximum_segment_size: u16,
    /// TCP_CONGESTION
    pub congestion_control: CongestionControl,
    /// SO_MAX_PACING_RATE, bytes per second; zero: none.
    pub pacing_rate_max: u64,
    /// IP_TOS, the DSCP bits.
    pub type_of_service: u8,
    /// IP_TTL; zero: 64.
    pub time_to_live: u8,
    /// TCP_FASTOPEN_CONNECT or MSG_FASTOPEN: an active open may wait for data that its SYN carries.
    pub fast_open: bool,
    /// TCP_FASTOPEN_NO_COOKIE
    pub fast_open_without_cookie: bool,
    /// TCP_FASTOPEN of a listener: connections at most that have sent data and not finished the handshake.
    pub fast_open_queue: u32,
    /// TCP_NOTSENT_LOWAT: bytes that may be queued and not sent yet; zero: as many as the send buffer holds.
    pub not_sent_low_water: u32,
    /// TCP_DEFER_ACCEPT of a listener: so many SYN-ACKs are not sent again while the peer has not sent data; zero: a
    /// connection is offered when the handshake is over.
    pub defer_accept_retries: u8,
    /// TCP_SYNCNT: retransmissions of the SYN; zero: the default.
    pub syn_retries: u8,
    /// TCP_WINDOW_CLAMP: largest window that is told, bytes; zero: none.
    pub window_clamp: u32,
    /// TCP_LINGER2: how long an orphan waits in FIN-WAIT-2; `None`: the default; zero: not at all.
    pub fin_timeout: Option<Duration>,
    /// IP_MTU_DISCOVER, IPV6_MTU_DISCOVER: whether routers may cut segments, and whether they are believed.
    pub path_mtu_discovery: PathMtuDiscovery,
    /// SO_REUSEPORT of a listener: others that have it may serve the same address, and connections are shared out among them by
    /// the hash of the flow.
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
