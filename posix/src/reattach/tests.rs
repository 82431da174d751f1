//! A service dies, another one takes its place; the test plays both.

use super::*;
use crate::Settings;
use crate::errno::Errno;
use crate::fallback::Kernel;
use crate::fd_table::Descriptor;
use crate::mock::Bench;
use crate::stream::Receive;
use ringway_channel::{Flags, State as SlotState};
use std::io::IoSliceMut;

const IN: u32 = libc::EPOLLIN as u32;

impl Bench {
    /// A call that goes to the kernel, a second after the one before.
    fn look(&self) {
        self.posix.attachment.next_look.store(0, Ordering::Relaxed);
        self.posix.note_service_death();
        self.posix.before_kernel();
    }

    fn is_attached(&self) -> bool {
        !self.posix.service_is_dead()
    }

    fn connection(&self) -> Descriptor {
        let (fd, socket) = self.socket(SlotState::Connected);
        Descriptor { fd, socket }
    }

    fn give_up(&self, at: Descriptor) {
        assert_eq!(self.posix.close(at.fd), Some(Ok(())));
    }

    fn receive(&self, socket: SocketRef) -> crate::Answer<usize> {
        self.posix.receive(socket, &mut [IoSliceMut::new(&mut [0; 9])], Receive { dont_wait: true, ..Receive::default() })
    }

    /// Descriptors of the library's own.
    fn internal(&self) -> usize {
        let mut count = 0;
        self.posix.table().for_each_in(0, Fd::MAX, |_, entry| count += usize::from(entry == Entry::Internal));
        count
    }

    fn restart_service(&mut self) {
        self.kill_service();
        self.start_service();
    }
}

#[test]
fn a_process_attaches_again_once_its_dead_connections_are_closed() {
    let mut bench = Bench::new();
    let (failed, moved) = (bench.connection(), bench.connection());
    bench.say(moved.socket, Flags::MOVED);
    assert!(bench.posix.has_live_sockets());
    bench.restart_service();
    bench.look();
    assert!(!bench.is_attached(), "a connection of the dead service is open");
    assert!(bench.posix.has_sockets() && !bench.posix.has_live_sockets());
    assert_eq!(bench.receive(failed.socket), Err(Errno::CONNRESET));
    assert_eq!(bench.posix.table().lookup(moved.fd), Entry::None, "the sweep has met it");
    bench.give_up(failed);
    bench.posix.before_kernel();
    assert!(!bench.is_attached(), "it has looked less than a second ago");
    bench.look();
    assert!(bench.is_attached());
    let new = bench.connection();
    bench.arrive(new.socket, b"hello");
    assert_eq!(bench.receive(new.socket), Ok(5));
    let said = bench.kernel.said.lock().expect("no test panics with it").clone();
    assert_eq!(said, ["ringway: attached again to service test"]);
}

#[test]
fn without_a_service_it_stays_as_it_is_and_says_nothing() {
    let mut bench = Bench::new();
    bench.kill_service();
    for _ in 0..3 {
        bench.look();
    }
    assert!(!bench.is_attached() && bench.posix.attachment.seeks());
    assert!(bench.kernel.said.lock().expect("no test panics with it").is_empty());
    bench.start_service();
    bench.look();
    assert!(bench.is_attached() && !bench.posix.attachment.seeks(), "nothing is left to look for");
}

#[test]
fn quiet_programs_are_not_told() {
    let mut bench = Bench::with(Settings { quiet: true, ..Settings::default() });
    bench.restart_service();
    bench.look();
    assert!(bench.is_attached());
    assert!(bench.kernel.said.lock().expect("no test panics with it").is_empty());
}

/// A thread may still hold it: the new service has a socket in the same slot, of the same generation.
#[test]
fn a_reference_to_a_socket_of_the_service_before_names_none_of_the_new_one() {
    let mut bench = Bench::new();
    let old = bench.connection();
    bench.give_up(old);
    bench.restart_service();
    bench.look();
    let new = bench.connection();
    bench.arrive(new.socket, b"secret");
    assert_eq!(old.socket.index, new.socket.index, "the case that matters");
    assert_ne!(old.socket, new.socket);
    assert!(bench.receive(old.socket).is_err());
    assert_eq!(bench.posix.attached().expect("it is attached").view(old.socket), None);
    assert_eq!(bench.receive(new.socket), Ok(6));
}

