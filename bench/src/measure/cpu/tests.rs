//! The part of a core's time that is charged to the side bound to it.
use super::*;

const STAT: &str =
    "cpu  30 0 30 0 0 0 9 2 0 0\ncpu0 1 2 3 400 5 6 7 8 0 0\ncpu10 9 9 9 9 9 9 9 9 0 0\ncpu1 10 0 20 400 0 0 2 1 0 0\n";

#[test]
fn a_core_is_found_by_its_whole_name() {
    let core = core_of(STAT, 1, 10).expect("cpu1 is there");
    assert_eq!(core, Core { busy_ns: 320, user_ns: 100, softirq_ns: 20, steal_ns: 10 });
    assert_eq!(core_of(STAT, 2, 10), None);
    assert_eq!(core_of("cpu0 1 2 3", 0, 10), None);
}

#[test]
fn softirqs_on_the_idle_core_are_charged_and_other_programs_are_not() {
    let used = |processes_ns, busy_ns, softirq_ns| Used { processes_ns, core: Core { busy_ns, softirq_ns, ..Core::default() } };
    // All softirqs ran while the process was on the core: they are in its time already.
    assert_eq!(used(1000, 1000, 400).cpu_ns(), 1000);
    // The core was busy beyond the process, in softirqs that interrupted idle.
    assert_eq!(used(1000, 1300, 400).cpu_ns(), 1300);
    // Another process used the core: at most the softirqs are the side's.
    assert_eq!((used(1000, 5000, 400).cpu_ns(), used(1000, 5000, 400).others_ns()), (1400, 3600));
}

#[test]
fn our_own_process_uses_cpu() {
    let pid = std::process::id();
    assert!(tree(pid).contains(&pid) && process_ns(pid) > 0);
    assert_eq!(process_ns(u32::MAX), 0);
}
