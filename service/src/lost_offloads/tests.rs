//! What a killed service left off is restored once, in its boot and network namespace, and no file of another user is obeyed.
use std::cell::RefCell;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

const ETH0: &str = "eth0";

/// A folder that vanishes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let folder = std::env::temp_dir().join(format!("ringway-lost-offloads-{name}-{}", std::process::id()));
        fs::create_dir(&folder).expect("the name is ours");
        Scratch(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("vm.offloads")
    }

    fn count(&self) -> usize {
        fs::read_dir(&self.0).expect("it is there").count()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the test made it");
    }
}

fn lost(interface: &str, index: u32, features: &[u32]) -> LostOffloads {
    LostOffloads { interface: interface.to_owned(), index, features: features.to_vec() }
}

fn here() -> Here {
    Here::now().expect("Linux")
}

fn elsewhere() -> Here {
    Here { network: "net:[1]".to_owned(), ..here() }
}

/// Restores by noting; `answer` is the card's.
fn restored(path: &Path, answer: &dyn Fn() -> io::Result<bool>) -> (Vec<LostOffloads>, Vec<String>) {
    let restored = RefCell::new(Vec::new());
    let restore = |lost: &LostOffloads| {
        restored.borrow_mut().push(lost.clone());
        answer()
    };
    let said = restore_by(path, read(path).expect("ours"), &here(), &|_| vec!["rx-lro".to_owned()], &restore);
    (restored.into_inner(), said)
}

#[test]
fn the_file_has_what_is_lost_and_goes_with_the_last_line() {
    let scratch = Scratch::new("file");
    let file = OffloadsFile::new(scratch.file()).expect("Linux");
    file.note(&lost(ETH0, 2, &[0x8000, 1])).expect("room");
    file.note(&lost("eth1", 3, &[0x4000])).expect("room");
    file.note(&lost(ETH0, 2, &[0x8000, 0])).expect("room");
    let lines = read(&scratch.file()).expect("ours");
    let all: Vec<LostOffloads> = lines.into_iter().map(|line| line.lost).collect();
    assert_eq!(all, [lost(ETH0, 2, &[0x8000, 0]), lost("eth1", 3, &[0x4000])]);
    let mode = fs::metadata(scratch.file()).expect("it is there").permissions().mode();
    assert_eq!((mode & 0o777, scratch.count()), (0o600, 1));
    for (name, index) in [(ETH0, 2), ("eth1", 3)] {
        file.note(&lost(name, index, &[])).expect("room");
    }
    assert_eq!(scratch.count(), 0);
}

#[test]
fn a_killed_services_debt_is_paid_once() {
    let scratch = Scratch::new("once");
    OffloadsFile::new(scratch.file()).expect("Linux").note(&lost(ETH0, 2, &[0x8000])).expect("room");
    let (refused, said) = restored(&scratch.file(), &|| Err(io::ErrorKind::PermissionDenied.into()));
    assert_eq!(refused, [lost(ETH0, 2, &[0x8000])]);
    assert_eq!(said, ["eth0: rx-lro stay off, after a service that was killed: permission denied"]);
    let (again, said) = restored(&scratch.file(), &|| Ok(true));
    assert_eq!((again, said), (refused, vec!["eth0: on again, after a service that was killed: rx-lro".to_owned()]));
    assert_eq!(scratch.count(), 0);
    assert_eq!(restored(&scratch.file(), &|| Ok(true)), (vec![], vec![]));
}

#[test]
fn cards_of_other_namespaces_wait_and_those_of_other_boots_are_forgotten() {
    let scratch = Scratch::new("elsewhere");
    let line = |here: Here, index| Line { here, lost: lost(ETH0, index, &[0x8000]) };
    let old = Here { boot: "an-older-one".to_owned(), ..here() };
    write(&scratch.file(), [line(old, 1), line(elsewhere(), 2), line(here(), 3)].iter()).expect("room");
    assert_eq!(restored(&scratch.file(), &|| Ok(true)).0, [lost(ETH0, 3, &[0x8000])]);
    assert_eq!(read(&scratch.file()).expect("ours"), [line(elsewhere(), 2)]);
    // The next service of this name keeps it.
    let file = OffloadsFile::new(scratch.file()).expect("Linux");
    file.note(&lost(ETH0, 9, &[1])).expect("room");
    file.note(&lost(ETH0, 9, &[])).expect("room");
    assert_eq!(read(&scratch.file()).expect("ours"), [line(elsewhere(), 2)]);
}

#[test]
fn what_another_user_could_have_written_says_nothing() {
    let scratch = Scratch::new("hostile");
    let path = scratch.file();
    write(&path, [Line { here: here(), lost: lost(ETH0, 2, &[1]) }].iter()).expect("room");
    let good = fs::read_to_string(&path).expect("ours");
    for mode in [0o666, 0o620] {
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("ours");
        assert!(read(&path).is_err(), "{mode:o}");
    }
    fs::remove_file(&path).expect("ours");
    symlink("/etc/passwd", &path).expect("a link");
    assert!(read(&path).is_err(), "a link");
    fs::remove_file(&path).expect("ours");
    let long = "1,".repeat(8) + "1";
    let bad = [
        "",
        " ",
        "a b c 1",
        "a b c 1 1 1",
        "a b c x 1",
        "a b c 1 xyz",
        "a b sixteen-letters- 1 1",
        "a b \u{7} 1 1",
        "a b c 99999999999 1",
    ];
    for line in bad.iter().copied().chain([format!("a b c 1 {long}").as_str()]) {
        fs::write(&path, format!("{good}{line}\n")).expect("ours");
        assert!(read(&path).is_err(), "{line:?}");
    }
    fs::write(&path, [0xff; 99]).expect("ours");
    assert!(read(&path).is_err() && restore(&path).len() == 1 && describe(&path).len() == 1, "it is said and harms nothing");
    fs::write(&path, vec![b'\n'; 70_000]).expect("ours");
    assert!(read(&path).is_err());
    // A service of this name writes its own in its place.
    OffloadsFile::new(path.clone()).expect("Linux").note(&lost(ETH0, 2, &[1])).expect("room");
    assert_eq!(read(&path).expect("ours").len(), 1);
}
