//! Which of the files that rules name a process runs.
//!
//! ```text
//!   broker: pid, file -> thread "ringway-files": accounting's word on pid, the file at the path now -> the same, with this digest?
//! ```
//! The path is the one that the service sees, symbolic links followed: a process whose file was replaced runs none that has a path. `ringway run`
//! attaches before its program runs, and says which file that will be. This counts of processes that run the service's own file, and the program is
//! judged by its file when it attaches. Promises: what cannot be found out is `None`, and why is logged once. Does not do: files of processes in
//! a PID namespace that the service does not see, and what else a process has loaded. The thread alone holds the right to ask.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use ringway_channel::attach::{Peer, ProgramFile};
use ringway_device::accounting::{Accounting, FileId, found};
use rustix::fs::{OFlags, fstat};
use rustix::thread::CapabilitySet;
use sha2::{Digest, Sha256};

use crate::config::rules::Executable;
use crate::privileges;

/// Digests that are remembered.
const DIGESTS_MAX: usize = 64;
/// Processes that are going to start a program, as far as they are remembered.
const STARTING_MAX: usize = 4_096;

enum Question {
    /// Does this process run that file?
    Runs(u32, Executable, SyncSender<Option<bool>>),
    /// This process says that it is going to start a program of that file.
    WillStart(u32, ProgramFile),
}

/// Asks the thread.
#[derive(Clone)]
pub(crate) struct Executables(Option<Sender<Question>>);

impl Executables {
    /// Starts the thread, which ends with the last copy of what is returned. To be called while CAP_NET_ADMIN is there.
    pub(crate) fn start() -> io::Result<(Executables, JoinHandle<()>)> {
        let (questions, queue) = channel();
        let thread = privileges::spawn_with(CapabilitySet::NET_ADMIN, "ringway-files", move || serve(&queue))?;
        Ok((Executables(Some(questions)), thread))
    }

    /// Knows nothing.
    #[cfg(test)]
    pub(crate) fn off() -> Executables {
        Executables(None)
    }

    /// Whether process `pid` runs this file; `None`: not known.
    ///
    /// # Blocking
    /// While the thread asks the kernel, tens of microseconds; with a digest, while it reads a file for the first time.
    pub(crate) fn runs(&self, pid: u32, file: &Executable) -> Option<bool> {
        let (answer, said) = sync_channel(1);
        self.0.as_ref()?.send(Question::Runs(pid, file.clone(), answer)).ok()?;
        said.recv().ok()?
    }

    /// A process says that it is going to start a program of this file: `ringway run` is judged as that.
    pub(crate) fn will_start(&self, pid: u32, program: Option<ProgramFile>) {
        if let (Some(questions), Some(program)) = (&self.0, program) {
            // `Err`: the thread has ended, and knows nothing of files any more.
            questions.send(Question::WillStart(pid, program)).ok();
        }
    }
}

/// The reason for which rules that name files cannot be followed here, a line; `None`: they can.
pub fn obstacle() -> Option<String> {
    let error = Accounting::open().err()?;
    Some(format!(
        "which file a process runs is not known, and rules with a path fit if they are of kernel or deny: {error}: it takes \
         CAP_NET_ADMIN in the first user namespace and a kernel with CONFIG_TASKSTATS"
    ))
}

fn serve(queue: &Receiver<Question>) {
    let mut known = Known::new();
    while let Ok(question) = queue.recv() {
        match question {
            Question::Runs(pid, file, answer) => {
                // `Err`: the broker has ended.
                answer.send(known.runs(pid, &file)).ok();
            }
            Question::WillStart(pid, program) => known.will_start(pid, program),
        }
    }
}

/// A file and its state: it has this digest as long as they stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

struct Known {
    accounting: Option<Accounting>,
    /// The file of this process, which `ringway run` has too: as it was at the start, and where it was then.
    own: Option<(OwnedFd, PathBuf)>,
    /// What processes that run this process's own file say that they are going to start.
    starting: BTreeMap<u32, ProgramFile>,
    digests: BTreeMap<Version, [u8; 32]>,
    /// The last error that was logged.
    told: String,
}

