//! What the services' statistics files say at one time.

use std::collections::HashMap;
use std::time::{Instant, SystemTime};

use ringway_shm::stats::{InterfaceRecord, SocketRecord};

use crate::services::{Service, sockets};

/// All services at one time.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// For intervals.
    pub(super) at: Instant,
    /// For people.
    pub(super) time: SystemTime,
    pub(super) workers: Vec<WorkerSample>,
    /// By a name that stays the same as long as the socket lives.
    pub(super) sockets: HashMap<String, Socket>,
}

/// One worker.
#[derive(Clone, Debug)]
pub(super) struct WorkerSample {
    pub(super) service: String,
    pub(super) worker: u32,
    pub(super) counters: HashMap<String, u64>,
    pub(super) interfaces: Vec<InterfaceRecord>,
}

/// A socket and its service.
#[derive(Clone, Debug)]
pub(super) struct Socket {
    pub(super) service: String,
    pub(super) record: SocketRecord,
}

impl Sample {
    /// Reads the files of these services.
    pub(super) fn take(services: &[Service]) -> Sample {
        let mut sample = Sample { at: Instant::now(), time: SystemTime::now(), workers: Vec::new(), sockets: HashMap::new() };
        for service in services {
            sample.workers.push(WorkerSample {
                service: service.label.clone(),
                worker: service.worker,
                counters: service.stats.counters().into_iter().collect(),
                interfaces: service.stats.interfaces().into_iter().map(|(_, interface)| interface).collect(),
            });
        }
        for (service, record) in sockets::joined(services, Service::sockets) {
            sample.add(&service.label, service.worker, record);
        }
        sample
    }

    /// Takes a socket in.
    pub(super) fn add(&mut self, service: &str, worker: u32, record: SocketRecord) {
        let SocketRecord { local, remote, region, slot, .. } = &record;
        let id = format!("{service}/{worker} {region}/{slot} {}:{} {}:{}", local.ip, local.port, remote.ip, remote.port);
        self.sockets.insert(id, Socket { service: service.to_owned(), record });
    }

    /// Returns true if no service runs.
    pub(super) fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }
}

impl WorkerSample {
    /// A counter's value; 0 if this version has none of this name.
    pub(super) fn value(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}
