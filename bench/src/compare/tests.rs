use super::*;

fn row(target: &str, unit: &str, values: &[f64]) -> Row {
    Row {
        scenario: "conns".into(),
        point: "64".into(),
        target: target.into(),
        wire: "veth".into(),
        unit: unit.into(),
        value: median(values.iter().copied()).expect("there are some"),
        values: values.to_vec(),
        noise: "quiet".into(),
        commit: format!("of {}", values[0]),
        ..Row::default()
    }
}

const STEADY: [f64; 5] = [100.0, 101.0, 99.0, 100.5, 99.5];

fn verdict(unit: &str, after: &[f64]) -> Verdict {
    pairs(&[row("linux", unit, &STEADY)], &[row("linux", unit, after)]).0[0].verdict
}

#[test]
fn a_difference_is_one_that_the_rounds_do_not_explain() {
    assert_eq!(verdict("requests/s", &STEADY.map(|value| value * 1.2)), Verdict::Better);
    assert_eq!(verdict("requests/s", &STEADY.map(|value| value / 1.2)), Verdict::Worse);
    assert_eq!(verdict("us", &STEADY.map(|value| value * 1.2)), Verdict::Worse, "time is better when there is less");
    assert_eq!(verdict("requests/s", &[100.2, 99.8, 100.9, 99.1, 100.0]), Verdict::Same);
    assert_eq!(
        verdict("requests/s", &[60.0, 140.0, 120.0, 80.0, 125.0]),
        Verdict::Same,
        "rounds that differ so much say nothing"
    );
    assert_eq!(verdict("requests/s", &[120.0, 121.0]), Verdict::Unknown, "two rounds are none");
}

#[test]
fn the_same_rows_have_the_same_interval_around_the_quotient() {
    let after = STEADY.map(|value| value * 1.2);
    let (least, most) = interval(&STEADY, &after).expect("enough rounds");
    assert!(least < 1.2 && 1.2 < most && most - least < 0.06, "{least} {most}");
    assert_eq!(interval(&STEADY, &after), Some((least, most)));
}

#[test]
fn a_limit_counts_what_is_surely_worse() {
    let pair =
        |after: f64| pairs(&[row("linux", "Gbit/s", &STEADY)], &[row("linux", "Gbit/s", &STEADY.map(|value| value * after))]).0;
    assert!(pair(0.8)[0].is_worse_by(0.1) && !pair(0.91)[0].is_worse_by(0.1) && !pair(1.3)[0].is_worse_by(0.1));
}

#[test]
fn points_of_one_run_and_other_machines_are_told() {
    let before = [row("linux", "Gbit/s", &STEADY), row("service", "Gbit/s", &STEADY)];
    let after = [row("linux", "Gbit/s", &[101.0; 5])];
    let (pairs, alone) = pairs(&before, &after);
    assert_eq!((pairs.len(), alone), (1, 1));
    let text = table(&pairs, alone, &differences(&before, &after));
    assert!(text.starts_with("commit: of 100 before, of 101 after\n"), "{text}");
    assert!(
        text.ends_with("1 points: 0 better, 0 worse, 1 without a difference, 0 without an interval; 1 not in both, or zero\n"),
        "{text}"
    );
}
