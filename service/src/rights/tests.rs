use super::{NEEDED, NEEDED_BY_XDP, effective_capabilities, missing};

#[test]
fn missing_capabilities_are_named() {
    assert!(missing(u64::MAX, &NEEDED).is_empty());
    assert_eq!(missing(0, &NEEDED).len(), 3);
    let without_raw = !(1 << 13);
    assert!(missing(without_raw, &NEEDED)[0].starts_with("CAP_NET_RAW is missing"));
    let before_bpf = (1 << 12) | (1 << 13) | (1 << 21);
    assert!(missing(before_bpf, &NEEDED).is_empty());
    assert!(missing(before_bpf, &[NEEDED_BY_XDP]).is_empty());
    assert!(missing(before_bpf & !(1 << 21), &[NEEDED_BY_XDP])[0].starts_with("CAP_PERFMON is missing"));
}

#[test]
fn capabilities_are_read_from_status() {
    assert_eq!(effective_capabilities("Name:\tx\nCapEff:\t0000000000003000\n"), 0x3000);
    assert_eq!(effective_capabilities("nothing"), 0);
}
