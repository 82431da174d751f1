//! Users' shares of the quotas that brokers hold, for the worker that writes the statistics.
//!
//! Promises: the worker waits for no broker; where one is changing a count just now, the last one is told. Does not do: holding
//! the quotas.

use std::sync::Arc;

use ringway_engine::{Quota, Usage, UsageSource};

use crate::live::Live;

use super::{AttachLimits, BrokerStatus, Desk, WakeFds};

/// See the module's text.
pub(crate) struct Account {
    wake_fds: WakeFds,
    desk: Desk,
    status: Arc<BrokerStatus>,
    limits: Live<AttachLimits>,
}

impl Account {
    pub(crate) fn new(
        wake_fds: WakeFds,
        desk: Desk,
        status: Arc<BrokerStatus>,
        limits: impl Into<Live<AttachLimits>>,
    ) -> Account {
        Account { wake_fds, desk, status, limits: limits.into() }
    }

    /// Tells it whenever it is called.
    pub(crate) fn source(self) -> UsageSource {
        let (mut contexts, mut sockets) = (Vec::new(), Vec::new());
        Box::new(move || {
            contexts = self.wake_fds.usage().unwrap_or_else(|| std::mem::take(&mut contexts));
            sockets = self.desk.usage().unwrap_or_else(|| std::mem::take(&mut sockets));
            let (used, limit) = (Some(self.status.connections()), self.limits.get().connections.into());
            let connections = Usage { quota: Quota::Connections, holder: 0, used, limit };
            contexts.iter().chain(&sockets).copied().chain([connections]).collect()
        })
    }
}
