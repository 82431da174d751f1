//! The remaining time is estimated from finished steps, before the first from the guess.
use indicatif::InMemoryTerm;

use super::*;

#[test]
fn the_remaining_time_is_by_what_was_seen() {
    let second = Duration::from_secs(1);
    let mut progress = Progress::new("conns", true, second);
    progress.begin(10);
    assert_eq!(progress.remaining(Duration::ZERO), 10 * second);
    progress.step();
    progress.step();
    assert_eq!(progress.remaining(6 * second), 24 * second);
    progress.expect(2);
    assert_eq!(progress.remaining(6 * second), 30 * second);
    progress.forget(2);
    assert_eq!(progress.remaining(6 * second), 24 * second);
    (0..20).for_each(|_| progress.step());
    assert_eq!(progress.remaining(6 * second), Duration::ZERO);
}

#[test]
fn a_bar_shows_the_step_and_what_is_left() {
    let terminal = InMemoryTerm::new(10, 100);
    let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
    let mut progress = Progress::new("conns", true, Duration::from_secs(2));
    progress.form = Form::Bar(bar("conns", target));
    progress.begin(3);
    progress.say("starting linux");
    progress.say_step("64: linux, round 1 of 3");
    let shown = terminal.contents();
    assert!(shown.starts_with("ringway bench conns: starting linux\nconns ") && shown.contains("0/3 64: linux"), "{shown}");
    assert!(shown.ends_with("about 6 s left"), "{shown}");
    progress.step();
    progress.expect(1);
    // While a row is printed, no bar is there.
    progress.aside(|| assert_eq!(terminal.contents(), "ringway bench conns: starting linux"));
    progress.say_step("64: linux, round 2 of 3");
    let shown = terminal.contents();
    assert!(shown.contains(" 1/4 64: linux, round 2 of 3"), "{shown}");
    drop(progress);
    assert_eq!(terminal.contents(), "ringway bench conns: starting linux");
}
