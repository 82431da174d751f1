//! Socket options of both ends beyond those of every scenario: congestion control and receive buffer.

use std::io;

use clap::{Args, ValueEnum};
use ringway::Net;
use ringway::congestion::{Timely, TimelyParameters};
use ringway_stack::{CongestionControl, TcpOptions};
use serde::{Deserialize, Serialize};
use socket2::Socket;

/// Options of both client and server; `None`: each stack's default.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    /// Congestion control of the sockets
    #[arg(long, value_enum)]
    pub congestion: Option<Congestion>,
    /// Receive buffer of the sockets, bytes
    #[arg(long)]
    pub receive_buffer: Option<u32>,
}

/// Congestion control by the names of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Congestion {
    /// RFC 9438
    Cubic,
    /// Bottleneck bandwidth and round-trip time
    Bbr,
    /// RFC 5681, RFC 6582
    Reno,
    /// RFC 8257
    Dctcp,
    /// By the gradient of the round-trip time (SIGCOMM 2015); `embedded` alone has it
    Timely,
}

impl Congestion {
    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Congestion::Cubic => "cubic",
            Congestion::Bbr => "bbr",
            Congestion::Reno => "reno",
            Congestion::Dctcp => "dctcp",
            Congestion::Timely => "timely",
        }
    }

    /// Returns false for one that no kernel has.
    pub fn is_kernels(self) -> bool {
        self != Congestion::Timely
    }
}

/// TIMELY's parameters for a path through two kernels, where a queue of a millisecond is short and the times are software's. The paper's are for
/// those of the hardware: with them the flow stays near its least rate.
const TIMELY: TimelyParameters = TimelyParameters {
    rtt_low: ringway_stack::Duration::from_micros(500),
    rtt_high: ringway_stack::Duration::from_millis(3),
    rtt_min: ringway_stack::Duration::from_micros(200),
    step: 12_500_000,
    weight: 20,
};

/// Gives the `Net` TIMELY.
pub fn add_timely(net: &mut Net) -> CongestionControl {
    net.add_congestion_control(|flow| Box::new(Timely::new(flow, TIMELY)))
}

impl Tuning {
    /// Sets the options of a libc socket.
    ///
    /// # Errors
    /// The stack has no such congestion control.
    pub fn apply(&self, socket: &Socket) -> io::Result<()> {
        if let Some(congestion) = self.congestion {
            let name = congestion.name();
            socket
                .set_tcp_congestion(name.as_bytes())
                .map_err(|error| io::Error::new(error.kind(), format!("congestion control {name}: {error}")))?;
        }
        // Linux doubles the value, for its overhead; socket(7).
        self.receive_buffer.map_or(Ok(()), |bytes| socket.set_recv_buffer_size(bytes as usize / 2))
    }

    /// Like [`apply`](Tuning::apply), at the client: a congestion control that no kernel has is the server's alone.
    ///
    /// # Errors
    /// As for `apply`.
    pub fn apply_at_client(&self, socket: &Socket) -> io::Result<()> {
        let congestion = self.congestion.filter(|congestion| congestion.is_kernels());
        Tuning { congestion, ..*self }.apply(socket)
    }

    /// The options as those of a Ringway socket, whose `Net` has TIMELY as `timely`.
    pub fn options(&self, timely: CongestionControl) -> TcpOptions {
        let mut options = TcpOptions { no_delay: true, ..TcpOptions::default() };
        options.congestion_control = match self.congestion {
            None => options.congestion_control,
            Some(Congestion::Cubic) => CongestionControl::Cubic,
            Some(Congestion::Bbr) => CongestionControl::Bbr,
            Some(Congestion::Reno) => CongestionControl::NewReno,
            Some(Congestion::Dctcp) => CongestionControl::Dctcp,
            Some(Congestion::Timely) => timely,
        };
        options.receive_buffer_bytes = self.receive_buffer.unwrap_or(options.receive_buffer_bytes);
        options
    }

    /// The options as command-line arguments of a role.
    pub fn arguments(&self) -> Vec<String> {
        let congestion = self.congestion.map(|congestion| ["--congestion".to_string(), congestion.name().to_string()]);
        let buffer = self.receive_buffer.map(|bytes| ["--receive-buffer".to_string(), bytes.to_string()]);
        congestion.into_iter().chain(buffer).flatten().collect()
    }
}

#[cfg(test)]
mod tests;
