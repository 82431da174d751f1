use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::run;

#[test]
fn a_sign_comes_only_after_all_workers_have_answered() {
    let stop = eventfd(0, EventfdFlags::CLOEXEC).expect("Linux");
    let (mut asked, mut told) = (0, 0);
    let answers = || {
        asked += 1;
        asked < 4
    };
    run(Duration::ZERO, &stop, answers, || told += 1);
    assert_eq!((asked, told), (4, 3), "the fourth question is not answered");
}

#[test]
fn it_ends_with_the_service() {
    let stop = eventfd(1, EventfdFlags::CLOEXEC).expect("Linux");
    let mut told = 0;
    run(Duration::from_secs(3_600), &stop, || true, || told += 1);
    assert_eq!(told, 1);
}
