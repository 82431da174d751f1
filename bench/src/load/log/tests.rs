//! A log file is parsed or refused with the line's number; a generated log is the same for the same seed.
use super::*;

fn at_ms(entry: &Entry) -> f64 {
    entry.at.as_secs_f64() * 1e3
}

#[test]
fn a_log_has_times_and_sizes() {
    let text = "# time_ms size\n\n0 64\n0.5 1700\n  2 0\n2 99999999\n";
    let entries = parse(text.as_bytes()).expect("it is one");
    let expected = [(0.0, 64), (0.5, 1700), (2.0, HEADER_BYTES as u32), (2.0, SIZE_MAX)];
    assert_eq!(entries.iter().map(|entry| (at_ms(entry), entry.size)).collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_no_log_is_refused_with_its_line() {
    let long = format!("0 64\n1 {}", "1".repeat(1000));
    let wrong: [(&[u8], &str); 10] = [
        (b"0 64\nx 64", "line 2"),
        (b"0", "line 1"),
        (b"0 64 1", "line 1"),
        (b"-1 64", "line 1"),
        (b"0 -1", "line 1"),
        (b"NaN 64", "line 1"),
        (b"0 inf", "line 1"),
        (b"5 64\n4 64", "line 2 is earlier"),
        (b"\xff\xfe 64", "line 1 is no text"),
        (long.as_bytes(), "line 2 has more than"),
    ];
    for (text, words) in wrong {
        let error = parse(text).expect_err("it is none").to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!(Source::File("/nonexistent/log".into()).entries(1, Duration::from_secs(1), 1).is_err());
}

#[test]
fn a_made_log_has_the_rate_the_median_and_the_mean_that_it_shall() {
    let length = Duration::from_secs(20);
    let entries = Source::Rate(5_000).entries(1, length, 7).expect("it is made");
    assert_eq!(entries, Source::Rate(5_000).entries(1, length, 7).expect("it is made"));
    assert!((98_000..102_000).contains(&entries.len()), "{}", entries.len());
    let mut sizes: Vec<u32> = entries.iter().map(|entry| entry.size).collect();
    sizes.sort_unstable();
    assert!((1_600..1_800).contains(&sizes[sizes.len() / 2]), "{}", sizes[sizes.len() / 2]);
    let mean = sizes.iter().map(|size| f64::from(*size)).sum::<f64>() / sizes.len() as f64;
    // `SIZE_MAX` lowers the mean.
    assert!((30_000.0..42_000.0).contains(&mean), "{mean}");
}

#[test]
fn copies_are_as_many_logs_at_once_in_order_and_not_at_the_same_instants() {
    let length = Duration::from_secs(1);
    let one = Source::Rate(1_000).entries(1, length, 3).expect("it is made").len();
    let three = Source::Rate(1_000).entries(3, length, 3).expect("it is made");
    assert!((2 * one..4 * one).contains(&three.len()));
    assert!(three.windows(2).all(|pair| pair[0].at <= pair[1].at) && three.iter().all(|entry| entry.at < length));
}
