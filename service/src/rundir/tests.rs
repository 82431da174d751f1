use std::fs;
use std::path::PathBuf;

use ringway_channel::attach::{network_inode, stem};

use super::{ClaimError, RunDirectory};

/// A directory that vanishes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("ringway-rundir-{name}-{}", std::process::id()));
        Scratch(path)
    }

    fn directory(&self) -> RunDirectory {
        RunDirectory::at(self.0.clone())
    }

    /// A file of a service of this network namespace.
    fn file(&self, name: &str, ending: &str) -> PathBuf {
        self.0.join(format!("{}.{ending}", stem(name, self.directory().network())))
    }

    fn files(&self) -> Vec<String> {
        // Those of this network namespace without it.
        let here = format!("@{}", network_inode().expect("/proc is mounted"));
        let mut files: Vec<String> = fs::read_dir(&self.0)
            .expect("the directory is there")
            .map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8").replace(&here, ""))
            .collect();
        files.sort();
        files
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the test made it");
    }
}

#[test]
fn a_name_is_had_once_and_nothing_stays() {
    let scratch = Scratch::new("once");
    let claim = scratch.directory().claim("default").expect("free");
    fs::write(claim.socket_path(), "").expect("writable");
    fs::write(claim.stats_path(), "").expect("writable");
    fs::write(scratch.file("default", "stats3"), "").expect("writable");
    match scratch.directory().claim("default") {
        Err(ClaimError::Taken(Some(pid))) => assert_eq!(pid, std::process::id()),
        other => panic!("{other:?}"),
    }
    assert_eq!(scratch.directory().living().expect("readable"), ["default"]);
    let other = scratch.directory().claim("other").expect("another name is free");
    drop(claim);
    assert_eq!(scratch.files(), ["other.lock"]);
    drop(other);
    assert!(scratch.files().is_empty());
    scratch.directory().claim("default").expect("free again");
}

/// Each network namespace has names of its own, and a service knows of the files of all.
#[test]
fn a_name_belongs_to_a_network_namespace() {
    let scratch = Scratch::new("network");
    let (here, there) = (scratch.directory(), scratch.directory().of_network(7));
    let claim = here.claim("default").expect("free");
    assert!(here.serves_here("default") && !there.serves_here("default"));
    assert_eq!(here.process_of("default"), Some(std::process::id()));
    let other = there.claim("default").expect("free there");
    assert!(matches!(there.claim("default"), Err(ClaimError::Taken(Some(_)))), "once in each");
    assert_eq!(
        (here.living().expect("readable"), there.living().expect("readable")),
        (vec!["default".into()], vec!["default".into()])
    );
    drop(claim);
    assert!(!here.serves_here("default") && there.serves_here("default"));
    assert_eq!(scratch.files(), ["default@7.lock"]);
    drop(other);
    fs::write(scratch.0.join("killed@7.sock"), "").expect("writable");
    fs::write(scratch.file("killed", "sock"), "").expect("writable");
    assert_eq!(here.dead().expect("readable"), ["killed@7", "killed"]);
    assert_eq!(there.remove_dead().expect("removable"), ["killed".to_owned(), stem("killed", here.network())]);
    assert!(scratch.files().is_empty());
}

#[test]
fn what_the_dead_left_is_removed_and_the_living_stay() {
    let scratch = Scratch::new("dead");
    let living = scratch.directory().claim("living").expect("free");
    fs::write(living.socket_path(), "").expect("writable");
    for (name, ending) in
        [("gone", "lock"), ("gone", "sock"), ("gone", "stats"), ("gone", "sock1"), ("older", "capture"), ("oldest", "capture7")]
    {
        fs::write(scratch.file(name, ending), "").expect("writable");
    }
    fs::write(scratch.0.join("unrelated.txt"), "").expect("writable");
    assert_eq!(scratch.directory().living().expect("readable"), ["living"]);
    let claim = scratch.directory().claim("gone").expect("its service is dead");
    assert_eq!(scratch.files(), ["gone.lock", "living.lock", "living.sock", "unrelated.txt"]);
    drop(claim);
}

#[test]
fn a_directory_that_is_not_there_has_no_services() {
    let directory = RunDirectory::at(PathBuf::from("/nowhere/ringway"));
    assert!(directory.living().expect("no error").is_empty());
    assert!(directory.remove_dead().expect("no error").is_empty());
    assert!(matches!(directory.claim("default"), Err(ClaimError::Io(..))));
}

#[test]
fn names_that_leave_the_directory_are_refused() {
    let directory = RunDirectory::at(PathBuf::from("/nowhere/ringway"));
    for name in ["", "..", "a/b", ".hidden", "a b", "x\0", &"n".repeat(65)] {
        assert!(matches!(directory.claim(name), Err(ClaimError::BadName)), "{name:?}");
    }
}

/// Every user that may read the lock file may lock it, and so could keep every service from starting.
#[test]
fn a_lock_of_an_unprivileged_user_keeps_no_service_from_starting() {
    let path = std::env::temp_dir().join(format!("ringway-rundir-lock-{}", std::process::id()));
    let directory = RunDirectory::at(path.clone());
    drop(directory.claim("name").expect("nobody has it"));
    let lock = path.join(stem("name", directory.network()) + ".lock");
    std::fs::write(&lock, "").expect("our directory");
    let locked = std::fs::File::open(&lock).expect("everybody may read it");
    rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockExclusive).expect("and lock it");
    let claim = directory.claim("name").expect("the lock is no service");
    assert!(matches!(directory.claim("name"), Err(ClaimError::Taken(Some(_)))), "one service has the name");
    drop((claim, locked));
    std::fs::remove_dir_all(path).expect("our directory");
}
