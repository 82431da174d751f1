//! `ss -p`: the processes that have a socket, with their names and the numbers of their descriptors.
//!
//! The service knows the processes. A program says one number for each socket; which kernel socket that number names
//! stands in /proc/PID/fd (proc_pid_fd(5)), and every other number of the same kernel socket is found there too, as
//! ss(8) finds them. Promises: a number is shown only where the process has that kernel socket open now. Where /proc
//! does not tell (another user's process, another PID namespace), the process is shown without it. Duplicates that the
//! library keeps for itself are shown as well: the process has them. Does not do: choose between two sockets that claim
//! one kernel socket; both are shown without numbers.

use std::collections::HashMap;
use std::fs;

use ringway_shm::stats::SocketRecord;

use super::Shown;

/// A process that has a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) name: String,
    pub(super) pid: u32,
    /// `None`: not known.
    pub(super) descriptor: Option<u32>,
}

/// What /proc tells of a process.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    /// The kernel socket of each descriptor that is one, by its inode.
    inodes: HashMap<u32, u64>,
    /// The other way round: the numbers in order.
    numbers: HashMap<u64, Vec<u32>>,
}

impl Process {
    /// With these sockets: number of the descriptor and inode.
    fn new(name: String, mut sockets: Vec<(u32, u64)>) -> Process {
        sockets.sort_unstable();
        let mut numbers: HashMap<u64, Vec<u32>> = HashMap::new();
        sockets.iter().for_each(|(number, inode)| numbers.entry(*inode).or_default().push(*number));
        Process { name, inodes: sockets.into_iter().collect(), numbers }
    }
}

/// Looks for the holders of all these sockets.
pub(super) fn find(sockets: &mut [Shown<'_>]) {
    find_in(sockets, read);
}

/// As [`find`], with another reader of /proc.
pub(super) fn find_in(sockets: &mut [Shown<'_>], read: impl Fn(u32) -> Option<Process>) {
    let mut known: HashMap<u32, Option<Process>> = HashMap::new();
    for pid in sockets.iter().flat_map(|shown| processes(&shown.socket)) {
        known.entry(pid).or_insert_with(|| read(pid));
    }
    let inodes: Vec<Option<u64>> = sockets.iter().map(|shown| inode(&shown.socket, &known)).collect();
    let mut claims: HashMap<u64, u32> = HashMap::new();
    inodes.iter().flatten().for_each(|inode| *claims.entry(*inode).or_default() += 1);
    for (shown, inode) in sockets.iter_mut().zip(inodes) {
        let inode = inode.filter(|inode| claims[inode] == 1);
        let of = |pid| holders_of(pid, &shown.socket, known[&pid].as_ref(), inode);
        shown.holders = processes(&shown.socket).into_iter().flat_map(of).collect();
    }
}

/// The processes that have a socket, or the first of its group.
pub(crate) fn processes(socket: &SocketRecord) -> Vec<u32> {
    let named: Vec<u32> = socket.holders.iter().copied().filter(|pid| *pid != 0).collect();
    if named.is_empty() && socket.pid != 0 { vec![socket.pid] } else { named }
}

/// The kernel socket under a socket. The number may be another socket's in a process that has this one by another
/// number; what most of the processes have is this one.
fn inode(socket: &SocketRecord, known: &HashMap<u32, Option<Process>>) -> Option<u64> {
    let descriptor = socket.descriptor?;
    let processes: Vec<&Process> = processes(socket).iter().filter_map(|pid| known[pid].as_ref()).collect();
    let candidates = processes.iter().filter_map(|process| process.inodes.get(&descriptor).copied());
    candidates.max_by_key(|inode| processes.iter().filter(|process| process.numbers.contains_key(inode)).count())
}

/// One process, once for each of its descriptors.
fn holders_of(pid: u32, socket: &SocketRecord, process: Option<&Process>, inode: Option<u64>) -> Vec<Holder> {
    let holder = |name: &str, descriptor| Holder { name: name.to_owned(), pid, descriptor };
    let numbers = process.zip(inode).and_then(|(process, inode)| Some((process, process.numbers.get(&inode)?)));
    match numbers {
        Some((process, numbers)) => numbers.iter().map(|number| holder(&process.name, Some(*number))).collect(),
        None => vec![holder(&socket.program, None)],
    }
}

/// Reads /proc. `None`: there is no such process, or it is not shown to this user.
fn read(pid: u32) -> Option<Process> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned();
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let socket = |entry: fs::DirEntry| {
        let target = fs::read_link(entry.path()).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, inode))
    };
    Some(Process::new(name, entries.filter_map(socket).collect()))
}

#[cfg(test)]
mod tests;
