//! The records of the statistics file as plain values, and their form in words.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Endpoint;
use crate::Instant;
use crate::reason::{KernelPath, KernelReason};

/// Words of a record.
pub(super) const WORDS: usize = 96;
const TEXT_WORDS: usize = 2;
/// Processes that are named of those that hold a socket.
pub const HOLDERS_NAMED: usize = 8;

/// A socket as `ss` shows it. Times in microseconds, sizes in bytes unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketRecord {
    /// Linux's number of the state: 1 ESTAB, 2 SYN-SENT, 3 SYN-RECV, 4 FIN-WAIT-1, 5 FIN-WAIT-2,
    /// 6 TIME-WAIT, 7 UNCONN, 8 CLOSE-WAIT, 9 LAST-ACK, 10 LISTEN, 11 CLOSING.
    pub state: u8,
    /// UDP; `false`: TCP.
    pub datagrams: bool,
    /// This end.
    pub local: Endpoint,
    /// The other end.
    pub remote: Endpoint,
    /// Not yet read by the application; of a listener: connections that wait.
    pub receive_queue: u32,
    /// Not yet acknowledged by the peer; of a listener: the backlog.
    pub send_queue: u32,
    /// Number of the interface, or `u32::MAX`.
    pub interface: u32,
    /// The process that has made the application group, alive or not; 0: no group has it any more.
    pub pid: u32,
    /// User of that process.
    pub uid: u32,
    /// Name of the program.
    pub program: String,
    /// The group's region and slot.
    pub region: u32,
    /// See `region`.
    pub slot: u32,
    /// Name of the congestion control, empty for listeners.
    pub congestion_control: String,
    /// What `ss -i` prints.
    pub info: InfoRecord,
    /// What `ss -o` prints; `None`: nothing is waited for.
    pub timer: Option<TimerRecord>,
    /// What `ss -m` prints: memory of received data, its limit, of data to send, its limit.
    pub memory: [u32; 4],
    /// The kernel serves it; `None`: Ringway does.
    pub kernel: Option<KernelPath>,
    /// The processes that have it, as the group says: to be believed like a program's own words; 0: none.
    pub holders: [u32; HOLDERS_NAMED],
    /// A number by which one of them knows it, as it says.
    pub descriptor: Option<u32>,
}

/// The timer of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerRecord {
    /// As Linux's inet_diag numbers them.
    pub kind: u8,
    /// Timeouts, or probes without an answer, in a row.
    pub retries: u8,
    /// When it expires.
    pub due: Instant,
}

impl TimerRecord {
    /// Something is sent again.
    pub const RETRANSMIT: u8 = 1;
    /// An idle connection is looked at.
    pub const KEEPALIVE: u8 = 2;
    /// TIME-WAIT ends.
    pub const TIME_WAIT: u8 = 3;
    /// A window that is shut is probed.
    pub const PERSIST: u8 = 4;

    /// Whether it sends again until it is answered.
    pub fn retransmits(&self) -> bool {
        matches!(self.kind, TimerRecord::RETRANSMIT | TimerRecord::PERSIST)
    }
}

macro_rules! info_record {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The measured state of a connection, as Linux's `tcp_info` has it.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct InfoRecord { $($(#[$doc])* pub $name: u64,)* }

        impl InfoRecord {
            /// Bytes of the form that travels.
            pub const BYTES: usize = [$(stringify!($name)),*].len() * 8;

            fn encode(&self, words: &mut Writer<'_>) {
                $(words.put(self.$name);)*
            }
            fn decode(words: &mut Reader<'_>) -> InfoRecord {
                InfoRecord { $($name: words.take(),)* }
            }
        }
    };
}

