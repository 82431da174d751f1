//! Users' shares of the quotas that brokers and programs of the kernel hold, for the worker that writes the statistics.
//!
//! Promises: the worker waits for no broker; where one is changing a count just now, the last one is told. Does not do: holding
//! the quotas.

use std::sync::Arc;

use ringway_device::steering::ExceptionPath;
use ringway_engine::{Quota, Usage, UsageSource};

use crate::live::Live;

use super::{AttachLimits, BrokerStatus, Desk, WakeFds};

/// See the module's text.
pub(crate) struct Account {
    wake_fds: WakeFds,
    desk: Desk,
    status: Arc<BrokerStatus>,
    limits: Live<AttachLimits>,
    /// With the most that the kernel may get.
    exceptions: Option<(Arc<ExceptionPath>, Live<u32>)>,
}

impl Account {
    pub(crate) fn new(
        wake_fds: WakeFds,
        desk: Desk,
        status: Arc<BrokerStatus>,
        limits: impl Into<Live<AttachLimits>>,
    ) -> Account {
        Account { wake_fds, desk, status, limits: limits.into(), exceptions: None }
    }

    /// The same with packets of served ports that go on to the kernel, and the most in a second.
    pub(crate) fn with_exceptions(self, path: Option<Arc<ExceptionPath>>, most: Live<u32>) -> Account {
        Account { exceptions: path.map(|path| (path, most)), ..self }
    }

    /// Tells it whenever it is called.
    pub(crate) fn source(self) -> UsageSource {
        let (mut contexts, mut sockets) = (Vec::new(), Vec::new());
        let (mut dropped, mut total) = (0u32, 0u64);
        Box::new(move || {
            contexts = self.wake_fds.usage().unwrap_or_else(|| std::mem::take(&mut contexts));
            sockets = self.desk.usage().unwrap_or_else(|| std::mem::take(&mut sockets));
            let (used, limit) = (Some(self.status.connections()), self.limits.get().connections.into());
            let connections = Usage { quota: Quota::Connections, holder: 0, used, limit, hits: None };
            let exceptions = self.exceptions.as_ref().map(|(path, most)| {
                // `Err`: the last count is told.
                let now = path.dropped().unwrap_or(dropped);
                total += u64::from(now.wrapping_sub(std::mem::replace(&mut dropped, now)));
                let limit = Some(u64::from(most.get())).filter(|&most| most > 0).unwrap_or(u64::MAX);
                Usage { quota: Quota::KernelPackets, holder: 0, used: None, limit, hits: Some(total) }
            });
            contexts.iter().chain(&sockets).copied().chain([connections]).chain(exceptions).collect()
        })
    }
}
