use super::*;

#[test]
fn what_is_written_is_read_back() {
    let full = Envelope {
        len: 1_400,
        segment_size: Some(700),
        peer: Some("[2001:db8::1]:53".parse().expect("an address")),
        local: Some("10.0.0.1".parse().expect("an address")),
        type_of_service: Some(0xb8),
        time_to_live: Some(1),
        interface: 7,
        received_at: Instant::from_nanos(u64::MAX - 1),
    };
    let bare = Envelope::default();
    let v4 = Envelope { peer: Some("192.0.2.1:9".parse().expect("an address")), ..bare };
    for envelope in [full, bare, v4] {
        assert_eq!(Envelope::decode(&envelope.encode()), Some(envelope));
    }
}

#[test]
fn an_envelope_that_promises_too_much_is_none() {
    let mut bytes = Envelope { len: PAYLOAD_MAX, ..Envelope::default() }.encode();
    assert!(Envelope::decode(&bytes).is_some());
    bytes[..4].copy_from_slice(&(PAYLOAD_MAX as u32 + 1).to_le_bytes());
    assert_eq!(Envelope::decode(&bytes), None);
}
