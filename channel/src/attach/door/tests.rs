use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Door, network_inode, network_named, path_of_worker, split_stem, stem};

#[test]
fn a_path_is_taken_as_it_is_and_a_name_is_looked_for_in_this_network_namespace() {
    let at = Door::of(OsStr::new("/srv/x/main@7.sock"), Some(OsStr::new("/elsewhere")));
    assert_eq!(at.path().expect("nothing is asked"), Path::new("/srv/x/main@7.sock"));
    assert_eq!(at.service(), "main");
    assert_eq!(Door::of(OsStr::new("./plain.sock"), None).service(), "plain");
    let here = network_inode().expect("/proc is mounted");
    for (directory, expected) in [(None, "/run/ringway"), (Some(""), "/run/ringway"), (Some("/srv/run"), "/srv/run")] {
        let named = Door::of(OsStr::new("blue"), directory.map(OsStr::new));
        assert_eq!(named.path().expect("/proc is mounted"), PathBuf::from(format!("{expected}/blue@{here}.sock")));
        assert_eq!(named.service(), "blue");
    }
}

#[test]
fn a_network_namespace_is_known_by_its_file() {
    assert_eq!(network_named(Path::new("/proc/self/ns/net")).ok(), network_inode().ok());
    assert_ne!(network_named(Path::new("/proc/self/ns/uts")).ok(), network_inode().ok());
    let other = network_named(Path::new("/proc/self/status")).expect_err("it is a file of another kind");
    assert!(other.to_string().contains("no network namespace"), "{other}");
    let none = network_named(Path::new("no-such-name-of-ours")).expect_err("there is none");
    assert_eq!(none.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_stem_is_a_name_and_a_network_namespace() {
    assert_eq!(split_stem(&stem("a.b-1", 4_026_531_840)), Some(("a.b-1", 4_026_531_840)));
    for other in ["default", "", "default@", "default@x", "@"] {
        assert_eq!(split_stem(other), None, "{other:?}");
    }
}

#[test]
fn each_worker_has_a_file() {
    assert_eq!(path_of_worker(Path::new("/run/x@1.sock"), 0), Path::new("/run/x@1.sock"));
    assert_eq!(path_of_worker(Path::new("/run/x@1.sock"), 3), Path::new("/run/x@1.sock3"));
}
