use super::*;

fn at(millis: u64) -> Instant {
    Instant::from_millis(10_000 + millis)
}

/// Both tell every 100 ms from `from` to `to`.
fn tell(loads: &mut Loads, from: u64, to: u64, busy: [f64; 2]) {
    for millis in (from..to).step_by(100) {
        for (worker, busy) in busy.into_iter().enumerate() {
            loads.told(at(millis), worker, busy);
        }
    }
}

/// Two that are as busy as each other, or have time, give nothing.
#[test]
fn who_would_gain_little_gives_nothing() {
    for busy in [[1.0, 0.9], [0.5, 0.0], [0.0, 0.0]] {
        let mut loads = Loads::new(2);
        tell(&mut loads, 0, 1_000, busy);
        assert_eq!((loads.relief(at(900), 0), loads.relief(at(900), 1)), (None, None), "{busy:?}");
    }
}

/// A quarter of the difference goes to the one with the most time; who sleeps and says nothing has all of it.
#[test]
fn the_busiest_gives_to_the_least_busy() {
    let mut loads = Loads::new(3);
    loads.told(at(0), 1, 1.0);
    tell(&mut loads, 0, 1_000, [0.8, 0.4]);
    let relief = loads.relief(at(900), 0).expect("it is too much");
    assert_eq!((relief.to, relief.share), (2, 0.25));
    loads.told(at(900), 2, 0.6);
    let relief = loads.relief(at(900), 0).expect("it is too much");
    assert!(relief.to == 1 && (relief.share - 0.1).abs() < 0.05, "{relief:?}");
    assert_eq!(loads.relief(at(900), 1), None);
}

/// Until the figures can tell what a move has brought, none of the two moves anything; one moment of work is no load.
#[test]
fn a_move_is_given_time_and_a_moment_counts_little() {
    let mut loads = Loads::new(2);
    tell(&mut loads, 0, 1_000, [1.0, 0.1]);
    assert!(loads.relief(at(900), 0).is_some());
    loads.moved(at(900), 0, 1);
    tell(&mut loads, 1_000, 1_400, [1.0, 0.1]);
    assert_eq!(loads.relief(at(1_300), 0), None);
    tell(&mut loads, 1_400, 1_500, [1.0, 0.1]);
    assert!(loads.relief(at(1_400), 0).is_some());
    let mut loads = Loads::new(2);
    tell(&mut loads, 0, 1_000, [0.3, 0.1]);
    loads.told(at(1_000), 0, 1.0);
    assert_eq!(loads.relief(at(1_000), 0), None);
}
