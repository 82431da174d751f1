//! Numbers are read from the right lines.
use super::*;

const STATUS: &str = "Name:\tVmRSS:\nVmRSS:\t    1234 kB\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";

#[test]
fn memory_and_switches_are_read_from_status() {
    assert_eq!((kibibytes(STATUS, "VmRSS:"), kibibytes(STATUS, "VmSwap:")), (1234 * 1024, 0));
    assert_eq!((switches(STATUS), switches("")), (15, 0));
}

#[test]
fn we_ourselves_hold_memory_and_the_dead_none() {
    let ours = Rest::of(std::process::id());
    assert!(ours.resident_bytes > 0 && ours.switches > 0 && ours.cpu_ns > 0 && ours.slab_bytes > 0, "{ours:?}");
    // The machine's slabs change between two reads: compare one read with itself.
    let dead = Rest::of(u32::MAX);
    assert_eq!(dead, Rest { slab_bytes: dead.slab_bytes, ..Rest::default() });
}
