//! Connections that the kernel goes on with, while a worker that the test plays says so.

use super::*;
use crate::fallback::Kernel;
use crate::fcntl_ioctl::Control;
use crate::mock::{Bench, Given, NO_OPTION};
use crate::stream::{Receive, Send};
use crate::{Arrival, Passage, Settings};
use libc::{SOL_SOCKET, pollfd};
use ringway_channel::{CONFINED, Flags, Operation, State as SlotState};
use ringway_shm::{Duration, Instant};
use std::io::{IoSlice, IoSliceMut};
use std::thread;

mod left;
mod waiting;

use waiting::listener_with_one;

/// Long enough for any machine; no test waits for it to pass.
const LONG: Option<Duration> = Some(Duration::from_secs(30));

type Look = fn(&Bench, Descriptor);

impl Bench {
    /// A connection of the stack whose kernel socket is one end of a pair; the number of the other end.
    pub(crate) fn paired(&self) -> (Descriptor, Fd) {
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let family = rustix::net::AddressFamily::UNIX;
        let (here, peer) =
            rustix::net::socketpair(family, rustix::net::SocketType::STREAM, flags, None).expect("pairs work here");
        let (fd, socket) = self.socket_at(self.kernel.keep(here), SlotState::Connected);
        (Descriptor { fd, socket }, self.kernel.keep(peer))
    }

    fn read_once(&self, socket: SocketRef) -> Answer<usize> {
        self.posix.receive(socket, &mut [IoSliceMut::new(&mut [0; 9])], Receive { dont_wait: true, ..Receive::default() })
    }

    fn set_on_socket(&self, at: Descriptor, name: i32, value: &[u8]) {
        assert_eq!(self.posix.set_option(at, SOL_SOCKET, name, value), Ok(()));
    }

    fn given(&self) -> Vec<Given> {
        std::mem::take(&mut self.kernel.given.lock().expect("no test panics with it"))
    }

    /// Returns true if the number is the kernel's.
    pub(crate) fn has_gone(&self, at: Descriptor) -> bool {
        self.posix.table().lookup(at.fd) == Entry::None
    }

    fn open_descriptors(&self) -> usize {
        self.kernel.open_descriptors().expect("they are known").len()
    }

    pub(crate) fn accepts_handover(&self) {
        self.desk.hands_over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn handovers(&self) -> u32 {
        self.desk.handovers.load(Ordering::Relaxed)
    }
}

#[test]
fn bytes_before_the_move_are_read_and_the_call_behind_them_is_the_kernels() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.arrive(at.socket, b"abc");
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.read_once(at.socket), Ok(3));
    assert!(!bench.has_gone(at), "a call that finds bytes does not look");
    assert_eq!(bench.read_once(at.socket), Err(Errno::MOVED));
    assert!(bench.has_gone(at));
    assert_eq!(bench.posix.table().lookup(at.fd), Entry::None);
    assert_eq!(bench.requests(), [Operation::Consumed, Operation::Close { linger_s: None }], "only the slot ends");
}

#[test]
fn a_write_meets_the_move_too() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.posix.send(at.socket, &[IoSlice::new(b"abc")], Send::default()), Err(Errno::MOVED));
    assert_eq!(bench.kernel.broken_pipes.load(Ordering::Relaxed), 0);
    assert_eq!(bench.posix.settled::<usize>(at, Err(Errno::MOVED)), None);
}

#[test]
fn other_calls_look_before_they_do_anything() {
    let bench = Bench::new();
    let looks: [Look; 5] = [
        |bench, at| assert_eq!(bench.posix.socket_of(at.fd), None),
        |bench, at| assert_eq!(bench.posix.close(at.fd), None),
        |bench, at| bench.posix.before_passing(at.fd, &mut Passage::default()),
        |bench, at| assert_eq!(bench.posix.duplicate_to(at.fd, 900, OnExec::Keep), None),
        |bench, at| {
            let mut set = [pollfd { fd: at.fd, events: libc::POLLOUT, revents: 0 }];
            assert_eq!(bench.posix.poll(&mut set, LONG, None), Some(Ok(1)));
            assert_eq!(set[0].revents, libc::POLLOUT);
        },
    ];
    for look in looks {
        let (at, _) = bench.paired();
        assert_eq!(bench.posix.socket_of(at.fd), Some(at.socket));
        bench.say(at.socket, Flags::MOVED);
        look(&bench, at);
        assert!(bench.has_gone(at));
        assert_eq!(bench.requests(), [Operation::Close { linger_s: None }]);
    }
}

