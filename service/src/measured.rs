//! What `ringway doctor --measure` has found out about this machine, for settings that are `auto`.
//!
//! Promises: a measurement of another kernel or another version of Ringway counts as none, and so does a file that cannot be read. Does
//! not do: measure.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ringway_engine::BulkPolicy;
use toml::de::DeTable;

use crate::config::{BulkChoice, Policy};
use crate::kernel;

const DEFAULT_DIRECTORY: &str = "/var/lib/ringway";
/// Names another directory, for tests and unprivileged use.
const DIRECTORY_VARIABLE: &str = "RINGWAY_STATE_DIRECTORY";
const FILE: &str = "measured.toml";
/// Of the file, what is read.
const BYTES_MAX: u64 = 4_096;

/// What carries bulk data where nothing was measured: as far as it was, the kernel sends faster, and does not receive faster (docs/handover.md).
const UNMEASURED: BulkChoice = BulkChoice::Sent;

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The stack that carries bulk data at the higher rate; never [`BulkChoice::Auto`].
    pub bulk: BulkChoice,
}

impl Measured {
    /// The file: `/var/lib/ringway/measured.toml`, or in the directory that `RINGWAY_STATE_DIRECTORY` names.
    pub fn path() -> PathBuf {
        let directory = std::env::var_os(DIRECTORY_VARIABLE).map_or_else(|| PathBuf::from(DEFAULT_DIRECTORY), PathBuf::from);
        directory.join(FILE)
    }

    /// What was measured with this kernel and this version; `None`: nothing.
    pub fn read(path: &Path) -> Option<Measured> {
        let mut text = String::new();
        fs::File::open(path).ok()?.take(BYTES_MAX).read_to_string(&mut text).ok()?;
        let table = DeTable::parse(&text).ok()?;
        let value = |key: &str| table.get_ref().get(key).and_then(|value| value.get_ref().as_str());
        if value("kernel") != Some(&kernel::release()) || value("version") != Some(env!("CARGO_PKG_VERSION")) {
            return None;
        }
        let bulk = BulkChoice::of(value("bulk")?)?;
        (bulk != BulkChoice::Auto).then_some(Measured { bulk })
    }

    /// Writes the file anew, and its directory.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let text = format!(
            "# Written by `ringway doctor --measure`, for settings that are \"auto\". It counts for this kernel and this version only.\n\
             kernel = {:?}\nversion = {:?}\nbulk = {:?}\n",
            kernel::release(),
            env!("CARGO_PKG_VERSION"),
            self.bulk.word()
        );
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        // Readers see the old file or the new one.
        let beside = path.with_extension("new");
        fs::write(&beside, text)?;
        fs::rename(&beside, path)
    }
}

/// Which connections go to the kernel for their bulk data.
pub(crate) fn bulk(policy: &Policy) -> Option<BulkPolicy> {
    bulk_by(policy, &Measured::path())
}

/// The same by the measurement in a file.
fn bulk_by(policy: &Policy, measured: &Path) -> Option<BulkPolicy> {
    let choice = match policy.bulk {
        BulkChoice::Auto => Measured::read(measured).map_or(UNMEASURED, |measured| measured.bulk),
        choice => choice,
    };
    let received = match choice {
        BulkChoice::Auto | BulkChoice::Stack => return None,
        BulkChoice::Sent => false,
        BulkChoice::Kernel => true,
    };
    Some(BulkPolicy { after: policy.bulk_after, received })
}

#[cfg(test)]
mod tests;
