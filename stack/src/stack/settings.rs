//! Settings that change while the stack runs.

use super::Stack;
use crate::config::{StackConfig, TcpConfig};

impl Stack {
    /// Replaces the settings of TCP, also for existing connections; not the duration of TIME-WAIT.
    pub fn set_tcp_config(&mut self, config: TcpConfig) {
        self.tcp.set_config(config);
    }

    /// Takes over how many entries tables may have and packets may wait, and how many replies a second may be sent. What there is beyond
    /// a smaller limit stays until it ends; of TIME-WAIT and of neighbors the oldest go first, as they do at the limit.
    pub fn set_limits(&mut self, config: &StackConfig) {
        self.tcp.set_limits(config);
        self.ip.set_limits(config);
    }
}
