use rustix::event::{EventfdFlags, eventfd};

use super::spin_policy::{JUDGED, SKIPPED, SKIPPED_MAX};
use super::*;

/// Idle times of one spinner, one after the other.
struct Times {
    spin: Spin,
    now: Instant,
}

impl Times {
    fn new() -> Times {
        Times { spin: Spin::new(Duration::from_micros(50)), now: Instant::ZERO }
    }

    /// Spends an idle time of so many microseconds; returns true if it began with spinning.
    fn idle(&mut self, awaited: Awaited, micros: u64) -> bool {
        self.spin.worked(self.now, awaited);
        let spun = self.spin.spins(self.now + Duration::from_micros(1));
        self.now += Duration::from_micros(micros);
        if micros > 1 {
            // The last look before the work.
            self.spin.spins(self.now - Duration::from_micros(1));
        }
        self.spin.worked(self.now, awaited);
        spun
    }

    /// Number of `count` equal idle times that began with spinning.
    fn spun(&mut self, count: u32, awaited: Awaited, micros: u64) -> u32 {
        (0..count).map(|_| u32::from(self.idle(awaited, micros))).sum()
    }
}

/// Spinning stops when it finds nothing and comes back when it does; failures make the pauses longer.
#[test]
fn spinning_follows_what_it_brings() {
    let mut times = Times::new();
    assert_eq!(times.spun(JUDGED, Awaited::Wire, 1_000), JUDGED);
    assert_eq!(times.spun(SKIPPED, Awaited::Wire, 10), 0, "64 spins in vain: none for 64 idle times");
    assert_eq!(times.spun(JUDGED, Awaited::Wire, 1_000), JUDGED, "another attempt");
    assert_eq!(times.spun(2 * SKIPPED, Awaited::Wire, 10), 0, "in vain: twice as long a pause");
    assert_eq!(times.spun(32 * JUDGED, Awaited::Wire, 10), 32 * JUDGED, "now it pays");
    assert_eq!(times.spun(JUDGED, Awaited::Wire, 1_000), JUDGED);
    assert_eq!(times.spun(SKIPPED, Awaited::Wire, 10), 0);
    assert_eq!(times.spun(1, Awaited::Wire, 10), 1, "a success forgives: the pause was of 64");
}

/// A processor that was yielded and came back after another task's slice has found its work too late: sleeping is
/// better.
#[test]
fn work_that_is_found_late_is_no_success() {
    let mut times = Times::new();
    for _ in 0..JUDGED {
        times.spin.worked(times.now, Awaited::Wire);
        assert!(times.spin.spins(times.now + Duration::from_micros(1)));
        times.now += Duration::from_micros(3_000);
        times.spin.worked(times.now, Awaited::Wire);
    }
    assert_eq!(times.spun(SKIPPED, Awaited::Wire, 10), 0, "no spin for 64 idle times");
}

/// Spinning would find all requests that come at random, at the cost of all the gaps between them; only peers that
/// answer after about the same time are spun for.
#[test]
fn only_what_is_to_be_foreseen_is_spun_for() {
    let percent_spun = |gaps: &[u64; 10]| {
        let mut times = Times::new();
        (0..1_000).flat_map(|_| gaps).map(|&micros| u32::from(times.idle(Awaited::Wire, micros))).sum::<u32>() / 100
    };
    // Deciles of the exponential distribution around 14 us, in disorder.
    assert!(percent_spun(&[5, 32, 2, 13, 45, 7, 4, 17, 10, 22]) < 10, "random");
    assert_eq!(percent_spun(&[13, 15, 11, 14, 21, 13, 9, 30, 14, 14]), 100, "answers");
}

/// The pauses are bounded, however long failures last.
#[test]
fn pauses_are_bounded() {
    let mut times = Times::new();
    times.spun(20 * SKIPPED_MAX, Awaited::Wire, 1_000);
    assert!(times.spun(SKIPPED_MAX + JUDGED, Awaited::Wire, 10) > 0);
}

