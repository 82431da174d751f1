//! The cgroup2 file system: which cgroup a process is in, and the directory of a cgroup.
//!
//! Both are read in the service's own view, at its start: a client's mounts say nothing of what the kernel runs for it. Where
//! a fresh /sys hides the hierarchy from the service too (`ip netns exec` mounts one), a process that it descends from shows it: an
//! operator expects the same answer in every network namespace, and a mount that is missing means neither that there are
//! programs nor that there are none. Only processes of the service's user namespace count: in another one a user makes mounts
//! as it likes. Nothing is mounted. Read cgroups(7) first. Promises: a name leads to a directory of the
//! hierarchy or to none. Changes nothing.

use std::fs::read_to_string;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use ringway_shm::channel::attach::Peer;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, openat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Directories that are looked at together.
pub(super) const DIRECTORIES_MAX: usize = 1_024;

/// Processes that are asked for their view: the service's parent, its parent, and so on.
const ANCESTORS_MAX: usize = 64;

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
}

impl Hierarchy {
    /// `None`: this kernel has none, or has never mounted it; programs are attached to its directories, so there are none.
    ///
    /// # Errors
    /// It is in use, and neither this process nor one that it descends from shows its root.
    pub(super) fn open() -> Option<io::Result<Hierarchy>> {
        match read_to_string("/proc/self/cgroup") {
            Ok(text) => name_in(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound && has_no_cgroups() => return None,
            Err(error) => return Some(Err(io::Error::other(format!("/proc/self/cgroup: {error}")))),
        };
        let here = match root_seen_by("self") {
            Ok(root) => return Some(Ok(Hierarchy { root })),
            Err(error) => error,
        };
        let mut ancestors = std::iter::successors(parent_of("self"), |pid| parent_of(pid)).take(ANCESTORS_MAX);
        let root = ancestors.find_map(|pid| root_seen_by(&pid).ok()).ok_or_else(|| unseen(&here));
        Some(root.map(|root| Hierarchy { root }))
    }

    /// Takes a directory for the root.
    #[cfg(test)]
    pub(super) fn at(root: &Path) -> io::Result<Hierarchy> {
        Ok(Hierarchy { root: open_at(CWD, root)? })
    }

    /// The directory of a cgroup.
    ///
    /// # Errors
    /// `NotFound`: it has ended.
    pub(super) fn directory(&self, name: &str) -> io::Result<OwnedFd> {
        let path = relative(name).ok_or_else(|| io::Error::other("it is outside of this cgroup namespace"))?;
        open_at(self.root.as_fd(), &path)
    }

    /// Calls `visit` for every cgroup.
    ///
    /// # Errors
    /// What `visit` or the system says, or there are too many.
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
            for entry in Dir::read_from(&directory)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy();
                if entry.file_type() == FileType::Directory && name != "." && name != ".." {
                    todo.push(path.join(&*name));
                }
            }
        }
        Ok(())
    }
}

/// `None`: the process is dead.
///
/// # Errors
/// What the system says.
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

/// The path of a cgroup from the root; `None`: its name leads out of the hierarchy.
pub(super) fn relative(name: &str) -> Option<PathBuf> {
    let path = Path::new(name.strip_prefix('/')?);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    is_plain.then(|| Path::new(".").join(path))
}

/// Where the root of cgroup2 is mounted; see proc_pid_mountinfo(5).
pub(super) fn mount_in(text: &str) -> Option<PathBuf> {
    text.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let is_cgroup2 = after.split(' ').next()? == "cgroup2" && root == "/" && !point.contains('\\');
        is_cgroup2.then(|| PathBuf::from(point))
    })
}

/// A kernel without cgroups has no such file for any process.
fn has_no_cgroups() -> bool {
    read_to_string("/proc/filesystems").is_ok_and(|text| !text.lines().any(|line| line.ends_with("\tcgroup2")))
}

/// `None`: it has none that is seen from here.
pub(super) fn parent_of(process: &str) -> Option<String> {
    let status = read_to_string(format!("/proc/{process}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim();
    (parent != "0").then(|| parent.to_owned())
}

/// The root directory as a process sees it. The kernel shows the root of a mount as seen from the caller's cgroup namespace.
fn root_seen_by(process: &str) -> io::Result<OwnedFd> {
    let mounts = read_to_string(format!("/proc/{process}/mountinfo"))?;
    let point = mount_in(&mounts).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is not mounted"))?;
    let inside = point.strip_prefix("/").unwrap_or(&point);
    // The last part of this path is a link of the kernel's that no other process can change.
    let top = openat(CWD, format!("/proc/{process}/root"), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // After what is taken from it: a process that leaves this user namespace does not come back.
    let user_namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user"));
    if user_namespace(process)? != user_namespace("self")? {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is in another user namespace"));
    }
    let root = open_at(top.as_fd(), inside)?;
    // Something else may be mounted over it.
    if is_cgroup2(&root) { Ok(root) } else { Err(io::Error::new(io::ErrorKind::NotFound, "it is hidden by another mount")) }
}

fn unseen(error: &io::Error) -> io::Error {
    let what = "the cgroup2 file system is in use, but neither this process nor one that it descends from shows it";
    io::Error::other(format!("{what} ({error}); mount it, for example at /sys/fs/cgroup"))
}

fn is_cgroup2(root: &OwnedFd) -> bool {
    const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;
    rustix::fs::fstatfs(root).is_ok_and(|system| system.f_type as u64 == CGROUP2_SUPER_MAGIC)
}

fn open_at(directory: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat(directory, path, flags, Mode::empty())?)
}
