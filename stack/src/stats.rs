//! Counters under the kernel's names (`nstat`), and one per reason to drop a packet.

use ringway_shm::Histogram;

macro_rules! counters {
    ($(#[doc = $about:literal] $name:ident = $text:literal,)*) => {
        /// A counter's index in [`Counters`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter { $(#[doc = $about] $name,)* }

        impl Counter {
            /// All counters in order.
            pub const ALL: &'static [Counter] = &[$(Counter::$name,)*];

            /// The name that `nstat` prints.
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$name => $text,)* }
            }

            /// What it counts.
            pub const fn about(self) -> &'static str {
                match self { $(Counter::$name => $about,)* }
            }
        }
    };
}

counters! {
    /// IP packets received.
    IpInReceives = "IpInReceives",
    /// IP packets delivered to TCP, UDP or ICMP.
    IpInDelivers = "IpInDelivers",
    /// IP packets sent.
    IpOutRequests = "IpOutRequests",
    /// Bad IP header.
    IpInHdrErrors = "IpInHdrErrors",
    /// IP packets received that are not ECN-capable.
    IpInNoEctPkts = "IpExtInNoECTPkts",
    /// IP packets received with ECT(1).
    IpInEct1Pkts = "IpExtInECT1Pkts",
    /// IP packets received with ECT(0).
    IpInEct0Pkts = "IpExtInECT0Pkts",
    /// IP packets received that have experienced congestion.
    IpInCePkts = "IpExtInCEPkts",
    /// Not for us.
    IpInAddrErrors = "IpInAddrErrors",
    /// No such protocol.
    IpInUnknownProtos = "IpInUnknownProtos",
    /// No route for an outgoing packet.
    IpOutNoRoutes = "IpOutNoRoutes",
    /// Fragments received.
    IpReasmReqds = "IpReasmReqds",
    /// Datagrams reassembled.
    IpReasmOks = "IpReasmOKs",
    /// Fragments or datagrams that could not be reassembled.
    IpReasmFails = "IpReasmFails",
    /// Datagrams whose fragments did not arrive in time.
    IpReasmTimeout = "IpReasmTimeout",
    /// Datagrams fragmented.
    IpFragOks = "IpFragOKs",
    /// Datagrams that could not be fragmented.
    IpFragFails = "IpFragFails",
    /// Fragments made.
    IpFragCreates = "IpFragCreates",
    /// ICMP messages received.
    IcmpInMsgs = "IcmpInMsgs",
    /// ICMP messages with a bad checksum or length.
    IcmpInErrors = "IcmpInErrors",
    /// ICMP messages sent.
    IcmpOutMsgs = "IcmpOutMsgs",
    /// Echo requests received.
    IcmpInEchos = "IcmpInEchos",
    /// Echo replies sent.
    IcmpOutEchoReps = "IcmpOutEchoReps",
    /// Active opens.
    TcpActiveOpens = "TcpActiveOpens",
    /// Passive opens.
    TcpPassiveOpens = "TcpPassiveOpens",
    /// Opens that failed.
    TcpAttemptFails = "TcpAttemptFails",
    /// Established connections that were reset.
    TcpEstabResets = "TcpEstabResets",
    /// Segments received.
    TcpInSegs = "TcpInSegs",
    /// Segments sent.
    TcpOutSegs = "TcpOutSegs",
    /// Segments retransmitted.
    TcpRetransSegs = "TcpRetransSegs",
    /// Segments with a bad checksum or header.
    TcpInErrs = "TcpInErrs",
    /// RSTs sent.
    TcpOutRsts = "TcpOutRsts",
    /// Segments with a bad checksum.
    TcpInCsumErrors = "TcpInCsumErrors",
    /// Segments that the header prediction accepted.
    TcpHpHits = "TcpExtTCPHPHits",
    /// Segments that were merged with the one before them.
    TcpRcvCoalesce = "TcpExtTCPRcvCoalesce",
    /// Probes of the path MTU that have arrived.
    TcpMtupSuccess = "TcpExtTCPMTUPSuccess",
    /// Probes of the path MTU that were lost.
    TcpMtupFail = "TcpExtTCPMTUPFail",
    /// Window reductions undone because only a probe of the path MTU was lost.
    TcpMtupUndo = "TcpExtTCPMTUPUndo",
    /// Retransmission timeouts.
    TcpTimeouts = "TcpExtTCPTimeouts",
    /// Fast retransmissions.
    TcpFastRetrans = "TcpExtTCPFastRetrans",
    /// Segments retransmitted in slow start after a timeout.
    TcpSlowStartRetrans = "TcpExtTCPSlowStartRetrans",
    /// SACK-based recoveries.
    TcpSackRecovery = "TcpExtTCPSackRecovery",
    /// Recoveries without SACK.
    TcpRenoRecovery = "TcpExtTCPRenoRecovery",
    /// Out-of-order segments queued.
    TcpOfoQueue = "TcpExtTCPOFOQueue",
    /// Out-of-order segments dropped for lack of buffer space.
    TcpOfoDrop = "TcpExtTCPOFODrop",
    /// Out-of-order data dropped in favor of data in order.
    OfoPruned = "TcpExtOfoPruned",
    /// Tail loss probes sent (RFC 8985 §7).
    TcpLossProbes = "TcpExtTCPLossProbes",
    /// Losses that a tail loss probe has repaired.
    TcpLossProbeRecovery = "TcpExtTCPLossProbeRecovery",
    /// DSACK blocks received for data below the acknowledgment (RFC 2883).
    TcpDsackRecv = "TcpExtTCPDSACKRecv",
    /// DSACK blocks received for data above the acknowledgment.
    TcpDsackOfoRecv = "TcpExtTCPDSACKOfoRecv",
    /// DSACK blocks sent for data below RCV.NXT (RFC 2883).
    TcpDsackOldSent = "TcpExtTCPDSACKOldSent",
    /// DSACK blocks sent for data out of order.
    TcpDsackOfoSent = "TcpExtTCPDSACKOfoSent",
    /// Reductions undone because DSACKs reported every retransmission.
    TcpDsackUndo = "TcpExtTCPDSACKUndo",
    /// Fast recoveries undone (RFC 3522).
    TcpFullUndo = "TcpExtTCPFullUndo",
    /// Timeouts undone (RFC 3522).
    TcpLossUndo = "TcpExtTCPLossUndo",
    /// Timeouts that F-RTO found spurious (RFC 5682).
    TcpSpuriousRtos = "TcpExtTCPSpuriousRTOs",
    /// Retransmissions found lost.
    TcpLostRetransmit = "TcpExtTCPLostRetransmit",
    /// ACKs that showed reordering.
    TcpSackReorder = "TcpExtTCPSACKReorder",
    /// Segments that arrived with a congestion mark, as the peer reports.
    TcpDeliveredCe = "TcpExtTCPDeliveredCE",
    /// Delayed ACKs sent by their timer.
    DelayedAcks = "TcpExtDelayedACKs",
    /// Pure ACKs received.
    TcpPureAcks = "TcpExtTCPPureAcks",
    /// Segments refused by PAWS.
    PawsEstab = "TcpExtPAWSEstab",
    /// Challenge ACKs sent (RFC 5961).
    TcpChallengeAck = "TcpExtTCPChallengeACK",
    /// Challenge ACKs held back because the connection had just sent one.
    TcpAckSkippedChallenge = "TcpExtTCPACKSkippedChallenge",
    /// Suppressed ACKs of segments outside the window.
    TcpAckSkippedSeq = "TcpExtTCPACKSkippedSeq",
    /// Suppressed ACKs of segments with old timestamps.
    TcpAckSkippedPaws = "TcpExtTCPACKSkippedPAWS",
    /// SYNs in synchronized states (RFC 5961 §4).
    TcpSynChallenge = "TcpExtTCPSYNChallenge",
    /// Accept queue overflows.
    ListenOverflows = "TcpExtListenOverflows",
    /// SYNs to a listener dropped for any reason.
    ListenDrops = "TcpExtListenDrops",
    /// Half-open connections lost because the SYN queue was full.
    TcpReqQFullDrop = "TcpExtTCPReqQFullDrop",
    /// ACKs without data for a listener that waits for data.
    TcpDeferAcceptDrop = "TcpExtTCPDeferAcceptDrop",
    /// SYNs answered with a cookie because the SYN queue was full.
    TcpReqQFullDoCookies = "TcpExtTCPReqQFullDoCookies",
    /// Fast Open: data in our SYN was acknowledged.
    TcpFastOpenActive = "TcpExtTCPFastOpenActive",
    /// Fast Open: data in our SYN was not acknowledged.
    TcpFastOpenActiveFail = "TcpExtTCPFastOpenActiveFail",
    /// Fast Open: connections opened by a SYN with data.
    TcpFastOpenPassive = "TcpExtTCPFastOpenPassive",
    /// Fast Open: SYNs with a bad cookie, or beyond a limit.
    TcpFastOpenPassiveFail = "TcpExtTCPFastOpenPassiveFail",
    /// Fast Open: SYNs beyond a listener's limit.
    TcpFastOpenListenOverflow = "TcpExtTCPFastOpenListenOverflow",
    /// Fast Open: SYNs that asked for a cookie.
    TcpFastOpenCookieReqd = "TcpExtTCPFastOpenCookieReqd",
    /// Fast Open: pauses after SYNs with data were lost.
    TcpFastOpenBlackhole = "TcpExtTCPFastOpenBlackhole",
    /// Fast Open: connections opened with a cookie of the backup key.
    TcpFastOpenPassiveAltKey = "TcpExtTCPFastOpenPassiveAltKey",
    /// SYN cookies sent.
    SyncookiesSent = "TcpExtSyncookiesSent",
    /// Valid SYN cookies received.
    SyncookiesRecv = "TcpExtSyncookiesRecv",
    /// ACKs without a valid cookie while cookies were expected.
    SyncookiesFailed = "TcpExtSyncookiesFailed",
    /// Connections that entered TIME-WAIT.
    TimeWaits = "TcpExtTW",
    /// TIME-WAIT records recycled early.
    TimeWaitRecycled = "TcpExtTWRecycled",
    /// TIME-WAIT records lost to the limit.
    TimeWaitOverflow = "TcpExtTCPTimeWaitOverflow",
    /// Connections ended because data arrived after close.
    TcpAbortOnData = "TcpExtTCPAbortOnData",
    /// Connections closed with unread data.
    TcpAbortOnClose = "TcpExtTCPAbortOnClose",
    /// Connections given up after too many retransmissions.
    TcpAbortOnTimeout = "TcpExtTCPAbortOnTimeout",
    /// Keepalives sent.
    TcpKeepAlive = "TcpExtTCPKeepAlive",
    /// Zero-window probes sent.
    TcpWinProbe = "TcpExtTCPWinProbe",
    /// Zero windows advertised.
    TcpToZeroWindowAdv = "TcpExtTCPToZeroWindowAdv",
    /// Windows reopened after zero.
    TcpFromZeroWindowAdv = "TcpExtTCPFromZeroWindowAdv",
    /// UDP datagrams given to applications.
    UdpInDatagrams = "UdpInDatagrams",
    /// UDP datagrams to ports without a socket.
    UdpNoPorts = "UdpNoPorts",
    /// UDP datagrams that could not be delivered for another reason.
    UdpInErrors = "UdpInErrors",
    /// UDP datagrams sent.
    UdpOutDatagrams = "UdpOutDatagrams",
    /// UDP datagrams dropped because the receive buffer was full.
    UdpRcvbufErrors = "UdpRcvbufErrors",
    /// UDP datagrams refused because the send buffer was full or no frame was free.
    UdpSndbufErrors = "UdpSndbufErrors",
    /// UDP datagrams with a bad checksum.
    UdpInCsumErrors = "UdpInCsumErrors",
    /// Frames too short or of an unknown kind.
    DropMalformed = "RingwayDropMalformed",
    /// Segments for which there is no socket.
    DropNoSocket = "RingwayDropNoSocket",
    /// Segments of connections that were handed over.
    DropHandedOver = "RingwayDropHandedOver",
    /// Segments and datagrams of flows that belong to another worker's stack.
    DropElsewhere = "RingwayDropElsewhere",
    /// Segments outside the window.
    DropOutOfWindow = "RingwayDropOutOfWindow",
    /// Segments without ACK, or otherwise impossible in the state.
    DropUnacceptable = "RingwayDropUnacceptable",
    /// No frame was free.
    DropNoFrame = "RingwayDropNoFrame",
    /// The receive buffer was full.
    DropNoBuffer = "RingwayDropNoBuffer",
    /// The neighbor did not answer, or its queue was full.
    DropNoNeighbor = "RingwayDropNoNeighbor",
    /// Replies suppressed by the rate limit.
    DropRateLimited = "RingwayDropRateLimited",
    /// Answers of ARP and neighbor discovery beyond the queue's limit.
    DropNeighborAnswer = "RingwayDropNeighborAnswer",
    /// ICMP errors about our packets beyond the limit of those that wait for TCP and UDP.
    DropIcmpError = "RingwayDropIcmpError",
}

