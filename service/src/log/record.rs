//! The record of a service: the last lines of its log in `NAME@NETWORK.log`, and those before them in `.log-old`.
//!
//! Promises: both together are not more than twice [`BYTES_MAX`]; only root and the service's user can read them, since they name programs
//! of all users. Those of a service that was killed stay until one of its name has started twice. Does not do: reading; `ringway log` does.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Size at which the next file begins.
const BYTES_MAX: u64 = 1 << 20;

pub(super) struct Record {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Record {
    pub(super) fn open(path: &Path) -> io::Result<Record> {
        match std::fs::rename(path, before(path)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Record { path: path.to_owned(), file, bytes: 0 })
    }

    pub(super) fn write(&mut self, line: &str) -> io::Result<()> {
        if self.bytes + line.len() as u64 > BYTES_MAX {
            *self = Record::open(&self.path)?;
        }
        self.bytes += line.len() as u64;
        // In one call: a reader that follows sees whole lines.
        self.file.write_all(line.as_bytes())
    }
}

/// The file that was the record at `path` before.
pub fn before(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-old");
    PathBuf::from(name)
}
