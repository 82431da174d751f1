use super::{effective_capabilities, missing};

#[test]
fn missing_capabilities_are_named() {
    assert!(missing(u64::MAX).is_empty());
    assert_eq!(missing(0).len(), 3);
    let without_raw = !(1 << 13);
    assert!(missing(without_raw)[0].starts_with("CAP_NET_RAW is missing"));
    let before_bpf = (1 << 12) | (1 << 13) | (1 << 21);
    assert!(missing(before_bpf).is_empty());
}

#[test]
fn capabilities_are_read_from_status() {
    assert_eq!(effective_capabilities("Name:\tx\nCapEff:\t0000000000003000\n"), 0x3000);
    assert_eq!(effective_capabilities("nothing"), 0);
}
