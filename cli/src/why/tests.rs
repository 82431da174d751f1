use super::Target;
use super::process::{AT_SECURE, Found, Process, is_secure, listeners, regions};

#[test]
fn targets_are_processes_programs_and_ends() {
    assert_eq!(Target::read("4711"), Ok(Target::Process(4711)));
    assert_eq!(Target::read("nginx"), Ok(Target::Program("nginx".to_owned())));
    assert_eq!(Target::read(":443"), Ok(Target::Port(None, 443)));
    assert_eq!(Target::read("[::1]:443"), Ok(Target::Port(Some("::1".parse().expect("an address")), 443)));
    for wrong in ["", "0", ":70000", ":", "/usr/bin/nginx"] {
        assert!(Target::read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn listeners_of_the_kernel_are_found_by_their_port() {
    let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F90 0100007F:8000 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0000000000000000 100 0 0 10 0
   2: rubbish\n";
    assert_eq!(listeners(table, 8080), ["socket:[4242]"]);
    assert!(listeners(table, 80).is_empty());
}

#[test]
fn regions_are_found_by_their_inodes() {
    let maps = "7f3e16e6c000-7f3e54000000 rw-s 00000000 00:01 42846                      /memfd:ringway-region (deleted)
7f3e5ae6c000-7f3e98000000 rw-s 00000000 00:01 42847                      /memfd:ringway-region (deleted)
7f3eb8200000-7f3ebb456000 rw-s 00000000 fe:00 811043                     /run/ringway/whyx.stats
7f3eb8200000-7f3ebb456000 rw-s 00000000 fe:00 811044                     /memfd:ringway-regions (deleted)
7ffd0e5de000-7ffd0e5ff000 rw-p 00000000 00:00 0                          [stack]
rubbish\n";
    assert_eq!(regions(maps).into_iter().collect::<Vec<_>>(), ["00:01 42846", "00:01 42847"]);
}

#[test]
fn a_process_that_was_not_started_on_ringway_is_the_kernels() {
    let this = Process::read(std::process::id()).expect("it runs");
    let found = this.find(&[]);
    assert!(matches!(&found, Found::Kernel(why, Some(_)) if why.contains("not started on Ringway")), "{found:?}");
    assert!(this.shares_with(std::process::id()) && !this.shares_with(1));
    assert!(Process::read(u32::MAX).is_none());
}

#[test]
fn a_process_that_has_gained_rights_is_known_by_what_the_kernel_told_it() {
    let auxv = |secure: usize| [[AT_SECURE + 1, 1], [AT_SECURE, secure], [0, 0]].concat();
    let bytes = |words: Vec<usize>| words.into_iter().flat_map(usize::to_ne_bytes).collect::<Vec<u8>>();
    assert!(is_secure(&bytes(auxv(1))) && !is_secure(&bytes(auxv(0))));
    assert!(!is_secure(&bytes(auxv(1))[..24]) && !is_secure(&[]));
    assert!(!is_secure(&std::fs::read("/proc/self/auxv").expect("Linux")));
}

/// The manual explains each word.
#[test]
fn the_manual_has_all_reasons() {
    let manual = include_str!("../../../packaging/ringway.7");
    for reason in ringway_channel::KernelReason::ALL {
        assert!(manual.contains(&format!(".B {}\n", reason.word().replace('-', "\\-"))), "{}", reason.word());
    }
}
