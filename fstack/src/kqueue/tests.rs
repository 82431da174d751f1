use super::filters::*;
use super::*;

fn event(ident: usize, filter: i16, flags: u16) -> Kevent {
    Kevent { ident, filter, flags, fflags: 0, data: 0, udata: 77 }
}

/// Makes changes and takes up to `max` events without waiting longer than `timeout`.
fn call(kqueue: c_int, changes: &[Kevent], max: usize, timeout: Duration) -> Answer<Vec<Kevent>> {
    let timeout = timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    // SAFETY: all is this function's.
    unsafe { kevent(kqueue, &Call { changes: changes.as_ptr(), changes_count: changes.len(), max, timeout: &raw const timeout }) }
}

fn change(kqueue: c_int, changes: &[Kevent]) {
    assert_eq!(call(kqueue, changes, 0, Duration::ZERO), Ok(Vec::new()));
}

fn ready_now(kqueue: c_int) -> Vec<Kevent> {
    call(kqueue, &[], 8, Duration::ZERO).expect("it is a kqueue")
}

struct Ends([c_int; 2]);

impl Ends {
    fn new() -> Ends {
        let mut ends = [0; 2];
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        // SAFETY: it lives until the call returns.
        assert_eq!(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) }, 0);
        Ends(ends)
    }

    fn write(&self) {
        // SAFETY: it lives until the call returns.
        assert_eq!(unsafe { libc::write(self.0[1], b"abc".as_ptr().cast(), 3) }, 3);
    }

    fn ident(&self) -> usize {
        self.0[0] as usize
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        for fd in self.0.into_iter().filter(|fd| *fd >= 0) {
            crate::sockets::ff_close(fd);
        }
    }
}

#[test]
fn a_filter_is_level_unless_it_is_clear_and_says_how_much() {
    let (kqueue, level, edge) = (ff_kqueue(), Ends::new(), Ends::new());
    change(kqueue, &[event(level.ident(), EVFILT_READ, EV_ADD), event(edge.ident(), EVFILT_READ, EV_ADD | EV_CLEAR)]);
    assert_eq!(ready_now(kqueue), []);
    level.write();
    edge.write();
    let mut seen: Vec<_> = ready_now(kqueue).iter().map(|event| (event.ident, event.filter, event.data, event.udata)).collect();
    seen.sort_unstable();
    let mut both = [(level.ident(), EVFILT_READ, 3, 77), (edge.ident(), EVFILT_READ, 3, 77)];
    both.sort_unstable();
    assert_eq!(seen, both);
    assert_eq!(ready_now(kqueue).iter().map(|event| event.ident).collect::<Vec<_>>(), [level.ident()]);
    // EV_ADD looks again.
    change(kqueue, &[event(edge.ident(), EVFILT_READ, EV_ADD | EV_CLEAR), event(level.ident(), EVFILT_READ, EV_DELETE)]);
    assert_eq!(ready_now(kqueue).iter().map(|event| event.ident).collect::<Vec<_>>(), [edge.ident()]);
    crate::sockets::ff_close(kqueue);
    assert_eq!(call(kqueue, &[], 1, Duration::ZERO), Err(Errno(libc::EBADF)));
}

#[test]
fn both_filters_of_a_descriptor_are_reported_even_where_one_has_no_room() {
    let (kqueue, ends) = (ff_kqueue(), Ends::new());
    let flags = EV_ADD | EV_CLEAR;
    change(kqueue, &[event(ends.ident(), EVFILT_READ, flags), event(ends.ident(), EVFILT_WRITE, flags)]);
    ends.write();
    let one = call(kqueue, &[], 1, Duration::ZERO).expect("it is a kqueue");
    let other = call(kqueue, &[], 1, Duration::ZERO).expect("it is a kqueue");
    assert_eq!([one[0].filter, other[0].filter], [EVFILT_READ, EVFILT_WRITE]);
    assert!(other[0].data > 1000, "{other:?}");
    // What is level is not kept: it is reported as long as it holds, and not behind that.
    change(kqueue, &[event(ends.ident(), EVFILT_READ, EV_ADD), event(ends.ident(), EVFILT_WRITE, EV_ADD)]);
    for _ in 0..3 {
        assert_eq!(call(kqueue, &[], 1, Duration::ZERO).expect("it is a kqueue")[0].filter, EVFILT_READ);
    }
    let mut bytes = [0_u8; 8];
    // SAFETY: it lives until the call returns.
    assert_eq!(unsafe { libc::read(ends.0[0], bytes.as_mut_ptr().cast(), bytes.len()) }, 3);
    assert_eq!(ready_now(kqueue).iter().map(|event| event.filter).collect::<Vec<_>>(), [EVFILT_WRITE]);
    crate::sockets::ff_close(kqueue);
}

#[test]
fn once_dispatch_disable_and_enable() {
    let (kqueue, ends) = (ff_kqueue(), Ends::new());
    ends.write();
    change(kqueue, &[event(ends.ident(), EVFILT_READ, EV_ADD | EV_ONESHOT)]);
    assert_eq!((ready_now(kqueue).len(), ready_now(kqueue).len()), (1, 0));
    assert_eq!(call(kqueue, &[event(ends.ident(), EVFILT_READ, EV_DELETE)], 0, Duration::ZERO), Err(Errno(libc::ENOENT)));
    change(kqueue, &[event(ends.ident(), EVFILT_READ, EV_ADD | EV_DISPATCH)]);
    assert_eq!((ready_now(kqueue).len(), ready_now(kqueue).len()), (1, 0));
    change(kqueue, &[event(ends.ident(), EVFILT_READ, EV_ENABLE)]);
    assert_eq!((ready_now(kqueue).len(), ready_now(kqueue).len()), (1, 0));
    change(kqueue, &[event(ends.ident(), EVFILT_READ, EV_ADD | EV_DISABLE)]);
    assert_eq!(ready_now(kqueue).len(), 0);
    change(kqueue, &[event(ends.ident(), EVFILT_READ, EV_ENABLE)]);
    assert_eq!((ready_now(kqueue).len(), ready_now(kqueue).len()), (1, 1));
    crate::sockets::ff_close(kqueue);
}

