//! Every configuration key: type, range, default, reason. Reading and showing follow this table.

use ringway_channel::attach::WORKERS_MAX;
use ringway_engine::Quota;

/// One key.
#[derive(Debug)]
pub struct Key {
    /// `section.key`; a unit stands at the end.
    pub path: &'static str,
    /// The values that may stand there.
    pub kind: Kind,
    /// Its effect, and the reason for the default.
    pub why: &'static str,
}

/// The values that may stand at a key.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Flag {
        /// Value when not set.
        default: bool,
    },
    /// A whole number in a range.
    Number {
        /// Value when not set.
        default: u64,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A whole number in a range, or `"auto"`, which is the default.
    AutoNumber {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// One of some words.
    Choice {
        /// Value when not set.
        default: &'static str,
        /// The words.
        choices: &'static [&'static str],
    },
    /// Any text.
    Text {
        /// Value when not set.
        default: &'static str,
    },
    /// An IP address, with a prefix length where `prefix` says so; empty: none.
    Address {
        /// Written as `10.0.0.2/24`.
        prefix: bool,
    },
    /// One text or a list of them.
    Texts {
        /// Value when not set.
        default: &'static [&'static str],
    },
}

impl Key {
    /// The section's name.
    pub fn section(&self) -> &'static str {
        self.path.split_once('.').expect("every path of the table has a dot").0
    }

    /// The name inside the section.
    pub fn name(&self) -> &'static str {
        self.path.split_once('.').expect("every path of the table has a dot").1
    }
}

const fn number(path: &'static str, default: u64, min: u64, max: u64, why: &'static str) -> Key {
    Key { path, kind: Kind::Number { default, min, max }, why }
}

const fn auto_number(path: &'static str, min: u64, max: u64, why: &'static str) -> Key {
    Key { path, kind: Kind::AutoNumber { min, max }, why }
}

const fn flag(path: &'static str, default: bool, why: &'static str) -> Key {
    Key { path, kind: Kind::Flag { default }, why }
}

const fn choice(path: &'static str, default: &'static str, choices: &'static [&'static str], why: &'static str) -> Key {
    Key { path, kind: Kind::Choice { default, choices }, why }
}

const fn text(path: &'static str, default: &'static str, why: &'static str) -> Key {
    Key { path, kind: Kind::Text { default }, why }
}

const fn address(path: &'static str, why: &'static str) -> Key {
    Key { path, kind: Kind::Address { prefix: false }, why }
}

/// An address with its prefix length.
const fn network(path: &'static str, why: &'static str) -> Key {
    Key { path, kind: Kind::Address { prefix: true }, why }
}

