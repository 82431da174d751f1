//! How large TCP's tables may become, changed while they are used.

use crate::config::StackConfig;

use super::Tcp;

impl Tcp {
    /// See [`Stack::set_limits`](crate::Stack::set_limits).
    pub(crate) fn set_limits(&mut self, config: &StackConfig) {
        self.connections_max = config.connections_max;
        self.shared.conn_stats.set_max(config.connections_max);
        self.holds.set_max(config.connections_max);
        self.listeners.set_max(config.listeners_max);
        self.syn_queue.set_max(config.syn_queue_max);
        self.owners.set_max(config.half_open_per_owner_max);
        self.time_wait.set_max(config.time_wait_max);
        self.shared.replies.set_rate(config.replies_per_second);
    }
}
