use super::*;

fn at(millis: u64) -> Instant {
    Instant::from_millis(10_000 + millis)
}

/// Each tells every 100 ms from `from` up to `to`; one with nothing to report sleeps.
fn tell(loads: &mut Loads, from: u64, to: u64, busy: &[Option<f64>]) {
    for millis in (from..to).step_by(100) {
        for (worker, busy) in busy.iter().enumerate() {
            if let Some(busy) = *busy {
                loads.told(at(millis), worker, busy);
            }
        }
    }
}

/// Two that are as busy as each other, or have time, give nothing.
#[test]
fn a_worker_that_would_gain_little_gives_nothing() {
    for busy in [[Some(1.0), Some(0.7)], [Some(0.5), None], [None, None]] {
        let mut loads = Loads::new(2, 60);
        tell(&mut loads, 0, 5_000, &busy);
        assert_eq!((loads.relief(at(4_900), 0), loads.relief(at(4_900), 1)), (None, None), "{busy:?}");
    }
}

/// A quarter of the difference goes to the one with the most time; a sleeping worker has all of its time.
#[test]
fn the_busiest_gives_to_the_least_busy() {
    for (busy, to, share) in [([Some(0.8), Some(0.4), None], 2, 0.25), ([Some(0.8), Some(0.4), Some(0.6)], 1, 0.125)] {
        let mut loads = Loads::new(3, 60);
        tell(&mut loads, 0, 5_000, &busy);
        let relief = loads.relief(at(4_900), 0).expect("it is too much");
        assert!(relief.to == to && (relief.share - share).abs() < 0.001, "{busy:?}: {relief:?}");
        assert_eq!(loads.relief(at(4_900), 1), None);
    }
}

/// Until the figures can tell what a move has brought, none of the two moves anything.
#[test]
fn a_move_is_given_time() {
    let mut loads = Loads::new(2, 60);
    tell(&mut loads, 0, 5_000, &[Some(1.0), Some(0.1)]);
    assert!(loads.relief(at(4_900), 0).is_some());
    loads.moved(at(4_900), 0, 1);
    tell(&mut loads, 5_000, 5_400, &[Some(1.0), Some(0.1)]);
    assert_eq!(loads.relief(at(5_300), 0), None);
    tell(&mut loads, 5_400, 5_500, &[Some(1.0), Some(0.1)]);
    assert!(loads.relief(at(5_400), 0).is_some());
}
