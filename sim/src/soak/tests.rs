use super::*;

/// Soaks the seeds of `make test`; `ringway-sim --soak 60s` runs as many others as the time allows.
#[test]
fn three_hundred_seeds() {
    let failures = Mutex::new(Vec::new());
    let soak = Soak { seed: 1_000, count: 300, span: None, threads: 2 };
    let totals = soak.run(&|seed, failure| failures.lock().expect("no panic").push(format!("seed {seed}: {failure}")));
    assert!(failures.lock().expect("no panic").is_empty(), "{failures:?}");
    assert_eq!((totals.runs, totals.failed), (300, 0));
    assert!(totals.received_bytes > 1_000_000 && totals.segments > 10_000, "{totals:?}");
}

/// The number of threads affects only the time.
#[test]
fn threads_change_nothing() {
    let totals = |threads| {
        let soak = Soak { seed: 1, count: 12, span: None, threads };
        Totals { millis: 0, ..soak.run(&|seed, failure| panic!("seed {seed}: {failure}")) }
    };
    assert_eq!(totals(1), totals(3));
}

/// Reads valid times and refuses invalid ones.
#[test]
fn spans() {
    let seconds = |text| parse_span(text).map(|span| span.as_millis() / 1_000);
    assert_eq!([seconds("60s"), seconds("5m"), seconds("1h30m"), seconds("7")].map(Result::ok), [60, 300, 5_400, 7].map(Some));
    for wrong in ["", "s", "0", "5x", "-1s", "99999999999h", "1m m"] {
        assert!(parse_span(wrong).is_err(), "{wrong}");
    }
}
