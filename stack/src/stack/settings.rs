//! Settings that change while the stack runs.

use alloc::boxed::Box;

use super::Stack;
use crate::config::{CongestionControl, StackConfig, TcpConfig};
use crate::congestion::{Controller, Flow};

impl Stack {
    /// Replaces the settings of TCP, also for existing connections; not the duration of TIME-WAIT.
    pub fn set_tcp_config(&mut self, config: TcpConfig) {
        self.tcp.set_config(config);
    }

    /// Adds a congestion control; `make` gives each of its connections a controller, when the connection's first data is sent. The value that
    /// is returned chooses it ([`TcpOptions::congestion_control`](crate::TcpOptions::congestion_control)), in this stack alone.
    ///
    /// # Panics
    /// When there are already eight.
    pub fn add_congestion_control(&mut self, make: impl Fn(&Flow) -> Box<dyn Controller> + Send + 'static) -> CongestionControl {
        self.tcp.add_congestion_control(Box::new(make))
    }

    /// Takes over how many entries tables may have and packets may wait, and how many replies a second may be sent. What there is beyond
    /// a smaller limit stays until it ends; of TIME-WAIT and of neighbors the oldest go first, as they do at the limit.
    pub fn set_limits(&mut self, config: &StackConfig) {
        self.tcp.set_limits(config);
        self.ip.set_limits(config);
    }
}
