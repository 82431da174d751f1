use rustix::thread::{CapabilitySet, capabilities};

use super::{STARTING, keep, of_devices, spawn_without};

/// A thread that gives up its rights makes threads without them, and leaves its maker's alone.
#[test]
fn rights_are_given_up_by_one_thread_and_those_that_it_makes() {
    let before = capabilities(None).expect("Linux");
    std::thread::spawn(move || {
        keep(STARTING).expect("fewer rights can always be had");
        let kept = capabilities(None).expect("Linux").permitted;
        assert_eq!(kept.difference(STARTING | CapabilitySet::SYS_ADMIN), CapabilitySet::empty());
        assert_eq!(kept.contains(CapabilitySet::NET_RAW), before.permitted.contains(CapabilitySet::NET_RAW));
        std::thread::spawn(|| {
            keep(CapabilitySet::empty()).expect("fewer rights can always be had");
            let status = std::fs::read_to_string("/proc/thread-self/status").expect("Linux");
            let line = |name| status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux").trim().to_owned();
            for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
                assert_eq!(line(set), "0000000000000000", "{set}");
            }
            assert_eq!(line("NoNewPrivs:"), "1");
            keep(STARTING).expect("asking for nothing new");
            assert_eq!(capabilities(None).expect("Linux").permitted, CapabilitySet::empty(), "they do not come back");
        })
        .join()
        .expect("the assertions hold");
    })
    .join()
    .expect("the assertions hold");
    assert_eq!(capabilities(None).expect("Linux"), before);
}

/// The process may be confined the moment after, and then nothing can be given up any more.
#[test]
fn a_thread_without_rights_has_none_from_its_beginning() {
    let before = capabilities(None).expect("Linux");
    let held = spawn_without("ringway-test", || capabilities(None)).expect("threads are left").join().expect("it does not panic");
    assert_eq!(held.expect("Linux").permitted, CapabilitySet::empty());
    assert_eq!(capabilities(None).expect("Linux"), before);
}

#[test]
fn without_devices_no_packet_socket_is_kept() {
    assert_eq!(of_devices(&[]), CapabilitySet::NET_ADMIN | CapabilitySet::KILL);
}
