//! The rules, what document each comes from, and what breaking one looks like.

use std::fmt;
use std::net::SocketAddr;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A SHOULD, or what a capture cannot prove.
    Warning,
    /// A MUST.
    Error,
}

/// Declares the rules: name, identifier, document, severity, and whether packets that the capture lacks could explain it.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident: $id:literal, $document:literal, $severity:ident, $excuse:ident;)*) => {
        /// A rule of the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule { $($(#[$doc])* $name,)* }

        impl Rule {
            /// All rules, in the order of this list.
            pub const ALL: &[Rule] = &[$(Rule::$name,)*];

            /// Its name in reports.
            pub fn id(self) -> &'static str {
                match self { $(Rule::$name => $id,)* }
            }

            /// Where it is written.
            pub fn document(self) -> &'static str {
                match self { $(Rule::$name => $document,)* }
            }

            /// How bad it is to break it.
            pub fn severity(self) -> Severity {
                match self { $(Rule::$name => Severity::$severity,)* }
            }

            /// Whether packets that the capture lacks could explain it.
            pub(crate) fn needs_all_packets(self) -> bool {
                match self { $(Rule::$name => rules!(@ $excuse),)* }
            }
        }
    };
    (@ Always) => { false };
    (@ Complete) => { true };
}

rules! {
    /// The IP header contradicts itself or the packet.
    IpHeader: "ip-header", "RFC 791 §3.1, RFC 8200 §3", Error, Always;
    /// IPv4 header checksum.
    IpChecksum: "ip-checksum", "RFC 791 §3.1", Error, Always;
    /// TCP header: data offset.
    TcpHeader: "tcp-header", "RFC 9293 §3.1", Error, Always;
    /// TCP checksum.
    TcpChecksum: "tcp-checksum", "RFC 9293 §3.1", Error, Always;
    /// UDP length field.
    UdpLength: "udp-length", "RFC 768", Error, Always;
    /// UDP checksum, and that IPv6 has one.
    UdpChecksum: "udp-checksum", "RFC 768, RFC 8200 §8.1", Error, Always;
    /// The list of options.
    OptionForm: "option-form", "RFC 9293 §3.1, §3.2", Error, Always;
    /// Flag combinations that no segment may have.
    Flags: "flags", "RFC 9293 §3.1, §3.10.7", Error, Always;
    /// Reserved bits are zero.
    ReservedBits: "reserved-bits", "RFC 9293 §3.1", Error, Always;
    /// After the SYN every segment carries an acknowledgment.
    AckFlag: "ack-flag", "RFC 9293 §3.1, §3.5", Error, Always;
    /// Options that belong on a SYN only.
    SynOption: "syn-option", "RFC 9293 §3.2, RFC 7323 §2.2, RFC 2018 §2", Error, Always;
    /// A SYN-ACK only carries what the SYN has offered.
    SynAckOption: "syn-ack-option", "RFC 7323 §2.2, §3.2, RFC 2018 §2", Error, Complete;
    /// The window scale is fourteen at most.
    WindowScale: "window-scale", "RFC 7323 §2.3", Error, Always;
    /// A SYN-ACK acknowledges the SYN.
    SynAckNumber: "syn-ack-number", "RFC 9293 §3.10.7.2", Error, Complete;
    /// Nothing is acknowledged that was not sent.
    AckUnsent: "ack-unsent", "RFC 9293 §3.10.7.4", Error, Complete;
    /// Acknowledgments do not go back.
    AckBackwards: "ack-backwards", "RFC 9293 §3.4", Error, Complete;
    /// A segment without payload has SND.NXT as its number.
    AckSequence: "ack-sequence", "RFC 9293 §3.10.7.4", Error, Complete;
    /// No data is sent beyond the offered window.
    BeyondWindow: "beyond-window", "RFC 9293 §3.8.6, RFC 7323 §2.3", Error, Complete;
    /// The right edge of the window does not move left.
    WindowShrunk: "window-shrunk", "RFC 9293 §3.8.6 SHLD-14", Warning, Complete;
    /// Bytes are the same each time.
    Content: "content", "RFC 9293 §3.4", Error, Always;
    /// Nothing comes after FIN.
    DataAfterFin: "data-after-fin", "RFC 9293 §3.6", Error, Always;
    /// FIN stays where it was.
    FinMoved: "fin-moved", "RFC 9293 §3.4, §3.6", Error, Always;
    /// An end that has sent RST has no connection any more.
    AfterReset: "after-reset", "RFC 9293 §3.5.3", Error, Complete;
    /// Timestamps once agreed on are on every segment.
    TimestampMissing: "timestamp-missing", "RFC 7323 §3.2", Error, Complete;
    /// Timestamps that were not agreed on.
    TimestampUnasked: "timestamp-unasked", "RFC 7323 §3.2", Error, Complete;
    /// TSval does not go back.
    TimestampBackwards: "timestamp-backwards", "RFC 7323 §4.1", Error, Always;
    /// TSecr is something that the other end has sent.
    TimestampEcho: "timestamp-echo", "RFC 7323 §3.2, §4.1", Error, Complete;
    /// SACK blocks only where SACK was permitted.
    SackUnasked: "sack-unasked", "RFC 2018 §2", Error, Complete;
    /// Blocks have bytes, lie above the acknowledgment and apart from each other; a duplicate comes first.
    SackForm: "sack-form", "RFC 2018 §3, §4, RFC 2883 §4", Error, Always;
    /// Blocks tell of bytes that were sent.
    SackUnsent: "sack-unsent", "RFC 2018 §3", Error, Complete;
    /// Segments keep to the other end's MSS.
    SegmentSize: "segment-size", "RFC 9293 §3.7.1, RFC 6691", Error, Complete;
    /// A SYN is repeated after a second at the earliest.
    SynTimeout: "syn-timeout", "RFC 6298 §2.1, §5.7", Error, Complete;
    /// Data is repeated after the least timeout unless something tells of a loss.
    RetransmitTimeout: "retransmit-timeout", "RFC 6298 §2.4, RFC 5681 §3.2", Error, Complete;
    /// Acknowledgments are not delayed for half a second.
    DelayedAck: "delayed-ack", "RFC 9293 §3.8.6.3", Warning, Complete;
    /// Every second full segment is acknowledged.
    StretchAck: "stretch-ack", "RFC 9293 §3.8.6.3 SHLD-19, RFC 5681 §4.2", Warning, Complete;
    /// A closed window is probed with one byte, and not before a timeout.
    WindowProbe: "window-probe", "RFC 9293 §3.8.6.1 SHLD-29", Warning, Complete;
    /// ECN bits only where ECN was agreed on.
    EcnUnasked: "ecn-unasked", "RFC 3168 §6.1.1", Error, Complete;
    /// No ECT on SYN, pure acknowledgments and retransmissions.
    EcnControl: "ecn-control", "RFC 3168 §6.1.1, §6.1.4, §6.1.5", Warning, Complete;
    /// CE is echoed until CWR.
    EcnEcho: "ecn-echo", "RFC 3168 §6.1.3", Warning, Complete;
    /// The urgent pointer.
    Urgent: "urgent", "RFC 9293 §3.8.5, RFC 6093", Error, Complete;
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The packet, counted from one.
    pub packet: u64,
    /// When, nanoseconds since 1970.
    pub nanos: u64,
    /// Sender and receiver of the packet.
    pub from: SocketAddr,
    /// The other end.
    pub to: SocketAddr,
    /// Which rule.
    pub rule: Rule,
    /// How bad; a rule's own severity, or less where the capture leaves a doubt.
    pub severity: Severity,
    /// What was seen.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.severity == Severity::Error { "" } else { "warning: " };
        write!(
            to,
            "packet {} at {}.{:09} {} > {}: {severity}{}: {} ({})",
            self.packet,
            self.nanos / 1_000_000_000,
            self.nanos % 1_000_000_000,
            self.from,
            self.to,
            self.rule.id(),
            self.text,
            self.rule.document()
        )
    }
}
