use super::*;

/// A name that is too long would be cut in the statistics file; a row at the wrong place would be another quota's.
#[test]
fn the_table_is_in_order_and_its_names_are_unique_and_fit() {
    for (place, info) in QUOTAS.iter().enumerate() {
        assert_eq!(info.quota as usize, place);
        assert!(info.key.len() <= 32 && info.counter.len() <= 48, "{info:?}");
        assert!(info.counter.starts_with("RingwayQuota") && info.counter.ends_with("Hits"));
        let others = || QUOTAS.iter().filter(|other| other.quota != info.quota);
        assert!(others().all(|other| other.key != info.key && other.counter != info.counter), "{info:?}");
    }
}

#[test]
fn hits_are_counted_for_all_and_for_each_holder() {
    let mut hits = Hits::default();
    hits.add(Quota::SocketsOfGroup, 3, 2);
    hits.add(Quota::SocketsOfGroup, 4, 1);
    hits.add(Quota::GroupsOfUser, 3, 5);
    let of = |hits: &Hits, holder| hits.of(Quota::SocketsOfGroup, holder);
    assert_eq!((of(&hits, 3), of(&hits, 4), of(&hits, 5)), (2, 1, 0));
    hits.forget_group(3);
    assert_eq!((of(&hits, 3), hits.sums()[Quota::SocketsOfGroup as usize]), (0, 3), "the sum stays");
    assert_eq!(hits.of(Quota::GroupsOfUser, 3), 5, "a user of the same number is another holder");
}

#[test]
fn holders_without_end_take_no_memory_without_end() {
    let mut hits = Hits::default();
    (0..100_000).for_each(|uid| hits.add(Quota::GroupsOfUser, uid, 1));
    assert_eq!((hits.of.len(), hits.sums()[Quota::GroupsOfUser as usize]), (HOLDERS_MAX, 100_000));
}