#[test]
fn all_numbers_of_the_socket_become_the_kernels() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    let other = bench.posix.duplicate(at.fd, at.socket, 0, OnExec::Close).expect("numbers are free");
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.posix.socket_of(other), None);
    assert_eq!(bench.posix.table().lookup(at.fd), Entry::None);
    assert!(!bench.posix.descriptions.of(at.socket).knows(at.socket));
}

#[test]
fn the_kernel_socket_gets_what_only_the_library_knows() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    let seconds = |seconds: i64| [seconds.to_ne_bytes(), 0_i64.to_ne_bytes()].concat();
    bench.set_on_socket(at, libc::SO_RCVTIMEO, &seconds(5));
    bench.set_on_socket(at, libc::SO_SNDTIMEO, &seconds(-3));
    bench.set_on_socket(at, libc::SO_LINGER, &[1_i32.to_ne_bytes(), 7_i32.to_ne_bytes()].concat());
    bench.set_on_socket(at, libc::SO_RCVLOWAT, &9_i32.to_ne_bytes());
    let me = std::process::id() as i32;
    assert_eq!(bench.posix.fcntl(at.fd, at.socket, libc::F_SETOWN, me.into()), Some(Ok(0)));
    assert_eq!(bench.posix.ioctl(at.socket, libc::FIONBIO, 1), Some(Ok(Control::Done)));
    bench.given();
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.posix.socket_of(at.fd), None);
    let option = |name: i32, value: Vec<u8>| Given::Option(SOL_SOCKET, name, value);
    assert_eq!(
        bench.given(),
        [
            Given::Owner(me as u32),
            Given::Status(libc::O_NONBLOCK),
            option(libc::SO_RCVTIMEO, seconds(5)),
            // As Linux keeps a negative time: a call does not wait.
            option(libc::SO_SNDTIMEO, seconds(-1)),
            option(libc::SO_LINGER, [1_i32.to_ne_bytes(), 7_i32.to_ne_bytes()].concat()),
            option(libc::SO_RCVLOWAT, 9_i32.to_ne_bytes().to_vec()),
        ]
    );
}

/// Options that the kernel socket has from before the stack had the connection, and that the program has taken back since.
#[test]
fn the_kernel_socket_loses_what_the_program_has_taken_back() {
    let bench = Bench::new();
    let off = |name: i32, value: &[u8]| Given::Option(SOL_SOCKET, name, value.to_vec());
    let all = [off(libc::SO_RCVTIMEO, &[0; 16]), off(libc::SO_SNDTIMEO, &[0; 16]), off(libc::SO_LINGER, &[0; 8])];
    for (is_adopted, given) in [(false, &all[..]), (true, &[])] {
        let (at, _) = bench.paired();
        if is_adopted {
            // By exec: what the program before has set is the kernel socket's alone.
            bench.posix.descriptions.of(at.socket).mark(Flag::ADOPTED);
        }
        bench.say(at.socket, Flags::MOVED);
        bench.given();
        assert_eq!(bench.posix.socket_of(at.fd), None);
        assert_eq!(bench.given(), [&[Given::Status(0)], given].concat());
    }
}

/// Two processes are asked for the same socket.
#[test]
fn a_refusal_behind_another_processs_handover_is_none() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.turn(|worker| worker.set_flags(at.socket.index, Flags::MOVED));
    assert!(bench.posix.hand_over(at.socket));
    assert_eq!(bench.handovers(), 1);
}

/// What the program has set on the kernel socket since is not undone by a process that sees the move late.
#[test]
fn the_first_process_that_sees_it_decides_for_all() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.set_on_socket(at, libc::SO_RCVTIMEO, &[5_i64.to_ne_bytes(), 0_i64.to_ne_bytes()].concat());
    bench.say(at.socket, Flags::MOVED);
    bench.given();
    // Another process.
    assert!(bench.posix.attached().expect("it is attached").leaves_first(at.socket));
    assert_eq!(bench.posix.socket_of(at.fd), None);
    assert_eq!(bench.given(), []);
}

