use super::*;

/// Each class of each histogram is found by its name; the bounds are in the unit of the metric.
#[test]
fn classes_are_found_by_their_names() {
    for info in &HISTOGRAMS {
        let (names, bounds) = (info.names(), info.bounds());
        assert_eq!(names.len(), bounds.len() + 1, "{}", info.name);
        for (place, name) in names.iter().enumerate() {
            let part = if place == bounds.len() { Part::Sum } else { Part::Class(place) };
            assert_eq!(histogram_of(name), Some((info, part)));
            assert_eq!(counter_info(name), None, "{name} has one meaning");
        }
        assert_eq!(bounds.last(), Some(&f64::INFINITY));
    }
    assert_eq!(histogram_of("RingwayBatch4").map(|(info, part)| (info.bounds()[2], part)), Some((4.0, Part::Class(2))));
    let second = histogram_of("RingwayRtt1048576us").map(|(info, _)| info.bounds()[16]);
    assert!(second.is_some_and(|bound| (bound - 1.048_576).abs() < 1e-9), "{second:?}");
    assert_eq!(histogram_of("RingwayTurns"), None);
}

/// Few sockets are listed ten times a second; listing thousands must not take the data path's time.
#[test]
fn many_sockets_are_listed_more_rarely() {
    let mut metrics = Metrics::new(None, None).expect("no file is made");
    let mut interval = |sockets| {
        metrics.set(Work::Sockets, sockets);
        metrics.interval().as_millis()
    };
    assert_eq!(interval(0), 100);
    assert_eq!(interval(256), 200);
    assert_eq!(interval(u64::from(u32::MAX)), 1_000, "but at least once a second");
}