impl Known {
    fn new() -> Known {
        let own = found(Path::new("/proc/self/exe")).ok().zip(std::env::current_exe().ok());
        Known { accounting: None, own, starting: BTreeMap::new(), digests: BTreeMap::new(), told: String::new() }
    }

    fn will_start(&mut self, pid: u32, program: ProgramFile) {
        if self.starting.len() >= STARTING_MAX {
            self.starting.retain(|pid, _| Path::new("/proc").join(pid.to_string()).exists());
        }
        let said = self.accounting().and_then(|accounting| accounting.file_of(pid));
        if self.starting.len() < STARTING_MAX && said.is_ok_and(|said| self.is_own(said)) {
            self.starting.insert(pid, program);
        }
    }

    fn accounting(&mut self) -> io::Result<&Accounting> {
        let accounting = match self.accounting.take() {
            Some(accounting) => accounting,
            None => Accounting::open()?,
        };
        Ok(self.accounting.insert(accounting))
    }

    fn is_own(&self, said: FileId) -> bool {
        let Some((at_start, path)) = &self.own else { return false };
        // An upgrade puts another file there.
        said.is(at_start).unwrap_or(false) || found(path).and_then(|now| said.is(&now)).unwrap_or(false)
    }

    /// What process `pid`, which runs `said`, stands for until its program runs.
    fn stands_for(&mut self, pid: u32, said: FileId) -> Option<ProgramFile> {
        let program = *self.starting.get(&pid)?;
        let is_own = self.is_own(said);
        if !is_own {
            self.starting.remove(&pid);
        }
        is_own.then_some(program)
    }

    fn runs(&mut self, pid: u32, file: &Executable) -> Option<bool> {
        let answer = self.look(pid, file);
        answer
            .inspect_err(|error| self.tell(&format!("whether a program runs {} is not known: {error}", file.path.display())))
            .ok()
    }

    fn tell(&mut self, text: &str) {
        if self.told != text {
            tracing::warn!(target: "ringway::attach", "{text}; rules of kernel or deny that name it fit");
            text.clone_into(&mut self.told);
        }
    }

    fn look(&mut self, pid: u32, file: &Executable) -> io::Result<bool> {
        if Peer::is_foreign(pid) {
            return Err(io::Error::other("it is in a PID namespace that the service does not see"));
        }
        let said = self.accounting()?.file_of(pid);
        let here = match file.digest {
            Some(_) => readable(&file.path).map(OwnedFd::from),
            None => found(&file.path),
        };
        match (said, here) {
            // It has ended, or no process runs what is not there.
            (Err(error), _) | (_, Err(error)) if is_absence(&error) => Ok(false),
            (said, here) => {
                let (said, here) = (said?, here?);
                let is_it = match self.stands_for(pid, said) {
                    Some(program) => {
                        let here = fstat(&here)?;
                        (program.device, program.inode) == (here.st_dev, here.st_ino)
                    }
                    None => said.is(&here)?,
                };
                let wanted = file.digest.filter(|_| is_it);
                wanted.map_or(Ok(is_it), |wanted| Ok(self.digest(here.into())? == wanted))
            }
        }
    }

    /// What SHA-256 makes of the file.
    fn digest(&mut self, mut here: File) -> io::Result<[u8; 32]> {
        let metadata = here.metadata()?;
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        let version = Version { device: metadata.dev(), inode: metadata.ino(), bytes: metadata.len(), changed };
        if let Some(known) = self.digests.get(&version) {
            return Ok(*known);
        }
        let mut hasher = Sha256::new();
        io::copy(&mut here, &mut hasher)?;
        if self.digests.len() >= DIGESTS_MAX {
            self.digests.clear();
        }
        let digest = hasher.finalize().into();
        self.digests.insert(version, digest);
        Ok(digest)
    }
}

/// Opens a file, and does not wait for the other end of a pipe.
fn readable(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ESRCH))
}

#[cfg(test)]
mod tests;
