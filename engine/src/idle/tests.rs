use super::*;

/// Idle times of one spinner, one after the other.
struct Idling {
    spin: Spin,
    now: Instant,
}

impl Idling {
    fn new() -> Idling {
        Idling { spin: Spin::new(Duration::from_micros(50)), now: Instant::ZERO }
    }

    /// One idle time of so many microseconds; whether it began with spinning.
    fn idle(&mut self, awaited: Awaited, micros: u64) -> bool {
        self.spin.worked(self.now, awaited);
        let spun = self.spin.spins(self.now + Duration::from_micros(1));
        self.now += Duration::from_micros(micros);
        self.spin.worked(self.now, awaited);
        spun
    }
}

/// Spinning stops when idle times are long and comes back when they are short.
#[test]
fn spinning_follows_what_it_brings() {
    let mut idling = Idling::new();
    assert!(idling.idle(Awaited::Wire, 1_000));
    for _ in 0..JUDGED {
        idling.idle(Awaited::Wire, 1_000);
    }
    assert!(!idling.idle(Awaited::Wire, 60), "64 long idle times: no spinning");
    for _ in 0..2 * JUDGED {
        idling.idle(Awaited::Wire, 10);
    }
    assert!(idling.idle(Awaited::Wire, 10), "64 short ones: spin again");
}

/// The sleep itself makes an idle time longer; that must not keep the worker asleep for good.
#[test]
fn what_was_slept_through_may_take_a_wake_up_longer() {
    let mut idling = Idling::new();
    let spun = |idling: &mut Idling| (0..JUDGED).filter(|_| idling.idle(Awaited::Wire, 60)).count();
    assert_eq!(spun(&mut idling), JUDGED as usize);
    assert_eq!(spun(&mut idling), 0, "60 us are longer than a spin of 50");
    assert_eq!(spun(&mut idling), JUDGED as usize, "but with a wake-up in them they would have been short");
}

/// A program that answers at once is waited for, though the wire is slow.
#[test]
fn the_program_and_the_wire_are_judged_apart() {
    let mut idling = Idling::new();
    for _ in 0..JUDGED {
        idling.idle(Awaited::Wire, 1_000);
        idling.idle(Awaited::Application, 5);
    }
    assert!(!idling.idle(Awaited::Wire, 1_000));
    assert!(idling.idle(Awaited::Application, 5));
}

/// A spin ends at the limit.
#[test]
fn spinning_is_bounded() {
    let mut spin = Spin::new(Duration::from_micros(50));
    spin.worked(Instant::from_micros(100), Awaited::Wire);
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
