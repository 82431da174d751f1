use std::fs::{create_dir, create_dir_all, remove_dir_all};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::KINDS;
use super::hierarchy::{DIRECTORIES_MAX, Hierarchy, Mount, may_hide, mount_in, name_in, place_of, relative};

const HYBRID: &str = "\
40 31 0:34 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
41 40 0:35 / /sys/fs/cgroup/unified rw,nosuid shared:9 master:2 - cgroup2 cgroup2 rw,nsdelegate
42 40 0:36 / /sys/fs/cgroup/systemd rw,nosuid - cgroup cgroup rw,name=systemd
";

#[test]
fn the_root_of_cgroup2_is_found_among_other_mounts() {
    let unified = |above| Some(Mount { point: PathBuf::from("/sys/fs/cgroup/unified"), above });
    assert_eq!(mount_in(HYBRID), unified(0));
    // In a container the host's hierarchy is beside its own.
    let both = format!("39 31 0:35 / /sys/fs/cgroup ro - cgroup2 cgroup2 ro\n{}", HYBRID.replace("0:35 / ", "0:35 /../../.. "));
    assert_eq!(mount_in(&both), unified(3));
    assert_eq!(mount_in(&HYBRID.replace("0:35 / ", "0:35 /../user ")), None);
    assert_eq!(mount_in(&HYBRID.replace("0:35 / ", "0:35 /user ")), None, "a part of it is not all");
    assert_eq!(mount_in(&HYBRID.replace("cgroup2", "cgroup")), None);
    for torn in ["", "-", " - ", "41 40 - cgroup2", "41 40 0:35 / - cgroup2 a b\n\n - cgroup2"] {
        assert_eq!(mount_in(torn), None, "{torn}");
    }
}

#[test]
fn a_cgroup_is_a_directory_below_the_root_and_no_other() {
    let root = Path::new(".");
    let name = |text| name_in(text).and_then(|name| relative(Path::new(""), &name));
    assert_eq!(name("1:name=systemd:/init.scope\n0::/system.slice/ssh.service\n"), Some(root.join("system.slice/ssh.service")));
    assert_eq!(name("0::/\n"), Some(root.to_path_buf()));
    // A process in a cgroup of such a name must not be taken for dead.
    assert_eq!(name("0::/user (deleted)\n"), Some(root.join("user (deleted)")));
    for outside in ["0::/../..\n", "0::/../../etc\n", "0::/a/../../b\n", "0::relative\n", "1:cpu:/\n", ""] {
        assert_eq!(name(outside), None, "{outside}");
    }
    let from_pod = |name| relative(Path::new("pods/one/service"), name);
    assert_eq!(from_pod("/../nginx/worker"), Some(root.join("pods/one/nginx/worker")));
    assert_eq!(from_pod("/"), Some(root.join("pods/one/service")));
    assert_eq!(from_pod("/../../.."), Some(root.to_path_buf()));
    for outside in ["/../../../..", "/../../../../etc", "/../a/../b"] {
        assert_eq!(from_pod(outside), None, "{outside}");
    }
}

#[test]
fn each_type_of_program_is_named_once_and_sees_something() {
    for (number, (kind, name, guard)) in KINDS.iter().enumerate() {
        assert!(!guard.is_empty(), "{name}");
        assert!(KINDS[..number].iter().all(|(other, ..)| other < kind), "{name}: in order of their numbers");
    }
}

#[test]
fn the_walk_visits_each_directory_once_and_has_a_bound() {
    let top = std::env::temp_dir().join(format!("ringway-hierarchy-{}", std::process::id()));
    create_dir_all(top.join("a/b")).expect("a folder of ours");
    create_dir(top.join("c")).expect("a folder of ours");
    std::os::unix::fs::symlink("..", top.join("a/loop")).expect("a folder of ours");
    let hierarchy = Hierarchy::at(&top).expect("it is there");
    let count = || {
        let mut count = 0;
        let walk = hierarchy.for_each(&mut |_| {
            count += 1;
            Ok(())
        });
        walk.map(|()| count)
    };
    assert_eq!(count().expect("few directories"), 4);
    assert!(hierarchy.directory("/a/b").is_ok() && hierarchy.directory("/a/loop").is_err(), "a link is no cgroup");
    assert_eq!(hierarchy.directory("/gone").expect_err("it is not there").kind(), std::io::ErrorKind::NotFound);
    for number in 0..DIRECTORIES_MAX {
        create_dir(top.join(number.to_string())).expect("a folder of ours");
    }
    assert!(count().is_err());
    remove_dir_all(&top).expect("ours");
}

#[test]
fn a_process_is_in_some_cgroup_or_dead() {
    assert!(place_of(std::process::id()).expect("it may be read").is_some());
    let mut child = std::process::Command::new("true").spawn().expect("a program that is everywhere");
    child.wait().expect("it ends");
    assert_eq!(place_of(child.id()).expect("it is known to be dead"), None);
}

/// A process without a number is in a cgroup that lists a zero, or that does not tell.
#[test]
fn a_cgroup_that_lists_numbers_alone_hides_no_process() {
    let top = std::env::temp_dir().join(format!("ringway-hidden-{}", std::process::id()));
    create_dir(&top).expect("a folder of ours");
    let directory = std::fs::File::open(&top).expect("it is there");
    assert!(may_hide(directory.as_fd()), "it does not tell");
    for (listed, hides) in [("", false), ("1\n10\n", false), ("1\n0\n10\n", true), ("0\n", true)] {
        std::fs::write(top.join("cgroup.procs"), listed).expect("a file of ours");
        assert_eq!(may_hide(directory.as_fd()), hides, "{listed:?}");
    }
    remove_dir_all(&top).expect("ours");
}
