//! The secret of this machine's boot: what must not be guessed comes from it.
//!
//! It stands beside the run directory (in it, where that is all that the service's user may write), readable by its owner only, and outlives services on purpose:
//! sequence numbers and timestamps of a service that starts again go on where the last one's were, so
//! that peers take its connections while they still remember the old ones (RFC 6528 §3, RFC 7323 §5.4).
//! Does not do: survive a reboot.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::rundir::RunDirectory;

/// The secret, which is made when there is none yet.
///
/// # Errors
/// The file cannot be made or read, or belongs to another user.
pub(crate) fn of_this_boot(directory: &RunDirectory) -> io::Result<u64> {
    named(directory, "secret").map(u64::from_ne_bytes)
}

/// The key of memberships (`broker::seals`), as secret and as long-lived.
///
/// # Errors
/// As of the secret.
pub(crate) fn key_of_this_boot(directory: &RunDirectory) -> io::Result<[u8; 32]> {
    named(directory, "key")
}

fn named<const N: usize>(directory: &RunDirectory, name: &str) -> io::Result<[u8; N]> {
    let beside = directory.path().with_extension(name);
    let theirs = fs::symlink_metadata(&beside).is_ok_and(|found| found.uid() != rustix::process::geteuid().as_raw());
    // An ordinary user whose run directory a unit has made may write nothing beside it.
    match if theirs { Err(io::ErrorKind::PermissionDenied.into()) } else { of(&beside) } {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => of(&directory.path().join(format!(".{name}"))),
        found => found,
    }
}

fn of<const N: usize>(path: &Path) -> io::Result<[u8; N]> {
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(path, &random_bytes::<N>()?)?;
            read(path)
        }
        found => found,
    }
}

/// 64 random bits.
pub(crate) fn random() -> io::Result<u64> {
    random_bytes().map(u64::from_ne_bytes)
}

fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes)
}

fn read<const N: usize>(path: &Path) -> io::Result<[u8; N]> {
    let metadata = fs::symlink_metadata(path)?;
    let ours = metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o077 == 0;
    let bytes = if ours { fs::read(path)? } else { Vec::new() };
    bytes.try_into().map_err(|_| io::Error::other(format!("{} is not a secret of ours; remove it", path.display())))
}

/// Makes the file whole or not at all; a second writer uses the first one's.
fn make(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = PathBuf::from(format!("{}.{}", path.display(), std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    let linked = file.write_all(bytes).and_then(|()| fs::hard_link(&unfinished, path));
    fs::remove_file(&unfinished)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
