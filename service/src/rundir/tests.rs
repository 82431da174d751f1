use std::fs;
use std::path::PathBuf;

use super::{ClaimError, RunDirectory, network_here};

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

    fn files(&self) -> Vec<String> {
        let mut files: Vec<String> = fs::read_dir(&self.0)
            .expect("the directory is there")
            .map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"))
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
    fs::write(scratch.0.join("default.stats3"), "").expect("writable");
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

/// A user that may not look into the service's process finds its network namespace too.
#[test]
fn the_lock_names_the_network_namespace() {
    let scratch = Scratch::new("network");
    let claim = scratch.directory().claim("default").expect("free");
    assert_eq!(scratch.directory().network_of("default"), network_here());
    assert!(scratch.directory().serves_here("default"));
    let elsewhere = format!("{}\nnet:[1]\n", std::process::id());
    fs::write(scratch.0.join("default.lock"), elsewhere).expect("ours");
    assert!(!scratch.directory().serves_here("default"));
    drop(claim);
    assert!(!scratch.directory().serves_here("default"));
}

#[test]
fn what_the_dead_left_is_removed_and_the_living_stay() {
    let scratch = Scratch::new("dead");
    let living = scratch.directory().claim("living").expect("free");
    fs::write(living.socket_path(), "").expect("writable");
    for file in ["gone.lock", "gone.sock", "gone.stats", "gone.sock1", "older.capture", "oldest.capture7", "unrelated.txt"] {
        fs::write(scratch.0.join(file), "").expect("writable");
    }
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
    std::fs::write(path.join("name.lock"), "").expect("our directory");
    let locked = std::fs::File::open(path.join("name.lock")).expect("everybody may read it");
    rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockExclusive).expect("and lock it");
    let claim = directory.claim("name").expect("the lock is no service");
    assert!(matches!(directory.claim("name"), Err(ClaimError::Taken(Some(_)))), "one service has the name");
    drop((claim, locked));
    std::fs::remove_dir_all(path).expect("our directory");
}
