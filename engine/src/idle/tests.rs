use super::*;

/// Spinning stops when idle times are long and comes back when they are short.
#[test]
fn spinning_follows_what_it_brings() {
    let mut spin = Spin::new(Duration::from_micros(50));
    let mut now = Instant::ZERO;
    let mut idle = |spin: &mut Spin, micros| {
        spin.worked(now);
        let spun = spin.spins(now + Duration::from_micros(1));
        now += Duration::from_micros(micros);
        spin.worked(now);
        spun
    };
    assert!(idle(&mut spin, 1_000));
    for _ in 0..JUDGED {
        idle(&mut spin, 1_000);
    }
    assert!(!idle(&mut spin, 10), "64 long idle times: no spinning");
    for _ in 0..2 * JUDGED {
        idle(&mut spin, 10);
    }
    assert!(idle(&mut spin, 10), "64 short ones: spin again");
}

/// A spin ends at the limit.
#[test]
fn spinning_is_bounded() {
    let mut spin = Spin::new(Duration::from_micros(50));
    spin.worked(Instant::from_micros(100));
    assert!(spin.spins(Instant::from_micros(149)));
    assert!(!spin.spins(Instant::from_micros(150)));
    assert!(!Spin::new(Duration::ZERO).spins(Instant::ZERO));
}

/// A bell that nobody reads wakes once per ring, and not again.
#[test]
fn a_bell_wakes_once_per_ring() {
    use rustix::event::{EventfdFlags, eventfd};
    let mut idle = Idle::new(Duration::ZERO).expect("an epoll instance");
    let bell = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
    idle.add(&bell, Source::Bell).expect("registered");
    let rings = |idle: &mut Idle| {
        let mut events = [const { std::mem::MaybeUninit::uninit() }; EVENTS_MAX];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let (ready, _) = epoll::wait(&idle.epoll, &mut events, Some(&now)).expect("a wait");
        ready.len()
    };
    for _ in 0..3 {
        rustix::io::write(&bell, &1u64.to_ne_bytes()).expect("a ring");
        assert_eq!(rings(&mut idle), 1);
        assert_eq!(rings(&mut idle), 0);
    }
}