#[test]
fn a_sleeping_read_ends_when_the_socket_moves() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    thread::scope(|scope| {
        let reader = scope.spawn(|| bench.posix.receive(at.socket, &mut [IoSliceMut::new(&mut [0; 9])], Receive::default()));
        bench.say_to_sleeper(at.socket, Flags::MOVED);
        assert_eq!(reader.join().expect("it does not panic"), Err(Errno::MOVED));
    });
}

#[test]
fn a_long_write_says_what_it_has_sent_before_the_move() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    thread::scope(|scope| {
        let writer = scope.spawn(|| bench.posix.send(at.socket, &[IoSlice::new(&[7; 100_000])], Send::default()));
        bench.say_to_sleeper(at.socket, Flags::MOVED);
        let sent = writer.join().expect("it does not panic").expect("some bytes had room");
        assert!((1..100_000).contains(&sent));
    });
    assert!(bench.has_gone(at), "the rest is the kernel's");
}

#[test]
fn a_sleeping_poll_goes_on_in_the_kernel() {
    let bench = Bench::new();
    let (at, peer) = bench.paired();
    let mut set = [pollfd { fd: at.fd, events: libc::POLLIN, revents: 0 }];
    thread::scope(|scope| {
        let poller = scope.spawn(|| bench.posix.poll(&mut set, LONG, None));
        bench.say_to_sleeper(at.socket, Flags::MOVED);
        while !bench.has_gone(at) {
            thread::yield_now();
        }
        assert_eq!(bench.kernel.write(peer, &[IoSlice::new(b"x")]), Ok(1));
        assert_eq!(poller.join().expect("it does not panic"), Some(Ok(1)));
    });
    assert_eq!(set[0].revents, libc::POLLIN);
}

#[test]
fn the_death_of_the_service_is_no_reset_of_what_has_moved() {
    let mut bench = Bench::new();
    let [reader, writer, polled, gone] = [0; 4].map(|_| bench.paired().0);
    for at in [reader, writer, polled] {
        bench.say(at.socket, Flags::MOVED);
    }
    bench.kill_service();
    bench.posix.look_at_service();
    assert_eq!(bench.read_once(gone.socket), Err(Errno::CONNRESET), "it is dead");
    assert_eq!(bench.read_once(reader.socket), Err(Errno::MOVED));
    assert_eq!(bench.posix.send(writer.socket, &[IoSlice::new(b"abc")], Send::default()), Err(Errno::MOVED));
    let mut set = [pollfd { fd: polled.fd, events: libc::POLLIN, revents: 0 }];
    assert_eq!(bench.posix.poll(&mut set, Some(Duration::ZERO), None), Some(Ok(0)));
}

/// A thread that meets the slot only when another one has ended it.
#[test]
fn a_slot_that_has_ended_is_no_error_of_the_connection() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.posix.socket_of(at.fd), None);
    bench.turn(|worker| {
        while worker.next_request().is_some() {}
        worker.free_slot(at.socket.index);
    });
    assert_eq!(bench.posix.send(at.socket, &[IoSlice::new(b"abc")], Send::default()), Err(Errno::MOVED));
    assert_eq!(bench.read_once(at.socket), Err(Errno::MOVED));
    assert_eq!(bench.posix.accept(at.fd, at.socket, libc::SOCK_NONBLOCK), Err(Errno::MOVED));
    assert_eq!(bench.posix.settled::<i32>(at, Err(Errno::NOTCONN)), None, "other calls");
    assert_eq!(bench.kernel.broken_pipes.load(Ordering::Relaxed), 0);
}

#[test]
fn a_wanted_socket_is_given_once_and_by_any_call() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.accepts_handover();
    bench.say(at.socket, Flags::WANTED);
    assert_eq!(bench.read_once(at.socket), Err(Errno::MOVED));
    assert_eq!((bench.handovers(), bench.has_gone(at)), (1, true));
    let (at, _) = bench.paired();
    bench.say(at.socket, Flags::WANTED);
    assert_eq!(bench.posix.socket_of(at.fd), None);
    assert_eq!(bench.handovers(), 2);
}

