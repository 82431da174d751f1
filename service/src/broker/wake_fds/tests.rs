//! One user's wait contexts leave descriptors to others, and every process has the wake descriptor it cannot do without.

use ringway_engine::RegionId;

use super::*;

const LIMITS: WakeFdLimits = WakeFdLimits { per_user: 10, all: 20 };

fn process(index: u32) -> ProcessKey {
    ProcessKey { region: RegionId(7), index }
}

#[test]
fn one_user_has_an_eighth_and_a_new_process_its_own_all_the_same() {
    let wake_fds = WakeFds::new(LIMITS);
    let make = |uid, index| wake_fds.make(uid, process(index), WakeFdKind::Epoll);
    let mut kept: Vec<Made> = (0..10).map(|_| make(1000, 0).expect("an eighth is not used up")).collect();
    let refused = make(1000, 0).err().expect("it is now");
    assert_eq!(refused.quota, Quota::WaitContextsOfUser);
    assert!(refused.text.contains("user 1000 has 10 wait contexts"), "{}", refused.text);
    kept.extend((0..2).map(|_| make(1000, 1).expect("every process has two")));
    assert!(make(1000, 1).is_err());
    kept.extend((0..8).map(|_| make(1001, 2).expect("another user's")));
    assert_eq!(make(1001, 2).err().expect("all users together have a quarter").quota, Quota::WaitContexts);
    let used: Vec<_> = wake_fds.usage().expect("nobody else looks").iter().map(|usage| (usage.holder, usage.used)).collect();
    assert_eq!(used, [(1000, Some(12)), (1001, Some(8)), (0, Some(20))]);
    drop(kept.drain(..10));
    kept.push(make(1001, 2).expect("what is over does not count"));
    let last = kept.last().expect("it was pushed");
    assert!(wake_fds.find(&last.key).is_some_and(|ringer| Arc::ptr_eq(&ringer, &last.ringer)));
}

/// Its ring is read, and what is written to it from the application's side goes nowhere.
#[test]
fn a_wake_fd_for_processes_that_may_only_read_is_silenced_by_reading() {
    use std::os::fd::AsRawFd;
    let made = WakeFds::new(LIMITS).make(0, process(0), WakeFdKind::Socket).expect("descriptors are left");
    let (ringer, wake_fd) = (made.ringer.as_raw_fd(), made.wake_fd.as_raw_fd());
    assert!(!ringway_channel::sys::silence_socket(wake_fd));
    // Many more than there is room for: none of them waits.
    (0..100_000).for_each(|_| ringway_channel::sys::ring(ringer));
    let rings = std::iter::from_fn(|| ringway_channel::sys::silence_socket(wake_fd).then_some(())).count();
    assert!(rings > 0 && !ringway_channel::sys::silence_socket(wake_fd));
    ringway_channel::sys::ring(ringer);
    assert!(ringway_channel::sys::silence_socket(wake_fd), "a wake_fd that was silent rings again");
    assert!(rustix::io::write(&made.wake_fd, b"to the service").is_err());
}
