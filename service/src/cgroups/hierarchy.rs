//! The cgroup2 file system: which cgroup a process is in, and the directory of a cgroup.
//!
//! Both are read in the service's own view, at its start: a client's mounts say nothing of what the kernel runs for it. Where no mount shows
//! the hierarchy (`ip netns exec` mounts a fresh /sys), the service opens it for itself, while it has the right. /proc/PID/cgroup names a
//! cgroup as seen from the reader's cgroup namespace, whatever the client's is; a name such as "/../a" stands outside of the service's. It has
//! a directory where a mount shows more than the namespace, as a host's hierarchy that is mounted in a container, and none else. The kernel tells nothing of a process in a PID namespace that is not below the service's, also by its pidfd
//! (PIDFD_GET_INFO of SO_PEERPIDFD: EREMOTE): it may be in any cgroup of which the kernel lists a process by the number 0. Read cgroups(7)
//! first. Promises: a name leads to a directory of the hierarchy or to none. Changes nothing.

use std::fs::{File, read_to_string};
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use ringway_channel::attach::Peer;
use ringway_device::steering::attached::root_of_cgroups;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, openat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Directories that are looked at together.
pub(super) const DIRECTORIES_MAX: usize = 1_024;
/// Directories among which the one of this namespace is looked for.
const SEARCHED_MAX: usize = 16_384;

/// Where a process is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In the cgroup of this name.
    Cgroup(String),
    /// The service has no number for the process, and does not see where it is.
    Hidden,
}

/// The root directory.
pub(super) struct Hierarchy {
    root: OwnedFd,
    /// The way from it to the root of this cgroup namespace.
    here: PathBuf,
}

/// Where cgroup2 is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) point: PathBuf,
    /// How far its root stands above that of this cgroup namespace.
    pub(super) above: usize,
}

impl Hierarchy {
    /// `None`: this kernel has none, or has never mounted it; programs are attached to its directories, so there are none.
    ///
    /// # Errors
    /// It is in use, is mounted nowhere in this process's view, and the process may not open it.
    pub(super) fn open() -> Option<io::Result<Hierarchy>> {
        match read_to_string("/proc/self/cgroup") {
            Ok(text) => name_in(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound && has_no_cgroups() => return None,
            Err(error) => return Some(Err(io::Error::other(format!("/proc/self/cgroup: {error}")))),
        };
        let at_root = |root| Hierarchy { root, here: PathBuf::new() };
        Some(Hierarchy::mounted().or_else(|here| root_of_cgroups().map(at_root).map_err(|own| unseen(&here, &own))))
    }

    /// Takes a directory for the root.
    #[cfg(test)]
    pub(super) fn at(root: &Path) -> io::Result<Hierarchy> {
        Ok(Hierarchy { root: open_at(CWD, root)?, here: PathBuf::new() })
    }

    /// The hierarchy as it is mounted here, as much of it as there is.
    fn mounted() -> io::Result<Hierarchy> {
        let missing = |text: &str| io::Error::new(io::ErrorKind::NotFound, text);
        let mounts = read_to_string("/proc/self/mountinfo")?;
        let Mount { point, above } = mount_in(&mounts).ok_or_else(|| missing("it is not mounted"))?;
        let root = open_at(CWD, &point)?;
        // Something else may be mounted over it.
        if !is_cgroup2(&root) {
            return Err(missing("it is hidden by another mount"));
        }
        let mut hierarchy = Hierarchy { root, here: PathBuf::new() };
        if above > 0 {
            let own = name_in(&read_to_string("/proc/self/cgroup")?).ok_or_else(|| missing("this process is in none"))?;
            let own = relative(Path::new(""), &own).ok_or_else(|| missing("this process is outside of its namespace"))?;
            hierarchy.here = hierarchy.find_here(above, &own)?;
        }
        Ok(hierarchy)
    }

    /// Looks for the root of this cgroup namespace, so many levels down: this process is in its cgroup `own`.
    fn find_here(&self, levels: usize, own: &Path) -> io::Result<PathBuf> {
        let (mut todo, mut looked_at) = (vec![PathBuf::from(".")], 0);
        while let Some(path) = todo.pop() {
            looked_at += 1;
            if looked_at > SEARCHED_MAX {
                break;
            }
            // The first component is the dot.
            if path.components().count() > levels {
                let directory = open_at(self.root.as_fd(), &path.join(own));
                if directory.is_ok_and(|directory| lists(&directory, std::process::id())) {
                    return Ok(path);
                }
                continue;
            }
            // What has ended meanwhile is not it, and what may not be read neither.
            let Ok(directory) = open_at(self.root.as_fd(), &path) else { continue };
            todo.extend(children(&directory)?.into_iter().map(|name| path.join(name)));
        }
        Err(io::Error::other(format!("the cgroup of this process is not among the first {SEARCHED_MAX}")))
    }

    /// The directory of a cgroup.
    ///
    /// # Errors
    /// `NotFound`: it has ended.
    pub(super) fn directory(&self, name: &str) -> io::Result<OwnedFd> {
        let path = relative(&self.here, name)
            .ok_or_else(|| io::Error::other("it is outside of what this cgroup namespace and its mounts show"))?;
        open_at(self.root.as_fd(), &path)
    }

    /// Calls `visit` for every cgroup.
    ///
    /// # Errors
    /// Errors of `visit` and of the system; too many cgroups.
    pub(super) fn for_each(&self, visit: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<()>) -> io::Result<()> {
        let (mut todo, mut looked_at) = (vec![PathBuf::from(".")], 0);
        while let Some(path) = todo.pop() {
            looked_at += 1;
            if looked_at > DIRECTORIES_MAX {
                return Err(io::Error::other(format!("there are more than {DIRECTORIES_MAX}")));
            }
            let directory = match open_at(self.root.as_fd(), &path) {
                Ok(directory) => directory,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            visit(directory.as_fd())?;
            todo.extend(children(&directory)?.into_iter().map(|name| path.join(name)));
        }
        Ok(())
    }
}

/// The directories in a directory.
fn children(directory: &OwnedFd) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        if entry.file_type() == FileType::Directory && name != "." && name != ".." {
            found.push(name.into_owned());
        }
    }
    Ok(found)
}