/// A connection in a pool may see no call for hours.
#[test]
fn any_call_gives_all_wanted_sockets() {
    let bench = Bench::new();
    let [(idle, _), (busy, _), (kept, _)] = [(); 3].map(|()| bench.paired());
    bench.accepts_handover();
    bench.ask(&[idle.socket], Flags::WANTED);
    assert_eq!(bench.read_once(busy.socket), Err(Errno::AGAIN));
    assert!(bench.has_gone(idle) && !bench.has_gone(busy) && !bench.has_gone(kept));
    // A child of vfork has its parent's memory, and leaves it to its parent.
    bench.ask(&[kept.socket], Flags::WANTED);
    bench.kernel.pretended_process.store(4242, Ordering::Relaxed);
    assert_eq!(bench.read_once(busy.socket), Err(Errno::AGAIN));
    assert!(!bench.has_gone(kept));
    bench.kernel.pretended_process.store(0, Ordering::Relaxed);
    assert_eq!(bench.posix.socket_of(busy.fd), Some(busy.socket));
    assert!(bench.has_gone(kept));
}

#[test]
fn a_refused_handover_changes_nothing_and_is_not_asked_for_again() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    let before = bench.open_descriptors();
    bench.say(at.socket, Flags::WANTED);
    assert_eq!(bench.read_once(at.socket), Err(Errno::AGAIN));
    assert_eq!(bench.posix.socket_of(at.fd), Some(at.socket));
    bench.arrive(at.socket, b"abc");
    assert_eq!(bench.read_once(at.socket), Ok(3));
    assert_eq!(bench.handovers(), 1);
    assert_eq!(bench.open_descriptors(), before, "the duplicate is closed");
}

#[test]
fn a_sleeping_read_gives_the_wanted_socket() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.accepts_handover();
    thread::scope(|scope| {
        let reader = scope.spawn(|| bench.posix.receive(at.socket, &mut [IoSliceMut::new(&mut [0; 9])], Receive::default()));
        bench.say_to_sleeper(at.socket, Flags::WANTED);
        assert_eq!(reader.join().expect("it does not panic"), Err(Errno::MOVED));
    });
}

/// From a filter of system calls on only calls are made that the program would make itself.
#[test]
fn a_confined_process_hands_nothing_over() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.accepts_handover();
    bench.posix.before_filter();
    bench.say(at.socket, Flags::WANTED);
    assert_eq!(bench.read_once(at.socket), Err(Errno::AGAIN));
    assert_eq!(bench.handovers(), 0);
    // Nothing is taken out of it either, also of what it has opened since.
    let (later, _) = bench.paired();
    for socket in [at.socket, later.socket] {
        assert!(bench.turn(|worker| worker.slot(socket.index).app_flags() & CONFINED != 0));
    }
}

#[test]
fn a_child_of_vfork_makes_the_kernels_call_and_leaves_the_table_alone() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.say(at.socket, Flags::MOVED);
    bench.kernel.pretended_process.store(4242, Ordering::Relaxed);
    assert_eq!(bench.posix.socket_of(at.fd), None);
    assert_eq!(bench.read_once(at.socket), Err(Errno::MOVED));
    assert!(!bench.has_gone(at));
    bench.kernel.pretended_process.store(0, Ordering::Relaxed);
    assert_eq!(bench.posix.socket_of(at.fd), None);
    assert!(bench.has_gone(at));
}

#[test]
fn a_child_of_vfork_hands_over_what_its_program_inherits() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.accepts_handover();
    bench.kernel.pretended_process.store(4242, Ordering::Relaxed);
    bench.posix.before_unreached();
    assert_eq!(bench.handovers(), 0, "it closes on exec");
    bench.kernel.stays_open.store(true, Ordering::Relaxed);
    bench.posix.before_unreached();
    assert_eq!((bench.handovers(), bench.has_gone(at)), (1, false), "the table is the parent's");
    bench.kernel.pretended_process.store(0, Ordering::Relaxed);
    assert_eq!(bench.posix.socket_of(at.fd), None);
    assert!(bench.has_gone(at));
}

