//! Connections that the stack has accepted for a listener whose program goes.

use super::*;

/// A listener for which the stack has accepted a connection.
pub(super) fn listener_with_one(bench: &Bench) -> (Fd, SocketRef) {
    let (fd, listener) = bench.socket(SlotState::Listening);
    bench.turn(|worker| {
        let child = worker.allocate_slot().expect("a slot is free");
        worker.set_state(child.index, SlotState::Connected);
        assert!(worker.push_accepted(listener.index, child.index, Instant::ZERO));
    });
    (fd, listener)
}

/// What waits when the last process that has the listener becomes another program.
#[test]
fn a_listener_of_an_image_that_ends_takes_along_what_waits_there() {
    let bench = Bench::new();
    bench.accepts_handover();
    let (fd, listener) = listener_with_one(&bench);
    bench.kernel.stays_open.store(true, Ordering::Relaxed);
    bench.posix.before_replaced();
    assert_eq!(bench.posix.socket_of(fd), Some(listener), "it is the stack's");
    bench.say(listener, Flags::MOVED);
    bench.kernel.stays_open.store(false, Ordering::Relaxed);
    bench.posix.before_replaced();
    assert_eq!(bench.posix.socket_of(fd), Some(listener), "it closes on exec");
    bench.kernel.stays_open.store(true, Ordering::Relaxed);
    bench.posix.before_replaced();
    assert_eq!((bench.posix.socket_of(fd), bench.handovers()), (None, 1));
    assert!(bench.has_gone(Descriptor { fd, socket: listener }));
    assert_eq!(bench.requests(), [Operation::Close { linger_s: None }; 2], "two slots end, and no connection");
}

/// One that has never accepted will not: what waits is for the program that it starts. This holds for its children of vfork.
#[test]
fn a_manager_gives_what_waits_to_the_kernels_listener() {
    for (process, linger_s) in [(0, None), (4242, None), (0, Some(0))] {
        let bench = Bench::new();
        let (_, listener) = listener_with_one(&bench);
        bench.kernel.stays_open.store(true, Ordering::Relaxed);
        bench.kernel.pretended_process.store(process, Ordering::Relaxed);
        bench.posix.before_unreached();
        assert!(bench.posix.has_waiting(bench.posix.attached().expect("it is"), listener), "the port is the stack's");
        if linger_s.is_none() {
            bench.accepts_handover();
        } else {
            bench.say(listener, Flags::MOVED);
        }
        let before = bench.open_descriptors();
        bench.posix.before_unreached();
        assert_eq!(bench.requests(), [Operation::Close { linger_s }], "a refused one is reset");
        assert_eq!(bench.open_descriptors(), before);
    }
}

/// A ring that cannot be answered for the kernel, and a process without the library: it goes along with the listener.
#[test]
fn what_waits_goes_along_where_the_kernel_accepts() {
    let ways: [fn(&Bench, Fd); 3] = [
        |bench, fd| bench.posix.before_ring_keeps(fd),
        |bench, _| bench.posix.ring_is_unread(),
        |bench, fd| bench.posix.before_leaving(fd),
    ];
    for way in ways {
        let bench = Bench::new();
        bench.accepts_handover();
        let (fd, listener) = listener_with_one(&bench);
        bench.say(listener, Flags::MOVED);
        way(&bench, fd);
        assert_eq!(bench.posix.socket_of(fd), None);
        assert_eq!(bench.requests(), [Operation::Close { linger_s: None }; 2], "two slots end, and no connection");
    }
}

#[test]
fn a_server_that_accepts_keeps_what_waits() {
    let bench = Bench::new();
    bench.accepts_handover();
    let (fd, listener) = listener_with_one(&bench);
    bench.posix.accept(fd, listener, 0).expect("one waits");
    bench.turn(|worker| {
        let child = worker.allocate_slot().expect("a slot is free");
        worker.set_state(child.index, SlotState::Connected);
        assert!(worker.push_accepted(listener.index, child.index, Instant::ZERO));
    });
    bench.kernel.stays_open.store(true, Ordering::Relaxed);
    bench.posix.before_unreached();
    assert!(bench.posix.has_waiting(bench.posix.attached().expect("it is"), listener));
}

/// The program has not accepted it, and the service ends. One that the kernel does not take is reset.
#[test]
fn any_call_gives_what_waits_at_a_listener_that_the_service_wants_empty() {
    for is_taken in [true, false] {
        let bench = Bench::new();
        if is_taken {
            bench.accepts_handover();
        }
        let ((other, _), (fd, listener)) = (bench.paired(), listener_with_one(&bench));
        bench.ask(&[listener], Flags::EMPTIES);
        assert_eq!(bench.read_once(other.socket), Err(Errno::AGAIN));
        assert_eq!((bench.posix.socket_of(fd), bench.handovers()), (Some(listener), 1), "new connections are its own affair");
        assert_eq!(bench.requests(), [Operation::Close { linger_s: if is_taken { None } else { Some(0) } }]);
    }
}

#[test]
fn a_listener_whose_port_is_the_kernels_leaves_when_it_is_empty() {
    let bench = Bench::new();
    bench.accepts_handover();
    let (fd, listener) = listener_with_one(&bench);
    bench.say(listener, Flags::MOVED);
    assert_eq!(bench.posix.socket_of(fd), Some(listener));
    bench.ask(&[listener], Flags::EMPTIES);
    assert_eq!((bench.posix.socket_of(fd), bench.handovers()), (None, 1));
}
