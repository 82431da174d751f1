use super::*;

/// Number of kernel settings for sleeps that begin every `period` and must end `ahead` later. The alarm is never late.
fn settings(count: u32, period: Duration, ahead: Duration) -> u32 {
    let mut alarm = Alarm::new().expect("a timerfd");
    let (mut now, mut settings) = (Instant::from_millis(1), 0);
    for _ in 0..count {
        let (before, until) = (alarm.set_for, now + ahead);
        alarm.keep(now, Some(until)).expect("set");
        settings += u32::from(alarm.set_for != before);
        assert!(
            alarm.set_for.is_some_and(|at| now < at && at <= until),
            "asleep at {now:?} until {until:?}: {:?}",
            alarm.set_for
        );
        now += period;
    }
    settings
}

/// The kernel is not asked for deadlines that move with each packet, only when the one that it knows has passed.
#[test]
fn a_deadline_that_moves_on_is_left_while_sleeps_come_often() {
    assert_eq!(settings(1_000, Duration::from_micros(80), Duration::from_millis(8)), 10);
}

/// A worker that sleeps long would be woken for nothing about as often as for something.
#[test]
fn a_deadline_that_moves_on_is_followed_while_sleeps_are_long() {
    assert_eq!(settings(100, Duration::from_millis(5), Duration::from_millis(10)), 100);
}

/// An alarm seconds ahead is cancelled when nothing is waited for any more, however frequent sleeps are: rest is
/// without wake-ups.
#[test]
fn a_late_alarm_is_not_left() {
    let mut alarm = Alarm::new().expect("a timerfd");
    let at = Instant::from_millis;
    alarm.keep(at(100), Some(at(5_100))).expect("set");
    alarm.keep(at(101), None).expect("ended");
    assert_eq!(alarm.set_for, None);
    alarm.keep(at(102), Some(at(302))).expect("set");
    alarm.keep(at(103), None).expect("left");
    assert_eq!(alarm.set_for, Some(at(302)));
}

/// A deadline nearer than the alarm counts at once; no deadline cancels the alarm of a worker that sleeps long.
#[test]
fn nearer_deadlines_and_the_end_of_all_are_followed() {
    let mut alarm = Alarm::new().expect("a timerfd");
    let at = Instant::from_millis;
    let mut sleep = |now, until: Option<u64>| {
        alarm.keep(at(now), until.map(at)).expect("set");
        alarm.set_for
    };
    assert_eq!(sleep(100, Some(200)), Some(at(200)));
    assert_eq!(sleep(101, Some(110)), Some(at(110)), "sooner");
    assert_eq!(sleep(102, None), Some(at(110)), "left: the last sleep was short");
    assert_eq!(sleep(109, None), None, "ended: it was not");
    assert_eq!(sleep(109, Some(120)), Some(at(120)));
    assert_eq!(sleep(120, Some(130)), Some(at(130)), "what has gone off is set anew");
}