#[test]
fn a_program_that_the_library_does_not_reach_inherits_kernel_sockets() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.accepts_handover();
    bench.posix.before_unreached();
    assert_eq!(bench.handovers(), 0, "it closes on exec");
    bench.kernel.stays_open.store(true, Ordering::Relaxed);
    bench.posix.before_unreached();
    assert_eq!((bench.handovers(), bench.has_gone(at)), (1, true));
}

#[test]
fn what_the_service_refuses_travels_as_before() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.kernel.stays_open.store(true, Ordering::Relaxed);
    bench.posix.before_unreached();
    assert_eq!((bench.handovers(), bench.posix.socket_of(at.fd)), (1, Some(at.socket)));
}

#[test]
fn an_option_that_the_stack_lacks_is_the_kernels_to_set_on_a_connection() {
    let bench = Bench::new();
    bench.accepts_handover();
    let set = |at, level, name, value: &[u8]| bench.posix.set_option(at, level, name, value);
    for (level, name, value) in [
        (SOL_SOCKET, libc::SO_ZEROCOPY, &1_i32.to_ne_bytes()[..]),
        (SOL_SOCKET, libc::SO_TIMESTAMPING, &1_i32.to_ne_bytes()),
        (SOL_SOCKET, libc::SO_BINDTODEVICE, b"lo"),
        (libc::IPPROTO_TCP, libc::TCP_ULP, b"tls"),
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"vegas"),
    ] {
        let (at, _) = bench.paired();
        assert_eq!(set(at, level, name, value), Err(Errno::MOVED), "{name}");
        assert!(bench.has_gone(at), "{name}");
    }
    let (at, _) = bench.paired();
    // "Off" is what it is; what most programs may not set leaves the stack for nothing.
    assert_eq!(set(at, SOL_SOCKET, libc::SO_ZEROCOPY, &0_i32.to_ne_bytes()), Ok(()));
    assert_eq!(set(at, SOL_SOCKET, libc::SO_MARK, &1_i32.to_ne_bytes()), Err(Errno::PERM));
    let (fd, socket) = bench.socket(SlotState::Listening);
    let at_listener = Descriptor { fd, socket };
    assert_eq!(set(at_listener, SOL_SOCKET, libc::SO_ZEROCOPY, &1_i32.to_ne_bytes()), Err(Errno::OPNOTSUPP));
    assert_eq!(bench.handovers(), 5);
}

/// A program that tries what no kernel knows keeps its place in the stack.
#[test]
fn an_option_that_the_kernel_lacks_too_is_no_reason_to_leave() {
    let bench = Bench::new();
    bench.accepts_handover();
    let (at, _) = bench.paired();
    let set = |name: i32| bench.posix.set_option(at, libc::IPPROTO_TCP, name, &1_i32.to_ne_bytes());
    assert_eq!((set(NO_OPTION), bench.handovers()), (Err(Errno::NOPROTOOPT), 0));
    assert_eq!((set(999), bench.handovers()), (Err(Errno::MOVED), 1), "of a kernel newer than the table");
}

#[test]
fn no_option_makes_a_strict_programs_connection_the_kernels() {
    let bench = Bench::with(Settings { strict: true, ..Settings::default() });
    bench.accepts_handover();
    let (at, _) = bench.paired();
    let answer = bench.posix.set_option(at, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls");
    assert_eq!((answer, bench.handovers()), (Err(Errno::NOPROTOOPT), 0));
}

#[test]
fn a_listener_moves_behind_the_connections_that_it_has_accepted() {
    let bench = Bench::new();
    let (fd, listener) = listener_with_one(&bench);
    bench.say(listener, Flags::MOVED);
    assert_eq!(bench.posix.socket_of(fd), Some(listener));
    let (new, _) = bench.posix.accept(fd, listener, libc::SOCK_NONBLOCK).expect("one waits");
    assert!(bench.posix.socket_of(new).is_some());
    bench.given();
    assert_eq!(bench.posix.accept(fd, listener, 0), Err(Errno::MOVED));
    // Blocking, as the program has it; the stack's listener was not.
    assert_eq!(bench.given()[0], Given::Status(0));
    assert!(bench.posix.was_handed_over(fd), "listen(2) again is the kernel's");
}

#[test]
fn a_datagram_socket_goes_on_as_the_kernels() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.posix.descriptions.of(at.socket).mark(Flag::DATAGRAM);
    bench.say(at.socket, Flags::MOVED);
    let mut no_shadow = || Err(Errno::AGAIN);
    let answer = bench.posix.receive_datagram(at, &mut [], Receive::default(), &mut no_shadow);
    assert!(matches!(answer, Ok(Arrival::Surrendered)), "{answer:?}");
    assert!(bench.has_gone(at));
}

