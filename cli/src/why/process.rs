//! What the kernel tells of a process: whether the library is in it, and which service it shares memory with or was sent to.
//!
//! A program may write over its environment, as nginx does with its title: the memory that a group shares with its service says more.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringway_channel::attach::{DIRECTORY_VARIABLE, Door};
use ringway_shm::sys::REGION_FILE;

use crate::enable::programs::Programs;
use crate::run::program;
use crate::services::Service;

const LIBRARY: &str = "libringway_preload.so";
/// The key in the auxiliary vector (linux/auxvec.h).
pub(super) const AT_SECURE: usize = 23;

/// A process.
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) name: String,
    /// What the processes of its group share; `None`: it is in none.
    pub(super) group: Option<String>,
    /// Regions of services that it has mapped.
    regions: BTreeSet<String>,
    environment: Option<BTreeMap<String, String>>,
    has_library: bool,
    /// Its program file gave it rights.
    has_gained: bool,
}

/// Where its sockets are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// At this service.
    Served(String),
    /// At the kernel: the reason, and what can be done.
    Kernel(String, Option<&'static str>),
}

impl Process {
    /// `None`: there is no such process.
    pub(super) fn read(pid: u32) -> Option<Process> {
        let name = fs::read_to_string(file(pid, "comm")).ok()?.trim_end().to_owned();
        let environment = fs::read(file(pid, "environ")).ok().map(|bytes| variables(&bytes));
        let maps = fs::read_to_string(file(pid, "maps")).unwrap_or_default();
        let named = environment.as_ref().and_then(|variables| variables.get("RINGWAY_GROUP").cloned());
        let regions = regions(&maps);
        let group = regions.first().cloned().or(named);
        let has_gained = fs::read(file(pid, "auxv")).is_ok_and(|auxv| is_secure(&auxv));
        Some(Process { pid, name, group, regions, environment, has_library: maps.contains(LIBRARY), has_gained })
    }

    pub(super) fn all() -> Vec<Process> {
        let mut pids: Vec<u32> = pids().collect();
        pids.sort_unstable();
        pids.into_iter().filter_map(Process::read).collect()
    }

    /// Returns true if this is its name, of which the kernel keeps 15 letters, or its file's.
    pub(super) fn is_called(&self, name: &str) -> bool {
        let program = self.program().and_then(|path| path.file_name().map(|file| file.as_bytes() == name.as_bytes()));
        self.name == name.chars().take(15).collect::<String>() || program.unwrap_or(false)
    }

    /// The inode of its network namespace; `None`: this user may not know.
    fn network(&self) -> Option<u64> {
        fs::metadata(file(self.pid, "ns/net")).ok().map(|file| file.ino())
    }

    /// Returns true if the library was loaded into it for itself, and not into all programs of the machine.
    fn is_meant(&self) -> bool {
        let Ok(machine) = Programs::read(Path::new("/")) else { return true };
        let program = self.program().unwrap_or_default();
        machine.library().is_none() || machine.listed().iter().any(|listed| Path::new(listed) == program)
    }

    fn program(&self) -> Option<PathBuf> {
        fs::read_link(file(self.pid, "exe")).ok()
    }

    /// Returns true if sockets of the process `other` are its own too.
    pub(super) fn shares_with(&self, other: u32) -> bool {
        let group_of = |pid| Process::read(pid).and_then(|process| process.group);
        self.pid == other || self.group.is_some() && group_of(other) == self.group
    }

