use std::io::ErrorKind;
use std::process::Command;

use rustix::net::{AddressFamily, SocketType, socket};

use super::filter;
use crate::config::SystemCalls;

/// AF_ALG, the crypto interface.
const ALG: u16 = 38;

/// Runs one of the tests below in a process of its own, since a filter never goes.
fn in_own_process(test: &str) {
    let this = std::env::current_exe().expect("it runs");
    let output = Command::new(this).args(["--exact", test, "--ignored", "--test-threads=1"]).output().expect("it runs twice");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_filtered_process_starts_no_program_and_no_process() {
    in_own_process("system_calls::tests::filtered");
}

#[test]
#[ignore = "runs in a process of its own, see a_filtered_process_starts_no_program_and_no_process"]
fn filtered() {
    let before = std::thread::spawn(|| {
        std::thread::park();
        Command::new("/bin/true").status().expect_err("the thread was there before the filter").kind()
    });
    filter(SystemCalls::On, &[]).expect("the kernel has seccomp");
    before.thread().unpark();
    assert_eq!(before.join().expect("it returns"), ErrorKind::Unsupported);
    assert_eq!(Command::new("/bin/true").status().expect_err("no program").kind(), ErrorKind::Unsupported);
    let refused = rustix::io::Errno::NOSYS;
    assert_eq!(rustix::process::chroot("/").expect_err("no other root"), refused);
    assert_eq!(rustix::mount::unmount("/nowhere", rustix::mount::UnmountFlags::empty()).expect_err("no mounts"), refused);
    assert_eq!(socket(AddressFamily::from_raw(ALG), SocketType::SEQPACKET, None).expect_err("another family"), refused);
    socket(AddressFamily::INET, SocketType::DGRAM, None).expect("a family of the list");
    assert_eq!(std::thread::spawn(|| 7).join().expect("threads can be made"), 7);
    std::fs::read_to_string("/proc/self/status").expect("files can be read");
    let renamed = std::fs::rename("/nowhere/a", "/nowhere/b").expect_err("there is none");
    assert_eq!(renamed.kind(), ErrorKind::NotFound, "a file of the run directory is written whole");
}