/// Accepts a connection of the stack; also returns the number of open descriptors before.
fn accepted(bench: &Bench) -> (Descriptor, usize) {
    let (fd, listener) = listener_with_one(bench);
    let before = bench.open_descriptors();
    let (fd, _) = bench.posix.accept(fd, listener, 0).expect("one waits");
    let socket = bench.posix.socket_of(fd).expect("it is ours");
    assert_eq!(bench.open_descriptors(), before + 2, "with a duplicate for later");
    (Descriptor { fd, socket }, before)
}

/// A parked duplicate of its kernel socket would keep the connection open when the program has closed it.
#[test]
fn the_last_close_is_the_programs() {
    let bench = Bench::new();
    let (at, before) = accepted(&bench);
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.posix.close(at.fd), None);
    bench.kernel.close(at.fd).expect("it is open");
    assert_eq!(bench.open_descriptors(), before);
}

#[test]
fn a_kernel_socket_that_the_service_has_had_is_no_spare() {
    let bench = Bench::new();
    let (at, before) = accepted(&bench);
    bench.say(at.socket, Flags::WANTED);
    assert_eq!(bench.posix.close(at.fd), Some(Ok(())), "it was refused");
    assert_eq!((bench.handovers(), bench.open_descriptors()), (1, before));
}

#[test]
fn a_child_closes_what_another_thread_was_giving_away() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    let (copy, _) = bench.posix.copy_of(at.socket).expect("numbers are free");
    bench.posix.after_fork_in_child();
    assert_eq!(bench.kernel.close(copy), Err(Errno::BADF));
}

#[test]
fn splice_finishes_in_the_kernel_what_it_began() {
    let bench = Bench::new();
    let (at, peer) = bench.paired();
    let (from, to) = rustix::pipe::pipe().expect("pipes work here");
    let (from, to) = (bench.kernel.keep(from), bench.kernel.keep(to));
    assert_eq!(bench.kernel.write(to, &[IoSlice::new(&[7; 3000])]), Ok(3000));
    thread::scope(|scope| {
        let splicer = scope.spawn(|| bench.posix.splice_out(at, from, 3000, false));
        bench.say_to_sleeper(at.socket, Flags::MOVED);
        assert_eq!(splicer.join().expect("it does not panic"), Ok(3000));
    });
    let mut bytes = [0; 3000];
    let behind = bench.kernel.read(peer, &mut [IoSliceMut::new(&mut bytes)]).expect("the rest is there");
    assert!((1..3000).contains(&behind), "{behind}");
}

/// A thread wakes up so late that the slot has another socket.
#[test]
fn a_slot_that_has_another_socket_by_now_is_no_error_either() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.posix.socket_of(at.fd), None);
    bench.turn(|worker| {
        while worker.next_request().is_some() {}
        worker.free_slot(at.socket.index);
    });
    let reused =
        std::iter::repeat_with(|| bench.socket(SlotState::Connected).1).take(200).any(|other| other.index == at.socket.index);
    assert!(reused, "it is free");
    assert_eq!(bench.posix.send(at.socket, &[IoSlice::new(b"abc")], Send::default()), Err(Errno::MOVED));
    assert_eq!(bench.posix.settled::<i32>(at, Err(Errno::NOTCONN)), None);
    assert_eq!(bench.kernel.broken_pipes.load(Ordering::Relaxed), 0);
}

/// A close by another thread is not a handover: the number may be another file's by now.
#[test]
fn a_closed_socket_is_not_taken_for_a_moved_one() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    assert_eq!(bench.posix.close(at.fd), Some(Ok(())));
    bench.turn(|worker| {
        while worker.next_request().is_some() {}
        worker.free_slot(at.socket.index);
    });
    assert_eq!(bench.read_once(at.socket), Err(Errno::NOTCONN));
    assert_eq!(bench.posix.settled::<i32>(at, Err(Errno::NOTCONN)), Some(Err(Errno::NOTCONN)));
}

