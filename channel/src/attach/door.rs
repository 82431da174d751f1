//! Where a service of some name is: `NAME@NETWORK.sock` and its like in the run directory, NETWORK being the inode of the service's network
//! namespace. So each network namespace has names of its own.
//!
//! Does not do: look whether a service lives there.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The run directory, unless a variable names another.
pub const DEFAULT_DIRECTORY: &str = "/run/ringway";
/// The variable that names another run directory, for tests and unprivileged use.
pub const DIRECTORY_VARIABLE: &str = "RINGWAY_RUN_DIRECTORY";

/// Where ip-netns(8) keeps network namespaces.
pub const NETWORKS: &str = "/run/netns";
const OWN_NETWORK: &str = "/proc/thread-self/ns/net";

/// The file of worker `worker` of a service, where `path` is that of its first one: the door to attach at, and what else
/// each worker has one of.
pub fn path_of_worker(path: &Path, worker: u32) -> PathBuf {
    if worker == 0 {
        return path.to_path_buf();
    }
    let mut name = path.as_os_str().to_os_string();
    name.push(worker.to_string());
    name.into()
}

/// The inode of the network namespace of the calling thread.
///
/// # Errors
/// No /proc is mounted here.
pub fn network_inode() -> io::Result<u64> {
    std::fs::metadata(OWN_NETWORK).map(|file| file.ino())
}

/// The inode of a network namespace by its name in ip-netns(8), or by the path of its file.
///
/// # Errors
/// There is none, or /proc does not tell what one is.
pub fn network_named(name: &Path) -> io::Result<u64> {
    // An absolute path stays as it is.
    let (file, own) = (std::fs::metadata(Path::new(NETWORKS).join(name))?, std::fs::metadata(OWN_NETWORK)?);
    match file.dev() == own.dev() {
        true => Ok(file.ino()),
        false => Err(io::Error::other("it is no network namespace")),
    }
}

/// What the names of all files of a service begin with, before the ending.
pub fn stem(name: &str, network: u64) -> String {
    format!("{name}@{network}")
}

/// Name and network namespace of the service whose files begin with this; `None`: it is no service's.
pub fn split_stem(stem: &str) -> Option<(&str, u64)> {
    let (name, network) = stem.rsplit_once('@')?;
    Some((name, network.parse().ok()?))
}

/// The service that a program is to attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// The one that listens at this path.
    At(PathBuf),
    /// The one of this name in the network namespace that the program is in when it attaches.
    Named {
        /// The run directory.
        directory: PathBuf,
        /// The name.
        name: String,
    },
}

impl Door {
    /// Reads the values of RINGWAY_SOCKET and RINGWAY_RUN_DIRECTORY: what has a `/` in it is a path, all else a name.
    pub fn of(socket: &OsStr, directory: Option<&OsStr>) -> Door {
        if socket.as_bytes().contains(&b'/') {
            return Door::At(socket.into());
        }
        let directory = directory.filter(|directory| !directory.is_empty()).unwrap_or(OsStr::new(DEFAULT_DIRECTORY));
        Door::Named { directory: directory.into(), name: socket.to_string_lossy().into_owned() }
    }

    /// The socket to attach at.
    ///
    /// # Errors
    /// As of [`network_inode`].
    pub fn path(&self) -> io::Result<PathBuf> {
        match self {
            Door::At(path) => Ok(path.clone()),
            Door::Named { directory, name } => {
                let network = network_inode()
                    .map_err(|error| io::Error::new(error.kind(), format!("/proc tells no network namespace: {error}")))?;
                Ok(directory.join(stem(name, network) + ".sock"))
            }
        }
    }

    /// The service's name, for messages.
    pub fn service(&self) -> String {
        match self {
            Door::At(path) => {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                split_stem(&stem).map(|(name, _)| name.to_owned()).unwrap_or(stem)
            }
            Door::Named { name, .. } => name.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