#[test]
fn the_end_of_a_stream_and_of_a_descriptor() {
    let (kqueue, mut ends) = (ff_kqueue(), Ends::new());
    change(kqueue, &[event(ends.ident(), EVFILT_READ, EV_ADD)]);
    ends.write();
    // SAFETY: it is this function's.
    unsafe { libc::close(std::mem::replace(&mut ends.0[1], -1)) };
    let seen = ready_now(kqueue);
    assert_eq!((seen.len(), seen[0].flags & EV_EOF, seen[0].data), (1, EV_EOF, 3));
    crate::sockets::ff_close(std::mem::replace(&mut ends.0[0], -1));
    assert_eq!(ready_now(kqueue), []);
    crate::sockets::ff_close(kqueue);
}

#[test]
fn timers_repeat_until_they_are_deleted_or_were_to_ring_once() {
    let kqueue = ff_kqueue();
    let timer = |ident, flags, milliseconds| Kevent { data: milliseconds, ..event(ident, EVFILT_TIMER, flags) };
    change(kqueue, &[timer(1, EV_ADD, 2), timer(2, EV_ADD | EV_ONESHOT, 1), timer(3, EV_ADD, 3_600_000)]);
    let mut rings = [0; 3];
    while rings[0] < 3 {
        for event in call(kqueue, &[], 8, Duration::from_secs(5)).expect("it is a kqueue") {
            assert!(event.filter == EVFILT_TIMER && event.data >= 1, "{event:?}");
            rings[event.ident - 1] += event.data;
        }
    }
    assert_eq!(rings[1..], [1, 0]);
    change(kqueue, &[timer(1, EV_DELETE, 0), timer(3, EV_DELETE, 0)]);
    assert_eq!(call(kqueue, &[], 8, Duration::from_millis(4)), Ok(Vec::new()));
    assert_eq!(call(kqueue, &[timer(1, EV_ADD, -1)], 0, Duration::ZERO), Err(Errno(libc::EINVAL)));
    crate::sockets::ff_close(kqueue);
}

#[test]
fn a_user_event_wakes_a_thread_that_waits() {
    const TRIGGER: u32 = 0x0100_0000;
    const COPY: u32 = 0xc000_0000;
    let kqueue = ff_kqueue();
    change(kqueue, &[event(5, EVFILT_USER, EV_ADD | EV_CLEAR)]);
    let waits = std::thread::spawn(move || call(kqueue, &[], 8, Duration::from_secs(60)));
    change(kqueue, &[Kevent { fflags: TRIGGER | COPY | 9, ..event(5, EVFILT_USER, 0) }]);
    let seen = waits.join().expect("it ends").expect("it is a kqueue");
    assert_eq!((seen.len(), seen[0].ident, seen[0].fflags), (1, 5, 9));
    assert_eq!(ready_now(kqueue), []);
    assert_eq!(call(kqueue, &[event(6, EVFILT_USER, 0)], 0, Duration::ZERO), Err(Errno(libc::ENOENT)));
    crate::sockets::ff_close(kqueue);
}

#[test]
fn mistakes_are_events_where_there_is_room() {
    let kqueue = ff_kqueue();
    let wrong = event(9999, EVFILT_READ, EV_ADD);
    assert_eq!(call(kqueue, &[wrong], 0, Duration::ZERO), Err(Errno(libc::EBADF)));
    let seen = call(kqueue, &[wrong, event(1, -5, EV_ADD)], 4, Duration::from_secs(60)).expect("it is a kqueue");
    assert_eq!(seen.iter().map(|event| event.data as c_int).collect::<Vec<_>>(), [libc::EBADF, libc::EOPNOTSUPP]);
    assert!(seen.iter().all(|event| event.flags & EV_ERROR != 0));
    let receipt = Kevent { data: 1, ..event(1, EVFILT_TIMER, EV_ADD | EV_RECEIPT) };
    let seen = call(kqueue, &[receipt], 4, Duration::from_secs(60)).expect("it is a kqueue");
    assert_eq!((seen.len(), seen[0].flags & EV_ERROR, seen[0].data), (1, EV_ERROR, 0));
    crate::sockets::ff_close(kqueue);
}

#[test]
fn a_period_has_its_unit_and_a_timer_that_sleeps_is_not_due() {
    let at = Duration::from_secs(1_000);
    for (unit, number, period) in [
        (0, 5, Duration::from_millis(5)),
        (1, 5, Duration::from_secs(5)),
        (2, 5, Duration::from_millis(5)),
        (4, 5, Duration::from_micros(5)),
        (8, 5, Duration::from_nanos(5)),
        (0, 0, Duration::from_millis(1)),
        (1, isize::MAX, LONGEST),
    ] {
        let mut filters = Filters::default();
        let timer = Kevent { fflags: unit, data: number, ..event(1, EVFILT_TIMER, EV_ADD) };
        assert_eq!(filters.change(-1, &timer, at), Ok(true));
        assert_eq!(filters.next_timer(), Some(at + period), "{unit} {number}");
        let mut events = Vec::new();
        filters.take_due(at + period * 3, &mut events, 8);
        assert_eq!((events.len(), events[0].data), (1, 3), "{unit} {number}");
        assert_eq!(filters.change(-1, &event(1, EVFILT_TIMER, EV_DISABLE), at), Ok(true));
        assert_eq!(filters.next_timer(), None);
    }
}
