//! The files of running services in `/run/ringway`: which live, which are dead.
//!
//! Names belong to a network namespace: the files of service NAME in the one with inode NETWORK begin with `NAME@NETWORK` (`door` of `channel`). It
//! holds a lock on `NAME@NETWORK.lock`, which says its process, for as long as it lives; beside it stand `.sock`, `.stats`, `.capture`, `.ended` and
//! `.selftest`, and `.sock1` and so on for each further worker. Promises: two services of a network namespace never have one name; nothing stays
//! after a clean stop; what a killed service left is removed by the next one of any network namespace, but for two files: `.offloads`
//! (`lost_offloads`) until what it says is restored, and the record of its log (`log`) for the next service of its name. Does not do: talk
//! to services.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ringway_channel::attach::{
    DEFAULT_DIRECTORY, DIRECTORY_VARIABLE, WORKERS_MAX, network_inode, path_of_worker, split_stem, stem,
};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::devices::Files;
use crate::kept::{self, Kept};
use crate::log;
use crate::lost_offloads;
use crate::selftest::Findings;

/// The name of the service that `ringway run` looks for.
pub const DEFAULT_NAME: &str = "default";

/// Milliseconds to wait for a lock whose holder is not known to be alive.
const PATIENCE: u32 = 100;
const NAME_LEN_MAX: usize = 64;
/// Of a lock file, what is read.
const LOCK_BYTES: u64 = 64;
/// Everything that a service may leave behind, the lock last.
#[rustfmt::skip]
const EXTENSIONS: [&str; 15] = [
    "sock", "new", "stats", "capture", ENDED, "selftest", PROGRAMS, "offloads-new", KEPT, "kernel-new", CONFIG, "config-new", SET, "set-new",
    "lock",
];
/// The interfaces that stay with the kernel; see `kept`.
const KEPT: &str = "kernel";
/// The configuration that the service follows; see `published`.
const CONFIG: &str = "config";
/// What has been changed in it; see `published`.
const SET: &str = "set";
/// Offloads that cards have lost; see `lost_offloads`.
const OFFLOADS: &str = "offloads";
/// Sockets that end, for tools that listen.
const ENDED: &str = "ended";
/// The record of the log; see `log`.
const LOG: &str = "log";
/// The beginning of the names of services of `ringway run`, which none has again.
pub const PRIVATE: &str = "private-";
/// The numbers of the programs that a service has attached to interfaces, a line each.
const PROGRAMS: &str = "programs";
/// Those of which each worker but the first has one, with its number behind it.
const NUMBERED: [&str; 4] = ["sock", "stats", "capture", ENDED];

/// Why a name could not be had.
#[derive(Debug)]
pub enum ClaimError {
    /// A living service has it; its process id, if it has written it.
    Taken(Option<u32>),
    /// Letters, digits, `-`, `_` and `.` only, and not too many.
    BadName,
    /// The directory or a file in it could not be made.
    Io(PathBuf, io::Error),
}

impl std::fmt::Display for ClaimError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClaimError::Taken(Some(pid)) => {
                write!(
                    f,
                    "a service of this name is already running in this network namespace as process {pid}; use --replace or --name"
                )
            }
            ClaimError::Taken(None) => {
                write!(f, "a service of this name is already running in this network namespace; use --replace or --name")
            }
            ClaimError::BadName => write!(f, "a service's name has 1 to {NAME_LEN_MAX} letters, digits, '-', '_' or '.'"),
            ClaimError::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for ClaimError {}

/// The services' files of one network namespace in a directory.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    path: PathBuf,
    network: u64,
}

/// A service that has files in the directory, and its network namespace.
type Named = (String, u64);

/// Whether a service holds its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Living,
    Dead,
}

/// A name that is ours while this lives. Dropping it removes all files of that name.
#[derive(Debug)]
pub struct Claim {
    directory: RunDirectory,
    name: String,
    /// Holds the lock.
    _lock: File,
}

impl RunDirectory {
    /// `/run/ringway`, or what `RINGWAY_RUN_DIRECTORY` names.
    pub fn of_this_machine() -> RunDirectory {
        let path = std::env::var_os(DIRECTORY_VARIABLE).map_or_else(|| PathBuf::from(DEFAULT_DIRECTORY), PathBuf::from);
        RunDirectory::at(path)
    }

    /// `/run/ringway`, whatever the environment names.
    pub(crate) fn default_of_machines() -> RunDirectory {
        RunDirectory::at(PathBuf::from(DEFAULT_DIRECTORY))
    }

