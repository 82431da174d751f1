//! Finds the running services by their statistics files in the run directory.
//!
//! Promises: dead services are left out; unless another network namespace or all are chosen, only the services of this one are
//! found, as `ss` shows only its sockets. A service with several workers has one file and one entry per worker. Does not do: communicate
//! with a service.

pub(crate) mod sockets;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use clap::Args;
use ringway_channel::attach::{NETWORKS, network_inode, network_named, path_of_worker, split_stem, stem};
use ringway_service::{Kept, RunDirectory};
use ringway_shm::stats::{SocketRecord, StatsReader};

/// Which services a command is about.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Only the service of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The services of another network namespace: its name in ip-netns(8), or the path of its file
    #[arg(short = 'N', long, value_name = "NAMESPACE")]
    pub(crate) net: Option<PathBuf>,
    /// The services of all network namespaces
    #[arg(long, conflicts_with = "net")]
    pub(crate) all_namespaces: bool,
}

impl Choice {
    /// Those of this name, or all, in this network namespace.
    pub(crate) fn here(name: Option<&str>) -> Choice {
        Choice { name: name.map(str::to_owned), ..Choice::default() }
    }

    /// Finds them, sorted by name and network namespace.
    ///
    /// # Errors
    /// There is no service of that name, or its file cannot be read, or no such network namespace.
    pub(crate) fn find(&self) -> io::Result<Vec<Service>> {
        let network = if self.all_namespaces { None } else { Some(self.network()?) };
        let mut found = running(network);
        let Some(name) = &self.name else { return Ok(found) };
        found.retain(|service| service.name == *name);
        match found.is_empty() {
            true => Err(self.absence(name)),
            false => Ok(found),
        }
    }

    /// That nothing was found.
    pub(crate) fn nothing(&self) -> io::Error {
        io::Error::other(match &self.net {
            Some(net) => format!("no service is running in network namespace {}", net.display()),
            None if self.all_namespaces => "no service is running".to_owned(),
            None => "no service is running in this network namespace".to_owned(),
        })
    }

    /// The inode of the network namespace that it is about.
    fn network(&self) -> io::Result<u64> {
        let Some(net) = &self.net else { return network_inode() };
        let told = |error: io::Error| io::Error::new(error.kind(), format!("network namespace {}: {error}", net.display()));
        network_named(net).map_err(told)
    }

    /// Why there is no service of this name.
    fn absence(&self, name: &str) -> io::Error {
        let open = |network| open(name, network, 0);
        let error = match self.network().and_then(open) {
            _ if self.all_namespaces => "it runs in no network namespace".to_owned(),
            Ok(_) => return io::Error::other(format!("service {name} is no longer running")),
            Err(error) => error.to_string(),
        };
        io::Error::other(format!("no service {name}: {error}"))
    }
}

/// One worker of a running service.
#[derive(Debug)]
pub(crate) struct Service {
    /// The service's name.
    pub(crate) name: String,
    /// The inode of its network namespace.
    pub(crate) network: u64,
    /// What that is called, if it is not this process's.
    place: Option<String>,
    /// The name for tables: with the network namespace, `NAME@NAMESPACE`, where that is another than this process's.
    pub(crate) label: String,
    /// The worker's number.
    pub(crate) worker: u32,
    /// Its statistics.
    pub(crate) stats: StatsReader,
}

impl Service {
    /// The file of this service and worker with another ending.
    pub(crate) fn file(&self, ending: &str) -> PathBuf {
        file(&self.name, self.network, self.worker, ending)
    }

    /// The interfaces that stay with the kernel because of its rules; only the first worker tells them.
    pub(crate) fn kept(&self) -> Vec<Kept> {
        let directory = RunDirectory::of_this_machine().of_network(self.network);
        if self.worker == 0 { directory.kept(&self.name) } else { Vec::new() }
    }

    /// The name of one of its interfaces: with the network namespace before it, `NAMESPACE/INTERFACE`, where that is another.
    pub(crate) fn interface_name(&self, interface: &str) -> String {
        self.place.as_ref().map_or_else(|| interface.to_owned(), |place| format!("{place}/{interface}"))
    }

    /// Returns true for workers of one service.
    pub(crate) fn is_of(&self, other: &Service) -> bool {
        (&self.name, self.network) == (&other.name, other.network)
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

/// Finds all running services of this machine, sorted by name and network namespace.
pub(crate) fn everywhere() -> Vec<Service> {
    running(None)
}

/// Those of this network namespace; `None`: of all.
fn running(wanted: Option<u64>) -> Vec<Service> {
    let entries = fs::read_dir(RunDirectory::of_this_machine().path()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| split(entry.file_name().to_str()?));
    // A file that cannot be opened was just removed or belongs to a dead service.
    let names = names.filter(|(_, network, _)| wanted.is_none_or(|wanted| *network == wanted));
    let opened = names.filter_map(|(name, network, worker)| open(&name, network, worker).ok());
    let mut found: Vec<Service> = opened.filter(Service::is_alive).collect();
    found.sort_by(|one, other| (&one.name, one.network, one.worker).cmp(&(&other.name, other.network, other.worker)));
    found
}

/// A network namespace's name in ip-netns(8); its inode where it has none.
fn name_of_network(network: u64) -> String {
    let entries = fs::read_dir(NETWORKS).into_iter().flatten().flatten();
    let mut named = entries.filter(|entry| network_named(&entry.path()).is_ok_and(|found| found == network));
    named.next().map_or_else(|| network.to_string(), |entry| entry.file_name().to_string_lossy().into_owned())
}

/// Splits `NAME@NETWORK.stats` or `NAME@NETWORK.stats1` into name, network namespace and worker.
fn split(file: &str) -> Option<(String, u64, u32)> {
    let (begin, ending) = file.rsplit_once('.')?;
    let worker = ending.strip_prefix("stats")?;
    let (name, network) = split_stem(begin)?;
    Some((name.to_string(), network, if worker.is_empty() { 0 } else { worker.parse().ok()? }))
}

fn file(name: &str, network: u64, worker: u32, ending: &str) -> PathBuf {
    let first = RunDirectory::of_this_machine().path().join(format!("{}.{ending}", stem(name, network)));
    path_of_worker(&first, worker)
}

fn open(name: &str, network: u64, worker: u32) -> io::Result<Service> {
    let stats = StatsReader::open(&file(name, network, worker, "stats"))?;
    let is_here = network_inode().is_ok_and(|here| here == network);
    let place = (!is_here).then(|| name_of_network(network));
    let label = place.as_ref().map_or_else(|| name.to_owned(), |place| format!("{name}@{place}"));
    Ok(Service { name: name.to_owned(), network, place, label, worker, stats })
}

/// Returns true for a process that runs and may be of a group of this user's.
fn may_be_of(pid: u32, uid: u32) -> bool {
    fs::metadata(process_file(pid, "")).is_ok_and(|process| uid == 0 || process.uid() == uid)
}

fn process_file(pid: u32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}