/// Returns true if a process is in this cgroup.
fn lists(cgroup: &OwnedFd, pid: u32) -> bool {
    let processes = openat(cgroup, "cgroup.procs", OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty());
    let mut lines = processes.map(|file| BufReader::new(File::from(file)).lines()).into_iter().flatten();
    lines.any(|line| line.is_ok_and(|line| line.parse() == Ok(pid)))
}

/// Returns true if a process may be in the cgroup that this process has no number for: cgroup.procs has zeros for them. A cgroup of threads
/// does not list its processes.
pub(super) fn may_hide(cgroup: BorrowedFd<'_>) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let Ok(processes) = openat(cgroup, "cgroup.procs", flags, Mode::empty()) else { return true };
    BufReader::new(File::from(processes)).lines().any(|line| line.map_or(true, |number| number == "0"))
}

/// `None`: the process is dead.
///
/// # Errors
/// Errors of the system.
pub(super) fn place_of(pid: u32) -> io::Result<Option<Place>> {
    if Peer::is_foreign(pid) {
        return Ok(Some(Place::Hidden));
    }
    match read_to_string(format!("/proc/{pid}/cgroup")) {
        Ok(text) => match name_in(&text) {
            Some(name) => Ok(Some(Place::Cgroup(name))),
            None => Err(io::Error::other("it is in no cgroup of version 2")),
        },
        // Options of /proc (hidepid) hide processes that run.
        Err(error) if is_absence(&error) && is_gone(pid) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| pidfd_open(pid, PidfdFlags::empty()).err() == Some(rustix::io::Errno::SRCH))
}

/// The line of cgroup2 in /proc/PID/cgroup.
pub(super) fn name_in(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

/// The path of a cgroup from the root, from which `here` leads to the root of this namespace; `None`: its name leads out of the hierarchy. Only
/// at the beginning of a name the kernel writes that it goes up.
pub(super) fn relative(here: &Path, name: &str) -> Option<PathBuf> {
    let parts: Vec<Component<'_>> = Path::new(name.strip_prefix('/')?).components().collect();
    let up = parts.iter().take_while(|part| matches!(part, Component::ParentDir)).count();
    let mut path = Path::new(".").join(here);
    for _ in 0..up {
        // The last one is the dot.
        path = path.parent().filter(|parent| !parent.as_os_str().is_empty())?.to_path_buf();
    }
    let is_plain = parts[up..].iter().all(|part| matches!(part, Component::Normal(_)));
    is_plain.then(|| parts[up..].iter().fold(path, |path, part| path.join(part)))
}

/// Where the most of cgroup2 is mounted; see proc_pid_mountinfo(5).
pub(super) fn mount_in(text: &str) -> Option<Mount> {
    let mounts = text.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        // The root of this namespace, or one above it.
        let above = root.strip_prefix('/')?;
        let above: Vec<&str> = above.split('/').filter(|part| !part.is_empty()).collect();
        let is_whole = above.iter().all(|part| *part == "..");
        let is_cgroup2 = after.split(' ').next()? == "cgroup2" && is_whole && !point.contains('\\');
        is_cgroup2.then(|| Mount { point: PathBuf::from(point), above: above.len() })
    });
    // Of several the first.
    mounts.reduce(|most, other| if other.above > most.above { other } else { most })
}

/// A kernel without cgroups has no such file for any process.
fn has_no_cgroups() -> bool {
    read_to_string("/proc/filesystems").is_ok_and(|text| !text.lines().any(|line| line.ends_with("\tcgroup2")))
}

fn unseen(here: &io::Error, own: &io::Error) -> io::Error {
    let what = "the cgroup2 file system is in use, but the service neither sees it";
    io::Error::new(own.kind(), format!("{what} ({here}) nor may open it ({own}); mount it, for example at /sys/fs/cgroup"))
}

fn is_cgroup2(root: &OwnedFd) -> bool {
    const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;
    rustix::fs::fstatfs(root).is_ok_and(|system| system.f_type as u64 == CGROUP2_SUPER_MAGIC)
}

fn open_at(directory: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat(directory, path, flags, Mode::empty())?)
}
