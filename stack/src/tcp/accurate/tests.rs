use super::*;

/// RFC 9768 tables 2 and 3: four fields, four numbers; the other four mean something else.
#[test]
fn fields_in_the_handshake() {
    for field in 0..4 {
        assert_eq!(field_of_ace(ace_of_field(field)), Some(field));
    }
    assert!([0b000, 0b001, 0b101, 0b111].into_iter().all(|ace| field_of_ace(ace).is_none()));
    let mut header = Header::default();
    for number in 0..8 {
        set_ace(&mut header, number);
        assert_eq!(ace(&header), number);
    }
}

/// Appendix A.2: few packets cannot wrap ACE; for many, the option decides, or the worst is assumed.
#[test]
fn safest_likely_case() {
    let mut accurate = Accurate::new();
    assert_eq!(accurate.safest(0, 10, 1_000, None), 0, "a peer that coalesces ACKs from the first on");
    let mut accurate = Accurate::new();
    assert_eq!(accurate.safest(1, 1, 1_000, None), 1);
    assert_eq!(accurate.safest(3, 7, 1_000, None), 3);
    assert_eq!(accurate.safest(0, 10, 1_000, None), 8, "eight marks look like none");
    assert_eq!(accurate.safest(2, 10, 1_000, None), 10);
    assert_eq!(accurate.safest(0, 10, 1_000, Some(0)), 0);
    assert_eq!(accurate.safest(0, 10, 1_000, Some(8_000)), 8);
    assert_eq!(accurate.safest(2, 10, 1_000, Some(2_000)), 2);
    for _ in 0..1_000 {
        accurate.safest(0, 20, 1_000, Some(0));
    }
    assert_eq!(accurate.safest(0, 20, 1_000, None), 0, "a peer that coalesces ACKs loses none");
}