/// Wait contexts are of one service: a wait after it is woken by the new one.
#[test]
fn epoll_instances_and_blocking_calls_go_over_to_the_new_service() {
    let mut bench = Bench::new();
    let epoll = bench.kernel.epoll_create(0).expect("descriptors are left");
    bench.posix.epoll_created(epoll);
    let watch = |bench: &Bench, at: Descriptor| {
        let event = libc::epoll_event { events: IN, u64: at.fd as u64 };
        assert_eq!(bench.posix.epoll_control(epoll, libc::EPOLL_CTL_ADD, at.fd, Some(event)), Some(Ok(())));
    };
    let wait = |bench: &Bench| {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        let told = bench.posix.epoll_wait(epoll, &mut events, Some(Duration::from_secs(30)), None).expect("it is known");
        let told = told.expect("no error");
        events[..told].iter().map(|event| event.u64).collect::<Vec<u64>>()
    };
    let mut internal = Vec::new();
    for _ in 0..4 {
        let at = bench.connection();
        watch(&bench, at);
        drop(bench.posix.waiter().expect("a context is free"));
        std::thread::scope(|scope| {
            let slept = bench.kernel.sleeps.load(Ordering::Relaxed);
            let sleeper = scope.spawn(|| wait(&bench));
            while bench.kernel.sleeps.load(Ordering::Relaxed) == slept {
                std::thread::yield_now();
            }
            bench.arrive(at.socket, b"x");
            assert_eq!(sleeper.join().expect("it does not panic"), [at.fd as u64]);
        });
        let reader = bench.connection();
        std::thread::scope(|scope| {
            let slept = bench.kernel.sleeps.load(Ordering::Relaxed);
            let sleeper =
                scope.spawn(|| bench.posix.receive(reader.socket, &mut [IoSliceMut::new(&mut [0; 9])], Receive::default()));
            while bench.kernel.sleeps.load(Ordering::Relaxed) == slept {
                std::thread::yield_now();
            }
            bench.arrive(reader.socket, b"abc");
            assert_eq!(sleeper.join().expect("it does not panic"), Ok(3));
        });
        internal.push(bench.internal());
        bench.give_up(at);
        bench.give_up(reader);
        bench.restart_service();
        bench.look();
        assert!(bench.is_attached());
    }
    // The descriptors of the service before stay until the next one comes.
    assert_eq!(internal[1..], [internal[0] + 2; 3], "a leak");
}

/// A thread that waits for a socket of the dead service keeps its context until it returns, and gives none of it to the next.
#[test]
fn a_context_in_use_goes_when_its_thread_returns() {
    let mut bench = Bench::new();
    drop(bench.posix.waiter().expect("a context is free"));
    bench.restart_service();
    let waiter = bench.posix.waiter().expect("one was put back");
    bench.look();
    assert!(bench.is_attached());
    drop(waiter);
    let (place, _) = bench.posix.attachment.present();
    let next = bench.posix.waiter().expect("the new service has contexts");
    assert_eq!(next.attachment, place);
}

/// The child of a fork finds the new channel, as a process of its own.
#[test]
fn a_child_after_it_is_attached_like_its_parent() {
    let mut bench = Bench::new();
    bench.restart_service();
    bench.look();
    let at = bench.connection();
    bench.posix.before_fork();
    bench.posix.fork_is_over();
    bench.posix.after_fork_in_child();
    assert!(bench.is_attached());
    bench.arrive(at.socket, b"hi");
    assert_eq!(bench.receive(at.socket), Ok(2));
}

#[test]
fn a_child_of_vfork_does_not_attach_for_its_parent() {
    let mut bench = Bench::new();
    bench.restart_service();
    bench.kernel.pretended_process.store(1, Ordering::Relaxed);
    bench.look();
    assert!(!bench.is_attached());
    bench.kernel.pretended_process.store(0, Ordering::Relaxed);
    bench.look();
    assert!(bench.is_attached());
}
