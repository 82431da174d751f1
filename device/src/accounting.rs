//! Which file a process runs, by the kernel's accounting: /proc/PID/exe says it too, but only to a process that may trace the other.
//!
//! Read Documentation/accounting/taskstats.rst and linux/taskstats.h of the kernel first. The caller's thread needs CAP_NET_ADMIN in the first user
//! namespace. Promises: what the kernel does not say is an error; [`Accounting::open`] has compared what it says of this process with the
//! file that this process runs. Does not do: the way to that file; a file may have several, or none any more.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, fstat, makedev, open, statx};

use crate::interface::route::{ask_generic, attribute_of, family_of};
use crate::netlink::{attribute, put, u16_at, u64_at};

const TASKSTATS_CMD_GET: u8 = 1;
const TASKSTATS_CMD_ATTR_PID: u16 = 1;
const TASKSTATS_TYPE_STATS: u16 = 3;
const TASKSTATS_TYPE_AGGR_PID: u16 = 4;
/// The first version of `struct taskstats` that has the file.
const VERSION_MIN: u16 = 12;
/// Bytes in front of `ac_exe_dev`, behind which `ac_exe_inode` stands.
const FILE_AT: usize = 384;

/// Asks the kernel.
#[derive(Debug)]
pub struct Accounting {
    /// The number of generic netlink's family.
    family: u16,
}

/// A file, as the kernel's accounting names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// The device of its file system.
    device: u64,
    inode: u64,
}

impl Accounting {
    /// Tries it on this process.
    ///
    /// # Errors
    /// The system's (EPERM without the right, ENOENT for a kernel without accounting of tasks), or the kernel says it in another form.
    pub fn open() -> io::Result<Accounting> {
        let accounting = Accounting { family: family_of(b"TASKSTATS\0")? };
        let said = accounting.file_of(std::process::id())?;
        match said.is(&found(Path::new("/proc/self/exe"))?)? {
            true => Ok(accounting),
            false => Err(io::Error::other("the kernel's accounting names another file for this process than /proc/self/exe")),
        }
    }

    /// The file that process `pid`, as this PID namespace numbers it, runs now.
    ///
    /// # Errors
    /// The system's (ESRCH: there is no such process), or the kernel does not say.
    pub fn file_of(&self, pid: u32) -> io::Result<FileId> {
        let mut body = vec![TASKSTATS_CMD_GET, 1, 0, 0];
        put(&mut body, TASKSTATS_CMD_ATTR_PID, &pid.to_ne_bytes());
        let answer = attribute_of(&ask_generic(self.family, &body)?, TASKSTATS_TYPE_AGGR_PID);
        let file = answer.and_then(|answer| file_in(attribute(&answer, TASKSTATS_TYPE_STATS)?));
        file.ok_or_else(|| io::Error::other("this kernel's accounting does not say which file a process runs"))
    }
}

/// Reads a `struct taskstats`; a process without a file is one of the kernel's.
fn file_in(stats: &[u8]) -> Option<FileId> {
    let file = FileId { device: u64_at(stats, FILE_AT)?, inode: u64_at(stats, FILE_AT + 8)? };
    (u16_at(stats, 0)? >= VERSION_MIN && file.inode != 0).then_some(file)
}

impl FileId {
    /// Returns true if it is this open file. stat(2) names parts of a file system by devices of their own (btrfs), the mount by the one
    /// that accounting has.
    ///
    /// # Errors
    /// The system's.
    pub fn is(self, file: &impl AsFd) -> io::Result<bool> {
        let found = fstat(file)?;
        if found.st_ino != self.inode {
            return Ok(false);
        }
        Ok(found.st_dev == self.device || device_of_mount(file)? == Some(self.device))
    }
}

/// The file at `path`, to be looked at and not to be read.
///
/// # Errors
/// The system's.
pub fn found(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// The device of the file system that a file is in, by its mount; see proc_pid_mountinfo(5).
fn device_of_mount(file: &impl AsFd) -> io::Result<Option<u64>> {
    let mount = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id.to_string();
    for line in BufReader::new(File::open("/proc/self/mountinfo")?).lines() {
        let line = line?;
        let mut fields = line.split(' ');
        if fields.next() == Some(&mount) {
            return Ok(fields.nth(1).and_then(device_in));
        }
    }
    Ok(None)
}

/// Reads `MAJOR:MINOR`.
fn device_in(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_kernel_says_which_file_a_process_runs() {
        let Ok(accounting) = Accounting::open() else {
            // Its right is root's.
            assert_ne!(std::fs::metadata("/proc/self").expect("Linux").uid(), 0, "{:?}", Accounting::open());
            return;
        };
        let mut sleep = Command::new("sleep").arg("60").spawn().expect("every machine has it");
        let said = accounting.file_of(sleep.id());
        let file = found(Path::new(&format!("/proc/{}/exe", sleep.id()))).expect("root may look");
        let own = found(Path::new("/proc/self/exe")).expect("Linux");
        sleep.kill().and_then(|()| sleep.wait()).expect("it runs");
        let said = said.expect("it runs");
        assert!(said.is(&file).expect("it is open") && !said.is(&own).expect("it is open"));
        let elsewhere = FileId { device: said.device + 1, ..said };
        assert!(!elsewhere.is(&file).expect("it is open"), "an inode of another file system");
        assert_eq!(device_of_mount(&file).expect("Linux"), Some(said.device));
        // proc_sys_kernel(5), pid_max.
        let none = accounting.file_of(4_194_304).expect_err("there is none");
        assert_eq!(none.raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn an_answer_that_makes_no_sense_names_no_file() {
        let mut stats = vec![0; FILE_AT + 16];
        stats[..2].copy_from_slice(&VERSION_MIN.to_ne_bytes());
        assert_eq!(file_in(&stats), None, "a process of the kernel's");
        stats[FILE_AT + 8] = 7;
        assert_eq!(file_in(&stats), Some(FileId { device: 0, inode: 7 }));
        assert_eq!(file_in(&stats[..FILE_AT + 8]), None);
        stats[0] -= 1;
        assert_eq!(file_in(&stats), None, "an older kernel");
        assert_eq!(file_in(&[]), None);
        assert_eq!(device_in("254:0"), Some(0xfe00));
        assert_eq!(device_in("254"), None);
    }
}