info_record! {
    /// Linux's number of the state, as in [`SocketRecord::state`]; 0: no such connection.
    state,
    /// Retransmission timeout.
    rto_us,
    /// Smoothed round-trip time.
    rtt_us,
    /// Its mean deviation.
    rtt_variance_us,
    /// Smallest round-trip time seen.
    rtt_min_us,
    /// Maximum segment size sent.
    mss,
    /// Size of the peer's segments, as far as known.
    mss_received,
    /// Maximum segment size advertised.
    mss_advertised,
    /// Path MTU.
    path_mtu,
    /// Congestion window, segments.
    cwnd_segments,
    /// Slow-start threshold, segments; `u64::MAX`: none yet.
    ssthresh_segments,
    /// Window scale of the peer's windows.
    scale_send,
    /// Window scale of our windows.
    scale_receive,
    /// Bit 0 timestamps, 1 SACK, 2 window scaling, 3 ECN.
    options,
    /// Segments in flight.
    unacked_segments,
    /// Segments known to be lost.
    lost_segments,
    /// Segments reported by SACK.
    sacked_segments,
    /// Retransmissions of the segment that is being sent again now.
    backoff,
    /// Segments sent again, in all.
    retransmitted_segments,
    /// Bytes sent again, in all.
    retransmitted_bytes,
    /// Payload bytes sent, with retransmissions.
    sent_bytes,
    /// Payload bytes acknowledged by the peer.
    acked_bytes,
    /// Payload bytes received.
    received_bytes,
    /// Segments sent.
    sent_segments,
    /// Segments received.
    received_segments,
    /// Bytes sent and not acknowledged.
    unacked_bytes,
    /// Bytes queued and never sent.
    unsent_bytes,
    /// Window the peer offers.
    send_window,
    /// Window we offer.
    receive_window,
    /// Time since data was sent, milliseconds.
    last_send_ms,
    /// Time since data was received, milliseconds.
    last_receive_ms,
    /// Time since an acknowledgment was received, milliseconds.
    last_ack_ms,
    /// Estimated delivery rate, bytes per second.
    delivery_rate,
    /// The application bounded that rate: 0 or 1.
    application_limited,
    /// Rate at which data leaves or would leave, bytes per second.
    pacing_rate,
    /// SO_MAX_PACING_RATE, bytes per second; 0: none.
    pacing_rate_max,
    /// Linux's tcpi_ca_state: 0 open, 1 disorder, 2 reducing for a mark, 3 recovery, 4 loss.
    congestion_state,
    /// Probes without an answer.
    probes,
    /// Delay of acknowledgments.
    ato_us,
    /// Segments sent again that may be under way.
    retransmitting_segments,
    /// Round trip as the receiver measures it; 0: not measured.
    receive_rtt_us,
    /// Most bytes that the application has read in such a round trip.
    receive_space,
    /// Segments received with payload.
    received_data_segments,
    /// Segments sent with payload.
    sent_data_segments,
    /// Time with unacknowledged or unsent data.
    busy_us,
    /// The part of it in which the peer's window let nothing out.
    window_limited_us,
    /// The part of it in which all of a full send buffer was under way.
    buffer_limited_us,
    /// Segments that have arrived at the peer.
    delivered_segments,
    /// Those of them with a congestion mark.
    delivered_ce,
    /// Segments that the peer reports to have received twice.
    duplicate_segments,
    /// Times that segments arrived at the peer in another order.
    reordered,
    /// How far at most, segments.
    reordering_segments,
    /// Packets received out of order.
    out_of_order_packets,
    /// Retransmission timeouts.
    timeouts,
    /// Those without another one right before them.
    timeout_episodes,
    /// How long such episodes have lasted, milliseconds.
    timeout_ms,
    /// Packets received with a congestion mark.
    received_ce,
    /// Payload bytes that arrived at the peer with ECT(1).
    delivered_bytes_ect_1,
    /// With ECT(0).
    delivered_bytes_ect_0,
    /// With a congestion mark.
    delivered_bytes_ce,
    /// Payload bytes received with ECT(1).
    received_bytes_ect_1,
    /// With ECT(0).
    received_bytes_ect_0,
    /// With a congestion mark.
    received_bytes_ce,
    /// Bit 0: options of RFC 9768 arrive.
    accurate_options,
    /// Linux's tcpi_fastopen_client_fail.
    fast_open_failure,
}

