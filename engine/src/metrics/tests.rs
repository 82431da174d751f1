use super::*;

/// Few sockets are listed ten times a second; listing thousands must not take the data path's time.
#[test]
fn many_sockets_are_listed_more_rarely() {
    let mut metrics = Metrics::new(None).expect("no file is made");
    let mut interval = |sockets| {
        metrics.set(Work::Sockets, sockets);
        metrics.interval().as_millis()
    };
    assert_eq!(interval(0), 100);
    assert_eq!(interval(256), 200);
    assert_eq!(interval(u64::from(u32::MAX)), 1_000, "but at least once a second");
}