    /// Some other directory, and in it the services of this process's network namespace; of none where no /proc tells it.
    pub fn at(path: PathBuf) -> RunDirectory {
        RunDirectory { path, network: network_inode().unwrap_or(0) }
    }

    /// The services of another network namespace, by its inode.
    pub fn of_network(&self, network: u64) -> RunDirectory {
        RunDirectory { path: self.path.clone(), network }
    }

    /// The inode of the network namespace.
    pub fn network(&self) -> u64 {
        self.network
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The socket of the service `name`.
    pub fn socket_path(&self, name: &str) -> PathBuf {
        self.file(name, "sock")
    }

    /// The statistics of the service `name`.
    pub fn stats_path(&self, name: &str) -> PathBuf {
        self.file(name, "stats")
    }

    /// The capture ring of the service `name`.
    pub fn capture_path(&self, name: &str) -> PathBuf {
        self.file(name, "capture")
    }

    /// Returns the path of the file with the findings of service `name` about AF_XDP on its interfaces; there from the first device of that kind on.
    pub fn selftest_path(&self, name: &str) -> PathBuf {
        self.file(name, "selftest")
    }

    /// The configuration that the service `name` follows; see [`published`](crate::published).
    pub fn config_path(&self, name: &str) -> PathBuf {
        self.file(name, CONFIG)
    }

    /// The record of the log of the service `name`; that of one that was killed stays for the next of its name.
    pub fn log_path(&self, name: &str) -> PathBuf {
        self.file(name, LOG)
    }

    /// What has been set in the service `name` while it runs.
    pub fn set_path(&self, name: &str) -> PathBuf {
        self.file(name, SET)
    }

    /// The BPF programs of the services here, by the kernel's numbers. A directory that is neither root's nor this user's says
    /// nothing: its owner could name a program of others.
    pub fn programs(&self) -> BTreeSet<u32> {
        let is_trusted = |metadata: std::fs::Metadata| [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid());
        if !std::fs::symlink_metadata(&self.path).is_ok_and(is_trusted) {
            return BTreeSet::new();
        }
        let files = std::fs::read_dir(&self.path).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == PROGRAMS));
        let texts = files.filter_map(|path| std::fs::read_to_string(path).ok());
        texts.flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<u32>>()).collect()
    }

    /// Takes `name`, after removing what dead services left.
    ///
    /// # Errors
    /// See [`ClaimError`].
    pub fn claim(&self, name: &str) -> Result<Claim, ClaimError> {
        check_name(name)?;
        self.create().map_err(|error| ClaimError::Io(self.path.clone(), error))?;
        self.remove_dead().map_err(|error| ClaimError::Io(self.path.clone(), error))?;
        let path = self.file(name, "lock");
        let mut patience = PATIENCE;
        loop {
            let mut lock = open_lock(&path).map_err(|error| ClaimError::Io(path.clone(), error))?;
            match try_lock(&lock) {
                Ok(true) if is_still_at(&lock, &path) => {
                    write_pid(&mut lock).map_err(|error| ClaimError::Io(path.clone(), error))?;
                    return Ok(Claim { directory: self.clone(), name: name.to_owned(), _lock: lock });
                }
                // Its last owner removed it between our opening and our locking.
                Ok(true) => {}
                Ok(false) => {
                    let holder = read_pid(&mut lock);
                    // A process that checks whether we are alive holds the lock for a moment too.
                    if holder.is_some_and(is_running) {
                        return Err(ClaimError::Taken(holder));
                    }
                    if patience == 0 {
                        // Everybody may read the file, and so lock it. A new one takes its place.
                        self.replace_lock(&lock, &path).map_err(|error| ClaimError::Io(path.clone(), error))?;
                        patience = PATIENCE;
                    }
                    patience -= 1;
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                Err(error) => return Err(ClaimError::Io(path, error)),
            }
        }
    }

    /// Removes a lock file that another user holds, unless another service has just done so.
    fn replace_lock(&self, lock: &File, path: &Path) -> io::Result<()> {
        // Only we may open this one.
        let guard = self.path.join(".claim");
        let guard = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(guard)?;
        flock(&guard, FlockOperation::LockExclusive)?;
        if is_still_at(lock, path) { std::fs::remove_file(path) } else { Ok(()) }
    }

    /// The names of living services of this network namespace, sorted.
    ///
    /// # Errors
    /// The directory cannot be read; that it is not there is no error.
    pub fn living(&self) -> io::Result<Vec<String>> {
        let living = self.services(Life::Living)?;
        Ok(living.into_iter().filter(|(_, network)| *network == self.network).map(|(name, _)| name).collect())
    }

    /// Dead services of all network namespaces whose files are still here, sorted: by name, those of others as `NAME@NETWORK`.
    ///
    /// # Errors
    /// The directory cannot be read; that it is not there is no error.
    pub fn dead(&self) -> io::Result<Vec<String>> {
        Ok(self.services(Life::Dead)?.iter().map(|service| self.label(service)).collect())
    }

    /// Returns true if a service `name` of this network namespace lives, and this process sees it.
    pub fn serves_here(&self, name: &str) -> bool {
        let Ok(mut lock) = OpenOptions::new().read(true).open(self.file(name, "lock")) else { return false };
        // Free: its service is dead.
        if try_lock(&lock).unwrap_or(true) {
            return false;
        }
        read_pid(&mut lock).is_some_and(|pid| Path::new("/proc").join(pid.to_string()).exists())
    }

    /// The process of the service `name`, as its lock file says.
    pub fn process_of(&self, name: &str) -> Option<u32> {
        read_pid(&mut File::open(self.file(name, "lock")).ok()?)
    }

    /// Removes the files of services of any network namespace that have died; returns them as [`dead`](Self::dead).
    ///
    /// # Errors
    /// The directory cannot be read or a file not be removed.
    pub fn remove_dead(&self) -> io::Result<Vec<String>> {
        let mut removed = Vec::new();
        for service in self.services(Life::Dead)? {
            let (name, there) = (&service.0, self.of_network(service.1));
            let path = there.file(name, "lock");
            let lock = match OpenOptions::new().read(true).open(&path) {
                Ok(lock) => Some(lock),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            // Holding the lock of the dead keeps a new service of that name away while we clean.
            if lock.as_ref().map_or(Ok(true), try_lock)? {
                there.remove_files(name)?;
                if name.starts_with(PRIVATE) {
                    there.remove_record(name)?;
                }
                removed.push(self.label(&service));
            }
        }
        Ok(removed)
    }

    fn label(&self, (name, network): &Named) -> String {
        if *network == self.network { name.clone() } else { stem(name, *network) }
    }

    /// Returns the interfaces that stay with the kernel because of its rules, as the service `name` found last.
    pub fn kept(&self, name: &str) -> Vec<Kept> {
        kept::read(&self.file(name, KEPT))
    }

    /// Describes the offloads of cards that dead services have left off in this network namespace, a line each.
    pub fn offloads_off(&self) -> Vec<String> {
        self.dead_here().iter().flat_map(|name| lost_offloads::describe(&self.file(name, OFFLOADS))).collect()
    }

    /// Switches on again what dead services have left off; returns what was done and what could not be, a line each.
    pub fn restore_offloads(&self) -> Vec<String> {
        self.dead_here().iter().flat_map(|name| lost_offloads::restore(&self.file(name, OFFLOADS))).collect()
    }

    fn dead_here(&self) -> Vec<String> {
        let dead = self.services(Life::Dead).unwrap_or_default();
        dead.into_iter().filter(|(_, network)| *network == self.network).map(|(name, _)| name).collect()
    }

    /// The services with files here that live, or do not, of all network namespaces, sorted.
    fn services(&self, wanted: Life) -> io::Result<Vec<Named>> {
        let entries = match std::fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = BTreeSet::new();
        for entry in entries {
            let file = PathBuf::from(entry?.file_name());
            let ours = file.extension().and_then(|extension| extension.to_str()).is_some_and(is_ours);
            if let (true, Some((name, network))) = (ours, file.file_stem().and_then(|stem| split_stem(stem.to_str()?))) {
                found.insert((name.to_owned(), network));
            }
        }
        let mut kept = Vec::new();
        for service in found {
            if self.of_network(service.1).life(&service.0)? == wanted {
                kept.push(service);
            }
        }
        Ok(kept)
    }

    fn life(&self, name: &str) -> io::Result<Life> {
        match OpenOptions::new().read(true).open(self.file(name, "lock")) {
            // The lock is given back at once, when `lock` is closed.
            Ok(lock) => try_lock(&lock).map(|free| if free { Life::Dead } else { Life::Living }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Life::Dead),
            Err(error) => Err(error),
        }
    }

    fn remove_files(&self, name: &str) -> io::Result<()> {
        let of_workers = |worker| NUMBERED.map(|kind| path_of_worker(&self.file(name, kind), worker));
        let further = (1..WORKERS_MAX).flat_map(of_workers);
        further.chain(EXTENSIONS.map(|extension| self.file(name, extension))).try_for_each(|path| remove(&path))
    }

    fn remove_record(&self, name: &str) -> io::Result<()> {
        let path = self.log_path(name);
        [log::record_before(&path), path].iter().try_for_each(|path| remove(path))
    }

    fn create(&self) -> io::Result<()> {
        match std::fs::create_dir(&self.path) {
            // Programs that have given up their rights must still reach the socket.
            Ok(()) => std::fs::set_permissions(&self.path, PermissionsExt::from_mode(0o755)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn file(&self, name: &str, extension: &str) -> PathBuf {
        self.path.join(format!("{}.{extension}", stem(name, self.network)))
    }
}

impl Claim {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its files are.
    pub fn directory(&self) -> &RunDirectory {
        &self.directory
    }

    /// Where this service listens.
    pub fn socket_path(&self) -> PathBuf {
        self.directory.socket_path(&self.name)
    }

    /// Where it keeps its statistics.
    pub fn stats_path(&self) -> PathBuf {
        self.directory.stats_path(&self.name)
    }

    /// Where it says what it has found out about AF_XDP.
    pub fn selftest_path(&self) -> PathBuf {
        self.directory.selftest_path(&self.name)
    }

    /// Where it writes down what it finds out about interfaces and does to them.
    pub(crate) fn files(&self) -> Files {
        Files {
            findings: Findings::new(self.selftest_path()),
            programs: self.programs_path(),
            lost: self.directory.file(&self.name, OFFLOADS),
            kept: self.directory.file(&self.name, KEPT),
        }
    }

    /// Where it keeps its capture ring.
    pub fn capture_path(&self) -> PathBuf {
        self.directory.capture_path(&self.name)
    }

    /// Where tools hear of its sockets that end.
    pub(crate) fn ended_path(&self) -> PathBuf {
        self.directory.file(&self.name, ENDED)
    }

    /// Where it keeps the record of its log.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.directory.log_path(&self.name)
    }

    /// Where it names its programs; see [`RunDirectory::programs`].
    fn programs_path(&self) -> PathBuf {
        self.directory.file(&self.name, PROGRAMS)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let removed = self.directory.remove_files(&self.name).and_then(|()| self.directory.remove_record(&self.name));
        if let Err(error) = removed {
            eprintln!("ringway: files of {} stay in {}: {error}", self.name, self.directory.path.display());
        }
    }
}

/// Returns the name if a service may have it.
///
/// # Errors
/// [`ClaimError::BadName`].
pub fn check_name(name: &str) -> Result<String, ClaimError> {
    let valid = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    match name.is_empty() || name.len() > NAME_LEN_MAX || name.starts_with('.') || !name.chars().all(valid) {
        true => Err(ClaimError::BadName),
        false => Ok(name.to_owned()),
    }
}

/// Writes a file that is whole or not there; it takes the place of one that is there.
///
/// # Errors
/// It cannot be written.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let unfinished = unfinished(path);
    std::fs::write(&unfinished, text)?;
    std::fs::rename(unfinished, path)
}

/// The file that takes the place of `path` when it is whole.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-new");
    PathBuf::from(name)
}

/// Removes a file, if there is one.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn is_ours(extension: &str) -> bool {
    let kind = extension.trim_end_matches(|letter: char| letter.is_ascii_digit());
    extension == OFFLOADS || EXTENSIONS.contains(&extension) || NUMBERED.contains(&kind)
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o644).open(path)
}

/// `false`: it is held.
fn try_lock(lock: &File) -> io::Result<bool> {
    match flock(lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if a process of the user that we are, or of root, has this number.
fn is_running(pid: u32) -> bool {
    let process = std::fs::metadata(Path::new("/proc").join(pid.to_string()));
    process.is_ok_and(|process| [0, rustix::process::geteuid().as_raw()].contains(&process.uid()))
}

fn is_still_at(lock: &File, path: &Path) -> bool {
    match (lock.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

fn write_pid(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.seek(SeekFrom::Start(0))?;
    writeln!(lock, "{}", std::process::id())
}

/// The process that holds a lock.
fn read_pid(lock: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock.take(LOCK_BYTES).read_to_string(&mut text).ok()?;
    text.lines().next()?.trim().parse().ok()
}

/// The network namespace of this process, as the kernel names it: `net:[4026531840]`.
pub(crate) fn network_here() -> Option<String> {
    network_inode().ok().map(|inode| format!("net:[{inode}]"))
}

#[cfg(test)]
mod tests;