const fn texts(path: &'static str, default: &'static [&'static str], why: &'static str) -> Key {
    Key { path, kind: Kind::Texts { default }, why }
}

/// All keys, section by section.
pub const KEYS: &[Key] = &[
    texts(
        "interface.name",
        &["auto"],
        "Interfaces to share with the kernel. auto: every one that is up, is not the loopback and has an IPv4 address.",
    ),
    choice(
        "interface.device",
        "auto",
        &["auto", "packet", "xdp", "tap"],
        "How packets are carried. packet: AF_PACKET with vnet headers, segments up to 64 KiB. xdp: AF_XDP, least work per packet. \
         tap: an interface of its own with its own address. auto: packet, because it needs no help from the driver and \
         carries large segments; where a service finds at its start that packet sockets do not work, xdp, if it passes its self-test.",
    ),
    choice(
        "interface.xdp_mode",
        "auto",
        &["auto", "native", "zero_copy", "generic"],
        "How AF_XDP is attached where interface.device is xdp. native: in the driver, packets are copied. zero_copy: in the driver, \
         into memory of the stack, else native, else generic. generic: above the driver, with any card. auto: native, else generic. \
         Each is tested towards a neighbor before it serves; where it fails, the next one is tried, and packet sockets at last. \
         Checksums are always made by the stack.",
    ),
    network("interface.address", "Address and prefix length of the stack on a tap device; empty with all others."),
    address(
        "interface.gateway",
        "The kernel's address on the other end of a tap device, and the stack's default route. Empty: the first of the network.",
    ),
    network("interface.address6", "The same over IPv6, beside the IPv4 address. Empty: none."),
    address("interface.gateway6", "The same as interface.gateway over IPv6."),
    auto_number("interface.mtu", 576, 65_535, "Largest IP packet in bytes. auto: the interface's own."),
    choice(
        "interface.autoconfiguration",
        "off",
        &["off", "stable", "eui64"],
        "IPv6 addresses that the stack makes for itself on a tap device, with the routers it hears (RFC 4862). stable: the same \
         in one network, another in the next (RFC 7217). eui64: made of the link address, which is a new one at each start. \
         off: only a link with a router that is meant for it should give the stack addresses.",
    ),
    number(
        "interface.vlan",
        0,
        0,
        4_094,
        "VLAN (802.1Q) that the stack is on, on a tap device: only its tagged packets come in, all that leave are tagged, and \
         the kernel's end gets no address. 0: none.",
    ),
    texts(
        "interface.priorities",
        &["kernel"],
        "Place of what leaves in the queueing discipline of an interface that packet sockets serve, as DSCP=PRIORITY: \"EF=6\", \"AF41=5\", \"8=1\". \
         The discipline makes bands of priorities: of pfifo_fast and tc-prio(8), 6 goes first, 0 and 4 follow, 2 is last. DSCPs that are not \
         named have the priority that the kernel gives for IP_TOS. kernel: all have that.",
    ),
    auto_number(
        "worker.spin_us",
        0,
        10_000,
        "How long the worker looks for work before it sleeps, giving way to whoever else wants its processor. Spinning saves \
         a wakeup per packet. auto: twice what a wakeup costs, which the worker measures: 10 to 100, 60 before it knows. It \
         spins while that pays, and never when nothing has happened for longer than this. Programs under `ringway run` do as \
         the worker does, up to 100.",
    ),
    auto_number(
        "worker.core",
        0,
        1_023,
        "Processor to run the first worker on; each other one runs on the next. auto: the scheduler's choice.",
    ),
    number(
        "worker.count",
        1,
        1,
        WORKERS_MAX as u64,
        "Workers: threads that each serve a share of the connections, with buffers of their own. More than one pay where one \
         is busy all the time and processors are idle beside it. A tap device has one.",
    ),
    number(
        "worker.balance_percent",
        60,
        0,
        100,
        "A worker that is busy for more than this share of its time, and more than others, hands a part of its flow groups over \
         to the least busy one: the new connections of every listener, those that are open stay. 100: never.",
    ),
    number(
        "memory.frames_large",
        32_768,
        512,
        4_194_304,
        "Packet buffers of 2 KiB, reserved at start and touched when used. Received packets and unacknowledged data live in \
         them: 32,768 are 64 MiB.",
    ),
    number(
        "memory.frames_small",
        131_072,
        512,
        4_194_304,
        "Packet buffers of 256 B, for acknowledgments and small messages: three quarters of them may be answers that clients have \
         yet to acknowledge, one of each of 98,000 connections.",
    ),
    number(
        "memory.slots",
        262_144,
        128,
        1_048_576,
        "Sockets that the shared memory of an application has room for, a power of two; half of them for connections that it \
         accepts. 256 B each, touched when used. With several workers each has as many, but all together 1,048,576 at most.",
    ),
    number(
        "memory.chunks_large",
        4_096,
        16,
        1_048_576,
        "Chunks of 2 KiB between an application and the worker, for each direction: what may be under way and unread. \
         Memory is touched when used.",
    ),
    number("memory.chunks_small", 4_096, 16, 1_048_576, "Chunks of 256 B, for each direction."),
    number(
        "memory.chunks_bulk",
        1_024,
        0,
        65_536,
        "Chunks of 32 KiB for what an application sends more than 2 KiB of at once: they leave without being copied and come \
         back when the peer has acknowledged them. For each one, one of 16 KiB for packets of such a size that arrive, and for \
         each eight one of 64 KiB for larger packets.",
    ),
    choice(
        "tcp.congestion_control",
        "cubic",
        &["cubic", "newreno", "bbr", "dctcp"],
        "For new connections. cubic (RFC 9438) is what Linux does by default; bbr (version 3) bears random losses and keeps \
         queues short; dctcp (RFC 8257) is for data centers only.",
    ),
    flag(
        "tcp.pacing",
        false,
        "Data leaves at the rate of the window instead of in bursts, also with a congestion control that does not ask for it.",
    ),
    number(
        "tcp.send_buffer_bytes",
        16_777_216,
        4_096,
        1_073_741_824,
        "Data of one connection that may be unacknowledged or unsent at most: twice the congestion window, with bbr three times, \
         up to this (the last of tcp_wmem, there 4 MiB). SO_SNDBUF sets a size of its own.",
    ),
    number(
        "tcp.send_buffer_initial_bytes",
        262_144,
        4_096,
        1_073_741_824,
        "The same before the congestion window has asked for more.",
    ),
    number(
        "tcp.receive_buffer_bytes",
        16_777_216,
        4_096,
        1_073_741_824,
        "Data of one connection that may be unread; bounds the window, which grows as the program reads. 16 MiB fill 1 Gb/s at 128 ms.",
    ),
    number("tcp.rto_min_ms", 200, 1, 60_000, "Shortest retransmission timeout. RFC 6298 says 1 s; Linux and we say 200 ms."),
    number(
        "tcp.rto_max_ms",
        120_000,
        1_000,
        3_600_000,
        "Longest retransmission timeout. RFC 6298 wants at least 60 s; Linux has 120 s.",
    ),
    number("tcp.rto_initial_ms", 1_000, 1, 60_000, "Before the first round trip is measured (RFC 6298)."),
    number(
        "tcp.delayed_ack_ms",
        40,
        0,
        500,
        "How long an acknowledgment may wait for data to ride on. RFC 9293 allows 500 ms; Linux has 40 ms.",
    ),
    number("tcp.retries", 15, 3, 255, "Retransmissions of data before a connection is given up (tcp_retries2)."),
    number("tcp.syn_retries", 6, 0, 127, "Retransmissions of a SYN (tcp_syn_retries)."),
    number("tcp.synack_retries", 5, 0, 127, "Retransmissions of a SYN-ACK (tcp_synack_retries)."),
    number(
        "tcp.fast_open",
        1,
        0,
        2_047,
        "RFC 7413 Fast Open, as Linux's tcp_fastopen: 1 clients, 2 servers, 4 clients without a cookie, 512 servers without \
         a cookie, 1024 all listeners; a sum of them.",
    ),
    text(
        "tcp.fast_open_keys",
        "",
        "Keys of Fast Open cookies of listeners that set none: one, or two with a comma between them, as \
         net.ipv4.tcp_fastopen_key has them. The cookies of the second are good too. Empty: a key of this boot.",
    ),
    choice(
        "tcp.syn_cookies",
        "when_full",
        &["off", "when_full", "always"],
        "SYN cookies (RFC 4987) in place of a remembered handshake: when a listener's queue is full, as Linux's tcp_syncookies 1.",
    ),
    number(
        "tcp.time_wait_ms",
        60_000,
        0,
        600_000,
        "How long a closed connection's addresses stay taken. RFC 9293: 2 MSL; Linux: 60 s.",
    ),
    number(
        "tcp.fin_timeout_ms",
        60_000,
        0,
        600_000,
        "How long a connection that nobody holds waits for the peer's FIN (tcp_fin_timeout).",
    ),
    number(
        "tcp.keepalive_idle_ms",
        7_200_000,
        1_000,
        32_767_000,
        "Silence before keepalive probes, where SO_KEEPALIVE is set (tcp_keepalive_time).",
    ),
    number("tcp.keepalive_interval_ms", 75_000, 1_000, 32_767_000, "Between keepalive probes (tcp_keepalive_intvl)."),
    number("tcp.keepalive_probes", 9, 1, 127, "Unanswered probes before a connection is given up (tcp_keepalive_probes)."),
    number("tcp.ephemeral_port_first", 32_768, 1_024, 65_535, "First port for connections that name none (ip_local_port_range)."),
    number("tcp.ephemeral_port_last", 60_999, 1_024, 65_535, "Last of them."),
    flag("tcp.timestamps", true, "RFC 7323 timestamps: a round trip per acknowledgment, and old duplicates are recognized."),
    flag("tcp.window_scaling", true, "RFC 7323 window scaling: without it no window exceeds 64 KiB."),
    flag("tcp.sack", true, "RFC 2018 selective acknowledgment: without it one loss per round trip is repaired."),
    choice(
        "tcp.ecn",
        "passive",
        &["off", "request", "passive", "accurate_request", "accurate_passive_request", "accurate_passive"],
        "Congestion marks instead of losses (RFC 3168, net.ipv4.tcp_ecn = 0 to 5): asked for in our SYNs, or only answered.",
    ),
    flag("tcp.rack", true, "RFC 8985 RACK: losses are found by time; otherwise by counting (RFC 6675)."),
    flag("tcp.tail_loss_probe", true, "RFC 8985 tail loss probes, where RACK is on: fewer timeouts."),
    flag("tcp.f_rto", true, "RFC 5682: timeouts that were not needed are recognized and undone."),
    choice(
        "tcp.mtu_probing",
        "black_hole",
        &["off", "black_hole", "always"],
        "RFC 4821: the size that a path lets through is searched when large segments vanish (tcp_mtu_probing 1; Linux: 0).",
    ),
    number("tcp.mtu_base_mss", 1_024, 48, 9_000, "Payload bytes where that search begins (tcp_base_mss)."),
    number("tcp.initial_window", 10, 1, 64, "Segments sent before the first acknowledgment (RFC 6928: 10)."),
    number("limits.connections", 262_144, 16, 4_194_304, "Connections of all applications."),
    number("limits.listeners", 1_024, 1, 65_536, "Listening sockets of all applications."),
    number("limits.syn_queue", 4_096, 16, 1_048_576, "Connections whose handshake is not complete."),
    number("limits.time_wait", 65_536, 0, 4_194_304, "Connections in TIME-WAIT; the oldest goes when there are more."),
    number("limits.neighbors", 4_096, 16, 1_048_576, "Link addresses of neighbors."),
    number("limits.neighbor_queue", 64, 1, 4_096, "Packets that wait for one neighbor's link address."),
    number(
        "limits.replies_per_second",
        1_000,
        1,
        1_000_000,
        "Resets, challenge ACKs and ICMP errors: what anybody can make us send.",
    ),
    number(
        "limits.groups",
        Quota::Groups.default_number(),
        1,
        4_096,
        "Applications that may be attached (all descendants of one `ringway run` are one).",
    ),
    number(
        "limits.groups_per_user",
        Quota::GroupsOfUser.default_number(),
        1,
        4_096,
        "Applications of one user other than root that may be attached, so that it leaves some to others.",
    ),
    number(
        "limits.orphans",
        Quota::Orphans.default_number(),
        1,
        1_048_576,
        "Connections at most that their program has closed or left and that are not over yet (tcp_max_orphans); what is closed \
         beyond that is reset.",
    ),
    number(
        "limits.shown_sockets",
        Quota::ShownSockets.default_number(),
        16,
        1_048_576,
        "Ports that programs listen on or have bound, of all users, each with a descriptor of the service; others are the kernel's.",
    ),
    number(
        "limits.shown_sockets_per_user",
        Quota::ShownSocketsOfUser.default_number(),
        1,
        1_048_576,
        "Those of one user, so that it leaves some to others.",
    ),
    auto_number(
        "limits.wait_contexts",
        16,
        1_048_576,
        "Threads and epoll instances that wait, of all users, each with a descriptor of the service. Beyond that a process has \
         two, which its threads share. auto: a quarter of RLIMIT_NOFILE.",
    ),
    auto_number("limits.wait_contexts_per_user", 2, 1_048_576, "Those of one user. auto: an eighth of RLIMIT_NOFILE."),
    auto_number(
        "limits.ports",
        16,
        1_048_576,
        "Ports that the service chooses for connections, each with a descriptor. Beyond that one port serves connections to many \
         peers. auto: three quarters of RLIMIT_NOFILE.",
    ),
    number("limits.ports_per_user", Quota::PortsOfUser.default_number(), 1, 1_048_576, "Those of one user, at each worker."),
    number(
        "limits.half_open_per_user",
        Quota::HalfOpenOfUser.default_number(),
        1,
        1_048_576,
        "Of limits.syn_queue, what the listeners of one user may have. Beyond that a SYN gets a SYN cookie, or, without those, \
         the listener's oldest place.",
    ),
    number(
        "limits.kernel_packets_per_second",
        Quota::KernelPackets.default_number(),
        0,
        100_000_000,
        "Packets of served ports that go on to the kernel: of connections that it has taken home or had before, and new ones of a port that goes \
         back to it. Beyond that they are dropped. It bounds what a flood of such packets costs the machine, and bulk data that the kernel \
         carries on, too. 0: no bound.",
    ),
    number(
        "limits.attach_connections",
        Quota::Connections.default_number(),
        16,
        1_048_576,
        "Processes that are connected to the service, whose descriptors that takes; others are refused.",
    ),
    number(
        "limits.silent_connections_per_user",
        Quota::SilentOfUser.default_number(),
        1,
        65_536,
        "Of those, the ones of a user that have not yet said what they want.",
    ),
    number(
        "limits.sockets_per_group",
        Quota::SocketsOfGroup.default_number(),
        16,
        1_048_576,
        "Sockets of one application, so that it leaves some to others. Beyond that its own are the kernel's, and peers that \
         connect to it are not answered until others have gone.",
    ),
    number(
        "limits.processes_per_group",
        Quota::ProcessesOfGroup.default_number(),
        1,
        4_032,
        "Processes of one application. The sockets that a child beyond that inherits report ECONNRESET.",
    ),
    number(
        "limits.requests_per_second",
        Quota::RequestsOfGroup.default_number(),
        1,
        100_000_000,
        "What one application may ask of a worker: a request is a call, or many that fall together. Those beyond that wait.",
    ),
    auto_number(
        "limits.memory_per_group_mib",
        1,
        1_048_576,
        "Memory that one application shares with a worker, MiB. Less than the section memory makes of it means fewer chunks: \
         writers wait sooner, and peers whose data is not read. auto: what the section memory makes of it.",
    ),
    number(
        "limits.chunk_bytes_per_socket",
        Quota::ChunksOfSocket.default_number(),
        4_096,
        16_777_216,
        "Bytes of that memory that one socket may hold in each direction. The worker itself allows less than the default: at \
         most 256 KiB to read, and 768 KiB to send.",
    ),
    choice("policy.loopback", "kernel", &["kernel"], "Who serves 127.0.0.0/8 and connections to the machine's own addresses."),
    choice(
        "policy.multicast",
        "kernel",
        &["kernel", "stack"],
        "Who receives datagrams to the multicast groups that unmodified programs join over IPv4. kernel: the kernel. stack: Ringway, and the kernel for its own \
         sockets, at interfaces that packet sockets share; the kernel stays the member of the group and sends to it. A tap device's groups are \
         always Ringway's. Counts for what programs join from then on.",
    ),
    choice(
        "policy.bulk",
        "auto",
        &["auto", "stack", "sent", "kernel"],
        "Who carries bulk data of unmodified programs. auto: what `ringway doctor --measure` has found to be faster with this kernel; where it \
         was not measured, sent. stack: Ringway. sent: a connection on which the program has sent policy.bulk_after_mib, \
         and still sends more than 1 Gbit/s, goes to the kernel, without an error or a lost byte; all others stay. kernel: the same for what \
         programs send or receive.",
    ),
    number("policy.bulk_after_mib", 8, 1, 1_048_576, "MiB in one direction from which on a connection may count as bulk data."),
    flag(
        "policy.strict",
        false,
        "What cannot be served is an error for the program instead of going to the kernel (RINGWAY_STRICT=1).",
    ),
    choice(
        "policy.firewall",
        "respect",
        &["respect", "warn", "ignore"],
        "Packets of served ports do not pass nftables, iptables, and BPF programs of cgroups and interfaces. respect: a port or \
         connection of which the rules could refuse a packet, or a socket or interface that such a program sees, is the kernel's, \
         also when the rule or program comes later; an interface, where they cannot be read. warn: it is served, and the rule or \
         program is named. ignore: they are not read.",
    ),
    choice(
        "policy.routing",
        "respect",
        &["respect", "warn", "ignore"],
        "Ringway knows the main routing table. respect: interfaces stay with the kernel while a rule of policy routing (ip rule) \
         asks for another table, and those of a VRF do. warn: they are served, and the rule is named. ignore: rules do not matter.",
    ),
    choice(
        "policy.adopt",
        "listeners",
        &["listeners", "all", "none"],
        "Programs attach again when a service of the same name is back. listeners: those that the service before has served are \
         served again, without a restart of the program. all: connections that the kernel has got from it, and that a listener has accepted, come back \
         too, when nothing of them is under way. none: all stay with the kernel; what a program opens anew is served.",
    ),
    text(
        "policy.group",
        "ringway",
        "Members of this group may attach to `ringway serve`, besides root and the service's own user.",
    ),
    text(
        "log.filter",
        "info",
        "Levels of what stands on standard error: off, error, warn, info, debug, trace; for a part of the log its own, as \
         info,ringway::attach=debug. The record that `ringway log` reads has everything down to debug.",
    ),
    choice(
        "log.format",
        "auto",
        &["auto", "plain", "text", "json", "journald"],
        "How a line looks on standard error. plain: what has happened. text: time, level, part of the log and values with it. json: an \
         object a line. journald: where systemd's journal reads, an entry of it with the values as fields (RINGWAY_PART, RINGWAY_PID); \
         elsewhere the level in front, as sd-daemon(3) has it. auto: journald where the journal reads, else plain.",
    ),
    choice(
        "service.profile",
        "none",
        &["none", "latency", "throughput", "many_connections", "memory"],
        "A named set of settings for a purpose, in place of the defaults; `ringway config profiles` lists them with their reasons. A key \
         that is set here or in the environment goes before it.",
    ),
    number(
        "service.drain_s",
        0,
        0,
        86_400,
        "At the end of the service new connections are the kernel's at once; those that there are may end by themselves for so long. Then \
         the kernel goes on with the rest, so there is no need to wait.",
    ),
    number(
        "service.handover_s",
        5,
        0,
        3_600,
        "How long the end of the service waits for its connections to go home to the kernel, which then goes on with them. Programs \
         hand a connection over at their next call or wake-up, so it takes milliseconds; what a program that makes none has open is \
         reset. 0: all connections are reset.",
    ),
    flag(
        "service.take_sockets",
        false,
        "Connections of programs that make no call for a second after they were asked, as one that sleeps, go home too: the service \
         takes their kernel sockets out of the processes (pidfd_getfd(2)). The threads that do this have CAP_SYS_PTRACE then, which a unit \
         must give; without it they reach programs of the service's own user only, where the kernel allows that.",
    ),
    choice(
        "service.seccomp",
        "on",
        &["on", "log", "off"],
        "System calls that the service does not make are refused to it (ENOSYS). log: they are let through and stand in the \
         kernel's log, to find one that is missing from the list. off: no filter, and about 80 ns less for each call.",
    ),
];