/// A program that answers at once is spun for, although the wire is slow.
#[test]
fn the_program_and_the_wire_are_judged_apart() {
    let mut times = Times::new();
    for _ in 0..JUDGED {
        times.idle(Awaited::Wire, 1_000);
        times.idle(Awaited::Application, 5);
    }
    assert!(!times.idle(Awaited::Wire, 1_000));
    assert!(times.idle(Awaited::Application, 5));
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

/// A wake descriptor that is never read wakes once per ring.
#[test]
fn a_wake_fd_wakes_once_per_ring() {
    let mut idle = Idle::new(Some(Duration::ZERO)).expect("an epoll instance");
    let wake_fd = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
    idle.add(&wake_fd).expect("registered");
    let wakes = |idle: &mut Idle| idle.wait(Instant::ZERO, Some(Instant::ZERO), &[]).expect("a wait");
    for _ in 0..3 {
        rustix::io::write(&wake_fd, &1u64.to_ne_bytes()).expect("a ring");
        assert!(wakes(&mut idle));
        assert!(!wakes(&mut idle));
    }
    rustix::io::write(&wake_fd, &1u64.to_ne_bytes()).expect("a ring");
    idle.remove(&wake_fd).expect("registered before");
    assert!(!wakes(&mut idle), "it is waited for no more");
}

/// A device wakes as long as it has packets, beside wake descriptors or alone.
#[test]
fn a_device_wakes_while_it_is_readable() {
    let mut idle = Idle::new(Some(Duration::ZERO)).expect("an epoll instance");
    let [wake_fd, quiet, device] = [(); 3].map(|()| eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd"));
    idle.add(&wake_fd).expect("registered");
    let mut wakes = || idle.wait(Instant::ZERO, Some(Instant::ZERO), &[quiet.as_fd(), device.as_fd()]).expect("a wait");
    assert!(!wakes());
    rustix::io::write(&device, &1u64.to_ne_bytes()).expect("a packet");
    rustix::io::write(&wake_fd, &1u64.to_ne_bytes()).expect("a ring");
    assert!(wakes());
    assert!(wakes(), "not read yet");
    rustix::io::read(&device, &mut [0; 8]).expect("the packet");
    assert!(!wakes(), "the wake_fd was heard with the device");
}

/// The alarm ends a wait once and is no event.
#[test]
fn an_alarm_ends_a_wait() {
    let mut idle = Idle::new(Some(Duration::ZERO)).expect("an epoll instance");
    let wake_fd = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
    idle.add(&wake_fd).expect("registered");
    let (start, next) = (Instant::from_nanos(1), Instant::from_nanos(2));
    // The machine's time is long past it.
    assert!(!idle.wait(start, Some(next), &[]).expect("a wait"));
    assert!(!idle.wait(next, Some(next), &[]).expect("a wait"));
    rustix::io::write(&wake_fd, &1u64.to_ne_bytes()).expect("a ring");
    assert!(idle.wait(next, None, &[]).expect("a wait"), "a wake_fd is one");
}

/// More devices than a wait holds without allocation are waited for as well.
#[test]
fn many_devices_wake_too() {
    let mut idle = Idle::new(Some(Duration::ZERO)).expect("an epoll instance");
    let [quiet, device] = [(); 2].map(|()| eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd"));
    for count in [FEW - 2, FEW - 1, FEW] {
        let mut devices = vec![quiet.as_fd(); count];
        assert!(!idle.wait(Instant::ZERO, Some(Instant::ZERO), &devices).expect("a wait"));
        devices.push(device.as_fd());
        rustix::io::write(&device, &1u64.to_ne_bytes()).expect("a packet");
        assert!(idle.wait(Instant::ZERO, None, &devices).expect("a wait"), "the last of {}", count + 1);
        rustix::io::read(&device, &mut [0; 8]).expect("the packet");
    }
}

/// Two ends sleep: the answer comes after the peer has woken too, later than the cost of one wake-up. The first limit
/// misses it; the measured one does not.
#[test]
fn a_measured_limit_outlasts_the_wake_up_of_a_peer() {
    let mut idle = Idle::new(None).expect("an epoll instance");
    let (wakeup, answer) = (Duration::from_micros(34), Duration::from_micros(64));
    let mut now = Instant::ZERO;
    let mut sleeps = 0;
    for _ in 0..100 {
        idle.worked(now, Awaited::Wire);
        let arrival = now + answer;
        let gave_up = (1..64).any(|micros| !idle.spins(now + Duration::from_micros(micros)));
        now = if gave_up { arrival + wakeup } else { arrival };
        if gave_up {
            sleeps += 1;
            idle.woken_by(arrival.since(Instant::ZERO), now.since(Instant::ZERO));
        }
    }
    assert_eq!(idle.spin_limit(), wakeup.times(2));
    assert_eq!(sleeps, 3, "as many as it takes to know the cost");
}

/// With a device that takes no time stamps, two ends that sleep, with wake-ups of 30 us, come to spin all the same.
#[test]
fn the_first_limit_is_long_enough_where_nothing_is_measured() {
    let mut idle = Idle::new(None).expect("an epoll instance");
    let answer = Duration::from_micros(55);
    let mut now = Instant::ZERO;
    for _ in 0..100 {
        idle.worked(now, Awaited::Wire);
        assert!((1..55).all(|micros| idle.spins(now + Duration::from_micros(micros))));
        now += answer;
    }
}

/// The configured limit stays, whatever wake-ups cost.
#[test]
fn a_limit_that_is_configured_stays() {
    let mut idle = Idle::new(Some(Duration::from_micros(7))).expect("an epoll instance");
    (0..20).for_each(|_| idle.woken_by(Duration::ZERO, Duration::from_micros(30)));
    assert_eq!(idle.spin_limit(), Duration::from_micros(7));
}