impl InfoRecord {
    /// The form that travels from a worker to an application (`Operation::Info`).
    pub fn to_bytes(&self) -> [u8; InfoRecord::BYTES] {
        let mut words = [0; WORDS];
        self.encode(&mut Writer { words: &mut words, at: 0 });
        let mut bytes = [0; InfoRecord::BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads [`to_bytes`](InfoRecord::to_bytes) back; what is missing is zero.
    pub fn from_bytes(bytes: &[u8]) -> InfoRecord {
        let mut words = [0; WORDS];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(place.try_into().expect("chunks of eight"));
        }
        InfoRecord::decode(&mut Reader { words: &words, at: 0 })
    }
}

/// An interface that a worker serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceRecord {
    /// Its name.
    pub name: String,
    /// Frames start with an Ethernet header; `false`: with an IP header.
    pub ethernet: bool,
    /// Its link address.
    pub mac: [u8; 6],
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets lost on the way in.
    pub rx_dropped: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that the wire refused.
    pub tx_dropped: u64,
    /// System calls made for packets.
    pub syscalls: u64,
}

struct Writer<'a> {
    words: &'a mut [u64; WORDS],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, word: u64) {
        self.words[self.at] = word;
        self.at += 1;
    }
    fn put_pair(&mut self, low: u32, high: u32) {
        self.put(u64::from(low) | u64::from(high) << 32);
    }
    fn put_text(&mut self, text: &str) {
        for word in text_words::<TEXT_WORDS>(text) {
            self.put(word);
        }
    }
    fn put_endpoint(&mut self, endpoint: &Endpoint) {
        let (family, bits) = match endpoint.ip {
            IpAddr::V4(ip) => (4, u128::from(ip.to_bits())),
            IpAddr::V6(ip) => (6, ip.to_bits()),
        };
        self.put_pair(u32::from(endpoint.port), family);
        self.put(bits as u64);
        self.put((bits >> 64) as u64);
    }
}

struct Reader<'a> {
    words: &'a [u64; WORDS],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self) -> u64 {
        self.at += 1;
        self.words[self.at - 1]
    }
    fn take_pair(&mut self) -> (u32, u32) {
        let word = self.take();
        (word as u32, (word >> 32) as u32)
    }
    fn take_text(&mut self) -> String {
        let words: [u64; TEXT_WORDS] = std::array::from_fn(|_| self.take());
        words_text(&words)
    }
    fn take_endpoint(&mut self) -> Endpoint {
        let (port, family) = self.take_pair();
        let bits = u128::from(self.take()) | u128::from(self.take()) << 64;
        let ip = match family {
            6 => IpAddr::V6(Ipv6Addr::from_bits(bits)),
            _ => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
        };
        Endpoint { ip, port: port as u16 }
    }
}

impl SocketRecord {
    pub(crate) fn encode(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let mut writer = Writer { words: &mut words, at: 0 };
        writer.put_pair(1, u32::from(self.state));
        writer.put_endpoint(&self.local);
        writer.put_endpoint(&self.remote);
        writer.put_pair(self.receive_queue, self.send_queue);
        writer.put_pair(self.interface, self.pid);
        writer.put_pair(self.uid, self.region);
        writer.put_pair(self.slot, self.datagrams.into());
        writer.put_text(&self.program);
        writer.put_text(&self.congestion_control);
        writer.put_pair(self.memory[0], self.memory[1]);
        writer.put_pair(self.memory[2], self.memory[3]);
        let timer = self.timer.unwrap_or(TimerRecord { kind: 0, retries: 0, due: Instant::ZERO });
        writer.put_pair(timer.kind.into(), timer.retries.into());
        writer.put(timer.due.as_nanos());
        let (reason, count) = self.kernel.map_or((0, 0), |path| (path.reason as u32, path.count));
        writer.put_pair(reason, count);
        self.holders.chunks_exact(2).for_each(|pair| writer.put_pair(pair[0], pair[1]));
        writer.put_pair(self.descriptor.is_some().into(), self.descriptor.unwrap_or(0));
        self.info.encode(&mut writer);
        words
    }