    /// Where its sockets are.
    pub(super) fn find(&self, services: &[Service]) -> Found {
        let has_memory = |service: &&Service| {
            let maps = fs::read_to_string(file(service.stats.pid(), "maps")).unwrap_or_default();
            !regions(&maps).is_disjoint(&self.regions)
        };
        // A user that may not look into the service finds the group's sockets in its statistics.
        let lists = |service: &&Service| service.sockets().iter().any(|socket| self.shares_with(socket.pid));
        let attached = if self.regions.is_empty() { &[] } else { services };
        if let Some(service) = attached.iter().find(has_memory).or_else(|| attached.iter().find(lists)) {
            return Found::Served(service.label.clone());
        }
        let Some(environment) = &self.environment else {
            return Found::Kernel("its environment cannot be read".to_owned(), Some("ask as root, or as its user"));
        };
        let again = Some("start the service again: the process attaches by itself when it makes its next call");
        let Some(socket) = environment.get("RINGWAY_SOCKET") else {
            if !self.regions.is_empty() {
                return Found::Kernel("its service has ended".to_owned(), again);
            }
            if self.has_library && self.is_meant() {
                return Found::Kernel(
                    "it has not attached to a service".to_owned(),
                    Some("it does when it makes its first socket"),
                );
            }
            return Found::Kernel(
                "it was not started on Ringway".to_owned(),
                Some("`ringway run -- PROGRAM`, `ringway enable UNIT` for a unit of systemd, or `ringway enable --program PATH`"),
            );
        };
        if !self.has_library {
            let obstacles = self.program().map(|path| program::obstacles_of(&path)).unwrap_or_default();
            let is_left_out = environment.get("LD_PRELOAD").is_none_or(String::is_empty);
            let why = match is_left_out {
                true => "it was started without the library, as what can neither open a socket nor start a program is",
                false => "the library was not loaded into it",
            };
            return Found::Kernel(obstacles.into_iter().next().unwrap_or_else(|| why.to_owned()), None);
        }
        if self.has_gained {
            let why = "its file gave it rights (setuid, setgid or capabilities), and in such a program the library does nothing";
            return Found::Kernel(why.to_owned(), None);
        }
        let door = Door::of(OsStr::new(socket), environment.get(DIRECTORY_VARIABLE).map(OsStr::new));
        let answers = |service: &&Service| match &door {
            Door::At(path) => service.file("sock") == *path,
            Door::Named { name, .. } => service.name == *name && Some(service.network) == self.network(),
        };
        match (services.iter().find(answers), door) {
            (Some(service), _) => Found::Served(service.label.clone()),
            (None, Door::At(_)) => Found::Kernel(format!("no service answers at {socket}"), again),
            (None, Door::Named { .. }) => Found::Kernel(format!("no service {socket} answers in its network namespace"), again),
        }
    }
}

impl Found {
    pub(super) fn is_served(&self) -> bool {
        matches!(self, Found::Served(_))
    }

    pub(super) fn service(&self) -> Option<&str> {
        match self {
            Found::Served(name) => Some(name),
            Found::Kernel(..) => None,
        }
    }

    pub(super) fn words(&self) -> String {
        match self {
            Found::Served(name) => format!("on Ringway, service {name}"),
            Found::Kernel(why, _) => format!("on the kernel: {why}"),
        }
    }

    pub(super) fn remedy(&self) -> Option<&'static str> {
        match self {
            Found::Served(_) => None,
            Found::Kernel(_, remedy) => *remedy,
        }
    }
}

/// Processes with a listener of the kernel's at this TCP port of the network namespace.
pub(super) fn listening_at(port: u16) -> BTreeSet<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let links: BTreeSet<String> = tables.iter().flat_map(|table| listeners(table, port)).collect();
    let holds = |pid: &u32| {
        let files = fs::read_dir(file(*pid, "fd")).into_iter().flatten().flatten();
        files.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|link| links.contains(&*link.to_string_lossy()))
    };
    if links.is_empty() { BTreeSet::new() } else { pids().filter(holds).collect() }
}

/// The names of listeners' descriptors in a table of /proc/net (proc_net(5)).
pub(super) fn listeners(table: &str, port: u16) -> Vec<String> {
    let mut found = Vec::new();
    for line in table.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, "0A", _, _, _, _, _, inode, ..] = words.as_slice() else { continue };
        let is_it = local.rsplit_once(':').and_then(|(_, text)| u16::from_str_radix(text, 16).ok()) == Some(port);
        if is_it {
            found.push(format!("socket:[{inode}]"));
        }
    }
    found
}

/// The regions in a table of mappings (proc_pid_maps(5)): device and inode of each, which are the same in service and programs.
pub(super) fn regions(maps: &str) -> BTreeSet<String> {
    let file = format!("/memfd:{}", REGION_FILE.to_string_lossy());
    let region = |line: &str| {
        let mut words = line.split_whitespace().skip(3);
        let (device, inode, path) = (words.next()?, words.next()?, words.next()?);
        (path == file).then(|| format!("{device} {inode}"))
    };
    maps.lines().filter_map(region).collect()
}

/// Returns true if AT_SECURE is set (getauxval(3)): pairs of words, a key and its value.
pub(super) fn is_secure(auxv: &[u8]) -> bool {
    const WORD: usize = size_of::<usize>();
    auxv.chunks_exact(2 * WORD).any(|pair| pair[..WORD] == AT_SECURE.to_ne_bytes() && pair[WORD..].iter().any(|byte| *byte != 0))
}

/// Variables as proc_pid_environ(5) has them.
fn variables(bytes: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(bytes);
    text.split('\0').filter_map(|pair| pair.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn file(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}
