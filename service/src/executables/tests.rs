use std::fs::{canonicalize, copy, create_dir, remove_dir_all, write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command};

use super::*;

/// A folder with a program in it, which runs.
struct Site {
    folder: PathBuf,
    program: Child,
}

impl Site {
    fn new(name: &str) -> Site {
        let folder = std::env::temp_dir().join(format!("ringway-files-{name}-{}", std::process::id()));
        create_dir(&folder).expect("a new folder");
        let sleep =
            ["/bin/sleep", "/usr/bin/sleep"].into_iter().find_map(|path| canonicalize(path).ok()).expect("every machine has it");
        copy(sleep, folder.join("program")).expect("there is room");
        let program = Command::new(folder.join("program")).arg("60").spawn().expect("it is a program");
        Site { folder, program }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.program.kill().and_then(|()| self.program.wait()).expect("it runs");
        remove_dir_all(&self.folder).expect("it is ours");
    }
}

fn named(path: PathBuf) -> Executable {
    Executable { path, digest: None }
}

/// What is said of the program's process; `None`: this user may not ask.
fn said(known: &mut Known, site: &Site, file: &Executable) -> Option<bool> {
    let said = known.runs(site.program.id(), file);
    assert!(said.is_some() || !rustix::process::geteuid().is_root(), "{}", known.told);
    said
}

#[test]
fn a_program_runs_a_file_and_not_another_of_its_name() {
    let site = Site::new("names");
    let mut known = Known::new();
    symlink(site.path("program"), site.path("link")).expect("there is room");
    copy(site.path("program"), site.path("copy")).expect("there is room");
    let mut says = |name: &str| said(&mut known, &site, &named(site.path(name)));
    let Some(it_does) = says("program") else { return };
    assert!(it_does);
    assert_eq!(says("link"), Some(true));
    assert_eq!(says("copy"), Some(false), "the same bytes in another file");
    assert_eq!(says("none"), Some(false));
    assert_eq!(says("program/none"), Some(false));
    assert_eq!(says("."), Some(false));
    // An upgrade: what runs has no path any more.
    std::fs::rename(site.path("copy"), site.path("program")).expect("they are ours");
    assert_eq!(said(&mut known, &site, &named(site.path("program"))), Some(false));
}

#[test]
fn a_digest_is_that_of_the_file_as_it_is() {
    let site = Site::new("digests");
    let mut known = Known::new();
    let bytes = std::fs::read(site.path("program")).expect("it is there");
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    let wanted = |digest| Executable { path: site.path("program"), digest: Some(digest) };
    let Some(it_does) = said(&mut known, &site, &wanted(digest)) else { return };
    assert!(it_does);
    assert_eq!(said(&mut known, &site, &wanted([7; 32])), Some(false));
    assert_eq!(known.digests.len(), 1, "it is read once");
    let other = site.path("other");
    write(&other, "1").expect("there is room");
    let mut digest_of = || known.digest(readable(&other).expect("it is there")).expect("it can be read");
    let before = digest_of();
    // Of another length: the clock of the file system may stand still meanwhile.
    write(&other, "22").expect("there is room");
    assert_ne!(digest_of(), before);
}

#[test]
fn of_what_is_not_seen_nothing_is_known() {
    let mut known = Known::new();
    let own = named(PathBuf::from("/proc/self/exe"));
    assert!(Peer::is_foreign(u32::MAX));
    assert_eq!(known.runs(u32::MAX, &own), None);
    assert!(known.told.contains("PID namespace"), "{}", known.told);
    assert_eq!(Executables::off().runs(std::process::id(), &own), None);
    // proc_sys_kernel(5), pid_max.
    assert_ne!(known.runs(4_194_304, &own), Some(true));
}

/// The launcher of a program is judged as the program; any other process as what it is.
#[test]
fn a_launcher_stands_for_its_program_if_it_is_our_own() {
    let site = Site::new("launcher");
    let mut known = Known::new();
    let file = std::fs::metadata(site.path("program")).expect("it is there");
    let program = ProgramFile { device: file.dev(), inode: file.ino() };
    let (own, other) = (std::process::id(), site.path("copy"));
    copy(site.path("program"), &other).expect("there is room");
    let Some(it_does) = known.runs(own, &named(site.path("program"))) else { return };
    assert!(!it_does, "it says nothing yet");
    known.will_start(own, program);
    assert_eq!(known.runs(own, &named(site.path("program"))), Some(true));
    assert_eq!(known.runs(own, &named(other.clone())), Some(false));
    assert_eq!(known.runs(own, &named(std::env::current_exe().expect("Linux"))), Some(false));
    // What another program says of itself counts for nothing.
    let copied = std::fs::metadata(&other).expect("it is there");
    known.will_start(site.program.id(), ProgramFile { device: copied.dev(), inode: copied.ino() });
    assert_eq!(said(&mut known, &site, &named(other)), Some(false));
    assert_eq!(said(&mut known, &site, &named(site.path("program"))), Some(true));
}
