use super::*;

#[test]
fn datagrams_are_counted_as_they_are_on_the_wire() {
    let mut datagrams = Datagrams::default();
    datagrams.received.add(0, 0);
    datagrams.received.add(1_400, 0);
    datagrams.sent.add(3_001, 1_000);
    datagrams.sent.add(0, 1_000);
    let InfoRecord { received_segments, received_bytes, sent_segments, sent_bytes, .. } = datagrams.info();
    assert_eq!([received_segments, received_bytes], [2, 1_400]);
    assert_eq!([sent_segments, sent_bytes], [5, 3_001], "four of up to 1,000 bytes, and an empty one");
}