/// Between a thread's look at the number and its dup(2).
#[test]
fn a_duplicate_of_what_has_just_moved_is_the_kernels() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.posix.socket_of(at.fd), None);
    let new = bench.posix.duplicate(at.fd, at.socket, 0, OnExec::Close).expect("numbers are free");
    assert_eq!(bench.posix.table().lookup(new), Entry::None);
    assert_eq!(bench.requests(), [Operation::Close { linger_s: None }], "the slot ends once");
}

#[test]
fn exec_names_no_socket_that_has_moved() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.kernel.stays_open.store(true, Ordering::Relaxed);
    bench.say(at.socket, Flags::MOVED);
    bench.posix.before_exec();
    assert!(bench.has_gone(at));
}

#[test]
fn sendfile_says_what_it_has_sent_before_the_move() {
    let bench = Bench::new();
    let (at, _) = bench.paired();
    bench.kernel.set_file(50_000);
    let mut offset = 10;
    thread::scope(|scope| {
        let sender = scope.spawn(|| bench.posix.sendfile(at.socket, 0, Some(&mut offset), 20_000));
        bench.say_to_sleeper(at.socket, Flags::MOVED);
        let sent = sender.join().expect("it does not panic").expect("some bytes had room");
        assert!((1..20_000).contains(&sent));
        assert!(bench.posix.has_left(at.socket), "the rest is the kernel's");
    });
    let (at, _) = bench.paired();
    bench.say(at.socket, Flags::MOVED);
    assert_eq!(bench.posix.sendfile(at.socket, 0, Some(&mut 0), 9), Err(Errno::MOVED));
}

/// Bytes that splice has seen and put into the pipe go out of the kernel's queue, where they are by then.
#[test]
fn splice_takes_what_it_has_seen_from_the_kernel() {
    let bench = Bench::new();
    let (at, peer) = bench.paired();
    let (from, to) = rustix::pipe::pipe().expect("pipes work here");
    let (from, to) = (bench.kernel.keep(from), bench.kernel.keep(to));
    let full = vec![0; 1 << 16];
    assert_eq!(bench.kernel.write(to, &[IoSlice::new(&full)]), Ok(full.len()));
    bench.arrive(at.socket, b"abc");
    thread::scope(|scope| {
        // It has seen the bytes, and waits for the pipe.
        let splicer = scope.spawn(|| bench.posix.splice_in(at, to, 9, false));
        while bench.kernel.writes.load(Ordering::Relaxed) < 2 {
            thread::yield_now();
        }
        assert_eq!(bench.read(at.socket, 9), 3, "the service takes them back");
        assert_eq!(bench.kernel.write(peer, &[IoSlice::new(b"abcd")]), Ok(4));
        bench.say(at.socket, Flags::MOVED);
        assert_eq!(bench.kernel.read(from, &mut [IoSliceMut::new(&mut vec![0; 1 << 16])]), Ok(1 << 16));
        assert_eq!(splicer.join().expect("it does not panic"), Ok(3));
    });
    assert_eq!(bench.kernel.read(at.fd, &mut [IoSliceMut::new(&mut [0; 9])]), Ok(1), "what came behind them");
}

#[test]
fn a_strict_programs_descriptors_travel_as_they_are() {
    let bench = Bench::with(Settings { strict: true, ..Settings::default() });
    bench.accepts_handover();
    let (at, _) = bench.paired();
    bench.posix.before_leaving(at.fd);
    assert_eq!(bench.handovers(), 0);
}

/// A server that starts anew listens beside connections of the one before, as with the kernel's own.
#[test]
fn the_kernel_socket_of_an_accepted_connection_leaves_the_port_to_a_listener() {
    for accepted in [true, false] {
        let bench = Bench::new();
        let (at, _) = bench.paired();
        bench.accepts_handover();
        if accepted {
            bench.posix.descriptions.of(at.socket).mark(Flag::ACCEPTED);
        }
        assert!(bench.posix.hand_over(at.socket));
        let reuse = Given::Option(SOL_SOCKET, libc::SO_REUSEADDR, 1_i32.to_ne_bytes().to_vec());
        assert_eq!(bench.given().contains(&reuse), accepted);
    }
}
