use super::*;
use crate::script::System;
use crate::sockets::Call;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1));

fn machine() -> Machine {
    Machine::new(LOCAL, 1_500, &Sysctl::default())
}

fn connect(fd: i32) -> Call {
    Call::Connect { fd, to: "192.0.2.1:8080".parse().expect("an address"), begun: false }
}

fn socket(machine: &mut Machine) -> i32 {
    machine.socket(libc::AF_INET, libc::SOCK_STREAM, 0).value as i32
}

/// A blocking connect sends its SYN, waits, and ends by the timers of virtual time alone.
#[test]
fn a_blocking_call_waits_in_virtual_time() {
    let mut machine = machine();
    let start = machine.now();
    let fd = socket(&mut machine);
    let mut call = connect(fd);
    assert_eq!(System::begin(&mut machine, &mut call), None);
    let syn = machine.next_sent().expect("a SYN");
    assert_eq!((syn.at, syn.bytes[33]), (start, 2));
    let answer = std::iter::from_fn(|| {
        assert!(machine.advance_to_timer(start + Duration::from_secs(1_000)), "a timer is left while the call waits");
        Some(machine.retry(&mut call))
    });
    let answer = answer.flatten().next().expect("it gives up");
    assert_eq!(answer, Answer::error(libc::ETIMEDOUT));
    assert!(machine.now().since(start).as_millis() > 60_000, "after all retransmissions");
}

/// While one call waits, others are made; the one that waits is not disturbed.
#[test]
fn other_calls_are_made_meanwhile() {
    let mut machine = machine();
    let fd = socket(&mut machine);
    let mut call = connect(fd);
    assert_eq!(System::begin(&mut machine, &mut call), None);
    assert_eq!(machine.info(fd)[0], 2, "SYN-SENT");
    assert_eq!(machine.option(fd, libc::SOL_SOCKET, libc::SO_ERROR), Ok(vec![0; 4]));
    assert_eq!(machine.retry(&mut call), None);
}

/// The same calls on two machines give the same packets.
#[test]
fn packets_repeat() {
    let run = || {
        let mut machine = machine();
        let fd = socket(&mut machine);
        assert_eq!(machine.set_nonblocking(fd, true), Answer::value(0));
        assert_eq!(System::begin(&mut machine, &mut connect(fd)), Some(Answer::error(libc::EINPROGRESS)));
        let until = machine.now() + Duration::from_secs(20);
        machine.advance(until);
        assert_eq!(machine.close(fd), Answer::value(0));
        std::iter::from_fn(|| machine.next_sent()).collect::<Vec<_>>()
    };
    let packets = run();
    assert!(packets.len() > 3);
    assert_eq!(packets, run());
}

/// A call that waits when its machine ends does not keep it.
#[test]
fn the_end_of_a_machine_ends_its_calls() {
    let mut machine = machine();
    let fd = socket(&mut machine);
    assert_eq!(System::begin(&mut machine, &mut connect(fd)), None);
    drop(machine);
}

/// Descriptors that do not exist, and options that Linux lacks.
#[test]
fn bad_arguments_are_refused() {
    let mut machine = machine();
    let fd = socket(&mut machine);
    assert_eq!(machine.set_option(fd, libc::IPPROTO_TCP, 200, &1_i32.to_ne_bytes()), Answer::error(libc::ENOPROTOOPT));
    assert_eq!(machine.set_option(99, libc::IPPROTO_TCP, libc::TCP_NODELAY, &[1]), Answer::error(libc::EBADF));
    assert_eq!(machine.close(99), Answer::error(libc::EBADF));
    assert_eq!(machine.socket(libc::AF_INET, libc::SOCK_DGRAM, 0), Answer::error(libc::EPROTONOSUPPORT));
    assert_eq!(System::begin(&mut machine, &mut Call::Receive { fd, count: 1, flags: 0 }), Some(Answer::error(libc::ENOTCONN)));
}
