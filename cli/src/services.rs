//! Finds the running services by their statistics files in the run directory.
//!
//! Promises: dead services are left out; without a name, only the services of this network namespace are found, as `ss`
//! shows only its sockets. A service with several workers has one file and one entry per worker. Does not do:
//! communicate with a service.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use ringway_service::rundir::network_here;
use ringway_service::{Kept, RunDirectory};
use ringway_shm::channel::attach::path_of_worker;
use ringway_shm::stats::{SocketRecord, StatsReader};

/// One worker of a running service.
#[derive(Debug)]
pub(crate) struct Service {
    /// The service's name: the file's stem.
    pub(crate) name: String,
    /// The worker's number.
    pub(crate) worker: u32,
    /// Its statistics.
    pub(crate) stats: StatsReader,
}

impl Service {
    /// The file of this service and worker with another ending.
    pub(crate) fn file(&self, ending: &str) -> PathBuf {
        path_of_worker(&RunDirectory::of_this_machine().path().join(format!("{}.{ending}", self.name)), self.worker)
    }

    /// The interfaces that stay with the kernel because of its rules; only the first worker tells them.
    pub(crate) fn kept(&self) -> Vec<Kept> {
        if self.worker == 0 { RunDirectory::of_this_machine().kept(&self.name) } else { Vec::new() }
    }

    /// The sockets, with the processes that have them. A group is believed only of processes that it may have made: of its user, or any
    /// if it is root's.
    pub(crate) fn sockets(&self) -> Vec<SocketRecord> {
        let mut sockets = self.stats.sockets();
        let mut known: HashMap<(u32, u32), bool> = HashMap::new();
        for socket in &mut sockets {
            let uid = socket.uid;
            let mut believed = |pid: u32| pid != 0 && *known.entry((pid, uid)).or_insert_with(|| may_be_of(pid, uid));
            socket.holders.iter_mut().for_each(|pid| *pid = if believed(*pid) { *pid } else { 0 });
            let first = socket.holders.iter().copied().find(|pid| *pid != 0);
            // The group's first process may have ended, or have given the socket to its children.
            socket.pid = first.filter(|_| !socket.holders.contains(&socket.pid)).unwrap_or(socket.pid);
        }
        sockets
    }

    /// Returns true while the process runs.
    pub(crate) fn is_alive(&self) -> bool {
        process_file(self.stats.pid(), "").exists()
    }
}

/// Finds the service of this name, or all services of this network namespace, sorted by name.
///
/// # Errors
/// There is no such service, or its file cannot be read.
pub(crate) fn find(name: Option<&str>) -> io::Result<Vec<Service>> {
    let Some(name) = name else { return Ok(all_here()) };
    if !open(name, 0)?.is_alive() {
        return Err(io::Error::other(format!("service {name} is no longer running")));
    }
    let mut found = everywhere();
    found.retain(|service| service.name == name);
    Ok(found)
}

fn all_here() -> Vec<Service> {
    let (directory, here) = (RunDirectory::of_this_machine(), network_here());
    let mut found = everywhere();
    found.retain(|service| directory.network_of(&service.name) == here);
    found
}

/// Finds all running services of this machine, sorted by name.
pub(crate) fn everywhere() -> Vec<Service> {
    let entries = fs::read_dir(RunDirectory::of_this_machine().path()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| split(entry.file_name().to_str()?));
    // A file that cannot be opened was just removed or belongs to a dead service.
    let mut found: Vec<Service> = names.filter_map(|(name, worker)| open(&name, worker).ok()).filter(Service::is_alive).collect();
    found.sort_by(|one, other| (&one.name, one.worker).cmp(&(&other.name, other.worker)));
    found
}

/// Splits `NAME.stats` or `NAME.stats1` into name and worker.
fn split(file: &str) -> Option<(String, u32)> {
    let (name, ending) = file.rsplit_once('.')?;
    let worker = ending.strip_prefix("stats")?;
    Some((name.to_string(), if worker.is_empty() { 0 } else { worker.parse().ok()? }))
}

fn open(name: &str, worker: u32) -> io::Result<Service> {
    let path = path_of_worker(&RunDirectory::of_this_machine().path().join(format!("{name}.stats")), worker);
    let stats = StatsReader::open(&path).map_err(|error| io::Error::other(format!("no service {name}: {error}")))?;
    Ok(Service { name: name.to_string(), worker, stats })
}

/// Returns true for a process that runs and may be of a group of this user's.
fn may_be_of(pid: u32, uid: u32) -> bool {
    fs::metadata(process_file(pid, "")).is_ok_and(|process| uid == 0 || process.uid() == uid)
}

fn process_file(pid: u32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}