    /// The record in `words`; `None` when it is empty.
    pub(crate) fn decode(words: &[u64; WORDS]) -> Option<SocketRecord> {
        let mut reader = Reader { words, at: 0 };
        let (used, state) = reader.take_pair();
        if used == 0 {
            return None;
        }
        let local = reader.take_endpoint();
        let remote = reader.take_endpoint();
        let (receive_queue, send_queue) = reader.take_pair();
        let (interface, pid) = reader.take_pair();
        let (uid, region) = reader.take_pair();
        let (slot, datagrams) = reader.take_pair();
        let program = reader.take_text();
        let congestion_control = reader.take_text();
        let (read_memory, read_limit) = reader.take_pair();
        let (write_memory, write_limit) = reader.take_pair();
        let (kind, retries) = reader.take_pair();
        let due = Instant::from_nanos(reader.take());
        let (reason, count) = reader.take_pair();
        let mut holders = [0; HOLDERS_NAMED];
        holders.chunks_exact_mut(2).for_each(|pair| (pair[0], pair[1]) = reader.take_pair());
        let (has_descriptor, descriptor) = reader.take_pair();
        Some(SocketRecord {
            state: state as u8,
            datagrams: datagrams != 0,
            local,
            remote,
            receive_queue,
            send_queue,
            interface,
            pid,
            uid,
            program,
            region,
            slot,
            congestion_control,
            info: InfoRecord::decode(&mut reader),
            timer: (kind != 0).then_some(TimerRecord { kind: kind as u8, retries: retries as u8, due }),
            memory: [read_memory, read_limit, write_memory, write_limit],
            kernel: KernelReason::of(reason).map(|reason| KernelPath { reason, count }),
            holders,
            descriptor: (has_descriptor != 0).then_some(descriptor),
        })
    }
}

impl InterfaceRecord {
    pub(super) fn encode(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let mut writer = Writer { words: &mut words, at: 0 };
        writer.put_pair(1, u32::from(self.ethernet));
        writer.put_text(&self.name);
        let mac = self.mac;
        writer.put(u64::from_le_bytes([mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], 0, 0]));
        writer.put(u64::from(self.mtu));
        let counted = [self.rx_packets, self.rx_bytes, self.rx_dropped, self.tx_packets, self.tx_bytes, self.tx_dropped];
        for value in counted {
            writer.put(value);
        }
        writer.put(self.syscalls);
        words
    }

    pub(super) fn decode(words: &[u64; WORDS]) -> Option<InterfaceRecord> {
        let mut reader = Reader { words, at: 0 };
        let (used, ethernet) = reader.take_pair();
        if used == 0 {
            return None;
        }
        let name = reader.take_text();
        let mac = reader.take().to_le_bytes();
        Some(InterfaceRecord {
            name,
            ethernet: ethernet != 0,
            mac: [mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]],
            mtu: reader.take() as u32,
            rx_packets: reader.take(),
            rx_bytes: reader.take(),
            rx_dropped: reader.take(),
            tx_packets: reader.take(),
            tx_bytes: reader.take(),
            tx_dropped: reader.take(),
            syscalls: reader.take(),
        })
    }
}

/// `text` in words, cut at their end, padded with zeros.
pub(super) fn text_words<const N: usize>(text: &str) -> [u64; N] {
    let mut words = [0; N];
    for (index, byte) in text.bytes().take(N * 8).enumerate() {
        words[index / 8] |= u64::from(byte) << (index % 8 * 8);
    }
    words
}

/// The text in words, up to the first zero; bytes that are not UTF-8 are replaced.
pub(super) fn words_text(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
