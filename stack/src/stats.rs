//! Counters under the kernel's names (`nstat`), and one per reason to drop a packet.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A counter's index in [`Counters`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter { $($(#[$doc])* $name,)* }

        impl Counter {
            /// All counters in order.
            pub const ALL: &'static [Counter] = &[$(Counter::$name,)*];

            /// The name that `nstat` prints.
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$name => $text,)* }
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
    /// Datagrams put together.
    IpReasmOks = "IpReasmOKs",
    /// Fragments or datagrams that could not be put together.
    IpReasmFails = "IpReasmFails",
    /// Datagrams whose fragments did not come in time.
    IpReasmTimeout = "IpReasmTimeout",
    /// Datagrams cut into fragments.
    IpFragOks = "IpFragOKs",
    /// Datagrams that could not be cut.
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
    /// Segments sent again.
    TcpRetransSegs = "TcpRetransSegs",
    /// Segments with a bad checksum or header.
    TcpInErrs = "TcpInErrs",
    /// RSTs sent.
    TcpOutRsts = "TcpOutRsts",
    /// Segments with a bad checksum.
    TcpInCsumErrors = "TcpInCsumErrors",
    /// Segments that the header-prediction test let through.
    TcpHpHits = "TcpExtTCPHPHits",
    /// Segments that were joined to the one before them.
    TcpRcvCoalesce = "TcpExtTCPRcvCoalesce",
    /// Probes of the path MTU that have arrived.
    TcpMtupSuccess = "TcpExtTCPMTUPSuccess",
    /// Probes of the path MTU that were lost.
    TcpMtupFail = "TcpExtTCPMTUPFail",
    /// Windows taken back since only a probe of the path MTU was lost.
    TcpMtupUndo = "TcpExtTCPMTUPUndo",
    /// Retransmission timeouts.
    TcpTimeouts = "TcpExtTCPTimeouts",
    /// Fast retransmissions.
    TcpFastRetrans = "TcpExtTCPFastRetrans",
    /// Segments sent again in slow start after a timeout.
    TcpSlowStartRetrans = "TcpExtTCPSlowStartRetrans",
    /// SACK-based recoveries.
    TcpSackRecovery = "TcpExtTCPSackRecovery",
    /// Recoveries without SACK.
    TcpRenoRecovery = "TcpExtTCPRenoRecovery",
    /// Out-of-order segments queued.
    TcpOfoQueue = "TcpExtTCPOFOQueue",
    /// Out-of-order segments dropped for want of room.
    TcpOfoDrop = "TcpExtTCPOFODrop",
    /// Out-of-order data given up for data in order.
    OfoPruned = "TcpExtOfoPruned",
    /// Tail loss probes sent (RFC 8985 §7).
    TcpLossProbes = "TcpExtTCPLossProbes",
    /// Losses that a tail loss probe has repaired.
    TcpLossProbeRecovery = "TcpExtTCPLossProbeRecovery",
    /// DSACK blocks received for data below the acknowledgment (RFC 2883).
    TcpDsackRecv = "TcpExtTCPDSACKRecv",
    /// DSACK blocks received for data above it.
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
    /// ACKs of segments outside the window that were held back.
    TcpAckSkippedSeq = "TcpExtTCPACKSkippedSeq",
    /// ACKs of segments with old timestamps that were held back.
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
    /// Fast Open: it was not.
    TcpFastOpenActiveFail = "TcpExtTCPFastOpenActiveFail",
    /// Fast Open: connections made of a SYN.
    TcpFastOpenPassive = "TcpExtTCPFastOpenPassive",
    /// Fast Open: SYNs with a bad cookie, or for which there was no room.
    TcpFastOpenPassiveFail = "TcpExtTCPFastOpenPassiveFail",
    /// Fast Open: SYNs beyond a listener's limit.
    TcpFastOpenListenOverflow = "TcpExtTCPFastOpenListenOverflow",
    /// Fast Open: SYNs that asked for a cookie.
    TcpFastOpenCookieReqd = "TcpExtTCPFastOpenCookieReqd",
    /// Fast Open: rests after SYNs with data went lost.
    TcpFastOpenBlackhole = "TcpExtTCPFastOpenBlackhole",
    /// Fast Open: connections made with a cookie of the backup key.
    TcpFastOpenPassiveAltKey = "TcpExtTCPFastOpenPassiveAltKey",
    /// SYN cookies sent.
    SyncookiesSent = "TcpExtSyncookiesSent",
    /// SYN cookies that came back.
    SyncookiesRecv = "TcpExtSyncookiesRecv",
    /// ACKs with something else than a cookie while some were expected.
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
    /// UDP datagrams to ports that nobody serves.
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
    /// Segments and datagrams of flows that another worker's stack serves.
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
    /// Replies held back by the rate limit.
    DropRateLimited = "RingwayDropRateLimited",
    /// Answers of ARP and neighbor discovery beyond those that may wait.
    DropNeighborAnswer = "RingwayDropNeighborAnswer",
    /// ICMP errors about our packets beyond those that may wait for TCP and UDP.
    DropIcmpError = "RingwayDropIcmpError",
}

/// How many counters there are.
pub const COUNTERS: usize = Counter::ALL.len();

/// All counters of one stack: plain integers, owned by the worker.
#[derive(Clone, Debug)]
pub struct Counters {
    values: [u64; COUNTERS],
}

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

    /// The value.
    #[inline]
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }

    /// All values in the order of [`Counter::ALL`].
    pub fn values(&self) -> &[u64; COUNTERS] {
        &self.values
    }
}

impl Default for Counters {
    fn default() -> Counters {
        Counters { values: [0; COUNTERS] }
    }
}