/// Number of counters.
pub const COUNTERS: usize = Counter::ALL.len();

/// All counters of one stack: plain integers, owned by the worker.
#[derive(Clone, Debug)]
pub struct Counters {
    values: [u64; COUNTERS],
    round_trips: RoundTrips,
}

/// Round-trip times, microseconds: up to 16 us, 32 us, and so on to 4.2 s.
pub type RoundTrips = Histogram<4, 21>;

impl Counters {
    /// Adds one.
    #[inline]
    pub fn count(&mut self, counter: Counter) {
        self.values[counter as usize] += 1;
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&mut self, counter: Counter, n: u64) {
        self.values[counter as usize] += n;
    }

    /// Counts a sample of a round-trip time.
    #[inline]
    pub(crate) fn count_round_trip(&mut self, sample_us: u32) {
        self.round_trips.add(sample_us.into());
    }

    /// Returns the samples of round-trip times of all connections.
    pub fn round_trips(&self) -> &RoundTrips {
        &self.round_trips
    }

    /// Returns the value.
    #[inline]
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }

    /// Returns all values in the order of [`Counter::ALL`].
    pub fn values(&self) -> &[u64; COUNTERS] {
        &self.values
    }
}

impl Default for Counters {
    fn default() -> Counters {
        Counters { values: [0; COUNTERS], round_trips: RoundTrips::default() }
    }
}
