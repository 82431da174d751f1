//! What holds a connection back, in the words of `ringway trace`.

macro_rules! waits_for {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// What a connection waits for before it sends more.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum WaitsFor { $($(#[$doc])* $name,)* }

        impl WaitsFor {
            /// All of them.
            pub const ALL: &[WaitsFor] = &[$(WaitsFor::$name),*];

            /// The word for it.
            pub const fn word(self) -> &'static str {
                match self { $(WaitsFor::$name => $word,)* }
            }
        }
    };
}

waits_for! {
    /// The application: everything that it has written is acknowledged.
    Application = "application",
    /// The peer's acknowledgment: everything that the application has written is sent.
    Acknowledgment = "ack",
    /// The congestion window.
    CongestionWindow = "cwnd",
    /// The window that the peer offers.
    PeerWindow = "window",
    /// A full segment, or the acknowledgment of what is under way (RFC 9293 §3.7.4).
    Nagle = "nagle",
    /// A full segment: TCP_CORK or MSG_MORE.
    Cork = "cork",
    /// The time at which the pacing rate lets the next packet leave.
    Pacing = "pacing",
    /// Nothing: it sends in its next turn.
    Turn = "turn",
    /// The end of the handshake.
    Handshake = "handshake",
    /// Nothing: it sends no data any more.
    Nothing = "nothing",
}
