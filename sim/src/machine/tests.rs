use super::*;

use std::net::SocketAddr;

use ringway_posix::fallback::Kernel;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1));

fn machine() -> Machine {
    Machine::new(LOCAL, 1_500, &Sysctl::default())
}

fn connect(fd: i32) -> Call {
    Call::Connect { fd, to: "192.0.2.1:8080".parse().expect("an address") }
}

fn socket(machine: &mut Machine) -> i32 {
    machine.socket(libc::AF_INET, libc::SOCK_STREAM, 0).value as i32
}

fn waits(progress: Progress) -> Waiting {
    match progress {
        Progress::Waits(call) => call,
        Progress::Done(answer) => panic!("it returned: {answer:?}"),
    }
}

/// A blocking connect sends its SYN, waits, and ends by the timers of virtual time alone.
#[test]
fn a_blocking_call_waits_in_virtual_time() {
    let mut machine = machine();
    let start = machine.now();
    let fd = socket(&mut machine);
    let mut call = waits(machine.begin(connect(fd)));
    let syn = machine.next_sent().expect("a SYN");
    assert_eq!((syn.at, syn.bytes[33]), (start, 2));
    let answer = loop {
        assert!(machine.advance_to_timer(start + Duration::from_secs(1_000)), "a timer is left while the call waits");
        call = match machine.go_on(call) {
            Progress::Waits(call) => call,
            Progress::Done(answer) => break answer,
        };
    };
    assert_eq!(answer, Answer::error(libc::ETIMEDOUT));
    assert!(machine.now().since(start).as_millis() > 60_000, "after all retransmissions");
}

#[test]
fn time_runs_timers_at_their_time() {
    let mut machine = machine();
    let start = machine.now();
    let fd = socket(&mut machine);
    assert_eq!(machine.set_nonblocking(fd, true), Answer::value(0));
    assert_eq!(machine.begin(connect(fd)), Progress::Done(Answer::error(libc::EINPROGRESS)));
    assert_eq!(machine.next_sent().expect("a SYN").at, start);
    machine.advance(start + Duration::from_secs(2));
    let waited = machine.next_sent().expect("the SYN again").at.since(start);
    assert!(waited.as_millis().abs_diff(1_000) <= 2, "RFC 6298 §2.1: after {} ms", waited.as_millis());
}

/// While one call waits, others are made; the one that waits is not disturbed.
#[test]
fn other_calls_are_made_meanwhile() {
    let mut machine = machine();
    let fd = socket(&mut machine);
    let call = waits(machine.begin(connect(fd)));
    assert_eq!(machine.info(fd)[0], 2, "SYN-SENT");
    assert_eq!(machine.option(fd, libc::SOL_SOCKET, libc::SO_ERROR), Ok(vec![0; 4]));
    waits(machine.go_on(call));
}

/// The same calls on two machines give the same packets.
#[test]
fn packets_repeat() {
    let run = || {
        let mut machine = machine();
        let fd = socket(&mut machine);
        assert_eq!(machine.set_nonblocking(fd, true), Answer::value(0));
        assert_eq!(machine.begin(connect(fd)), Progress::Done(Answer::error(libc::EINPROGRESS)));
        let until = machine.now() + Duration::from_secs(20);
        machine.advance(until);
        assert_eq!(done(machine.begin(Call::Close { fd })), Answer::value(0));
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
    waits(machine.begin(connect(fd)));
    drop(machine);
}

/// Descriptors that do not exist, and options that Linux lacks.
#[test]
fn bad_arguments_are_refused() {
    let mut machine = machine();
    let fd = socket(&mut machine);
    assert_eq!(machine.set_option(fd, libc::IPPROTO_TCP, 200, &1_i32.to_ne_bytes()), Answer::error(libc::ENOPROTOOPT));
    assert_eq!(machine.set_option(99, libc::IPPROTO_TCP, libc::TCP_NODELAY, &[1]), Answer::error(libc::EBADF));
    assert_eq!(done(machine.begin(Call::Close { fd: 99 })), Answer::error(libc::EBADF));
    assert_eq!(machine.socket(libc::AF_INET, libc::SOCK_DGRAM, 0), Answer::error(libc::EPROTONOSUPPORT));
    assert_eq!(machine.begin(Call::Receive { fd, count: 1, flags: 0 }), Progress::Done(Answer::error(libc::ENOTCONN)));
}

/// Makes a segment of a peer at 192.0.2.1:8080 to 192.168.0.1: its port, flags, numbers and payload.
fn segment(port: u16, flags: u8, numbers: (u32, u32), payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0_u8; 40];
    packet.extend_from_slice(payload);
    let len = packet.len() as u16;
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    (packet[8], packet[9]) = (64, 6);
    packet[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 168, 0, 1]);
    packet[20..22].copy_from_slice(&8_080_u16.to_be_bytes());
    packet[22..24].copy_from_slice(&port.to_be_bytes());
    packet[24..28].copy_from_slice(&numbers.0.to_be_bytes());
    packet[28..32].copy_from_slice(&numbers.1.to_be_bytes());
    (packet[32], packet[33]) = (5 << 4, flags);
    packet[34..36].copy_from_slice(&60_000_u16.to_be_bytes());
    let sum = |bytes: &[u8], start: u32| {
        let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
        let total = words.fold(start, |total, word| total + word);
        let folded = (total & 0xffff) + (total >> 16);
        !((folded & 0xffff) + (folded >> 16)) as u16
    };
    let header = sum(&packet[..20], 0);
    packet[10..12].copy_from_slice(&header.to_be_bytes());
    let transport = sum(&packet[12..], 6 + u32::from(len) - 20);
    packet[36..38].copy_from_slice(&transport.to_be_bytes());
    packet
}

fn listener(machine: &mut Machine, port: u16) -> i32 {
    let fd = socket(machine);
    assert_eq!(machine.bind(fd, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)), Answer::value(0));
    assert_eq!(machine.listen(fd, 1), Answer::value(0));
    fd
}

/// Opens a connection from the peer to a port; returns the number that the peer acknowledges.
fn open(machine: &mut Machine, port: u16) -> u32 {
    machine.deliver(&segment(port, SYN, (0, 0), &[]));
    let reply = machine.next_sent().expect("a SYN-ACK").bytes;
    let ack = u32::from_be_bytes(reply[24..28].try_into().expect("four bytes")).wrapping_add(1);
    machine.deliver(&segment(port, ACK, (1, ack), &[]));
    ack
}

fn done(progress: Progress) -> Answer {
    match progress {
        Progress::Done(answer) => answer,
        Progress::Waits(_) => panic!("it waits"),
    }
}

/// A machine with a connection to its port 80: its descriptor, and what the peer acknowledges.
fn connected(mut machine: Machine) -> (Machine, i32, u32) {
    let listener = listener(&mut machine, 80);
    let ack = open(&mut machine, 80);
    let fd = done(machine.begin(Call::Accept { fd: listener, flags: 0 })).value as i32;
    (machine, fd, ack)
}

fn number(machine: &mut Machine, fd: i32, level: i32, name: i32) -> i32 {
    let bytes = machine.option(fd, level, name).expect("the option is there");
    i32::from_ne_bytes(*bytes.first_chunk().expect("four bytes"))
}

/// Of two calls that wait, the one that was begun first may end first, and calls are made between.
#[test]
fn calls_that_wait_end_in_any_order() {
    let mut machine = machine();
    let (first, second) = (listener(&mut machine, 80), listener(&mut machine, 81));
    let one = waits(machine.begin(Call::Accept { fd: first, flags: 0 }));
    let two = waits(machine.begin(Call::Accept { fd: second, flags: 0 }));
    open(&mut machine, 80);
    let accepted = done(machine.go_on(one)).value as i32;
    assert_eq!(machine.info(accepted)[0], 1, "ESTABLISHED");
    let three = waits(machine.begin(Call::Receive { fd: accepted, count: 10, flags: 0 }));
    open(&mut machine, 81);
    assert!(done(machine.go_on(two)).value > 0);
    waits(machine.go_on(three));
}

/// A shutdown ends another thread's attempt to connect.
#[test]
fn a_connect_is_given_up() {
    let mut machine = machine();
    let fd = socket(&mut machine);
    let call = waits(machine.begin(connect(fd)));
    assert_eq!(machine.shutdown(fd, libc::SHUT_RDWR), Answer::value(0));
    assert_eq!(done(machine.go_on(call)), Answer::error(libc::ECONNRESET));
    let sent: Vec<Sent> = std::iter::from_fn(|| machine.next_sent()).collect();
    assert_eq!(sent.len(), 1, "the SYN");
    let until = machine.now() + Duration::from_secs(5);
    machine.advance(until);
    assert_eq!(machine.next_sent(), None);
}

/// SO_MEMINFO counts what was not read, and what was not acknowledged; SIOCOUTQNSD what was not sent.
#[test]
fn queues_are_told() {
    let (mut machine, fd, ack) = connected(machine());
    machine.deliver(&segment(80, ACK, (1, ack), &[7; 300]));
    let memory = |machine: &mut Machine, at: usize| {
        let bytes = machine.option(fd, libc::SOL_SOCKET, libc::SO_MEMINFO).expect("it is there");
        assert_eq!(bytes.len(), 36);
        u32::from_ne_bytes(bytes[4 * at..][..4].try_into().expect("four bytes"))
    };
    assert_eq!(memory(&mut machine, 0), 300);
    done(machine.begin(Call::Receive { fd, count: 100, flags: 0 }));
    assert_eq!((memory(&mut machine, 0), memory(&mut machine, 5)), (200, 0));
    // No MSS option: segments of 536 bytes, of which ten go at once.
    assert_eq!(done(machine.begin(Call::Send { fd, bytes: vec![0; 20_000], flags: 0 })), Answer::value(20_000));
    assert_eq!(memory(&mut machine, 5), 20_000);
    assert_eq!(machine.control(fd, libc::TIOCOUTQ), Answer::value(20_000));
    assert_eq!(machine.control(fd, SIOCOUTQNSD), Answer::value(20_000 - 10 * 536));
}

/// splice(2) from nothing waits, unless it must not.
#[test]
fn splice_of_nothing_waits() {
    let (mut machine, fd, ack) = connected(machine());
    let (reader, writer) = machine.pipe().expect("descriptors are left");
    for (from, to) in [(fd, writer), (reader, fd)] {
        let at_once = Call::Splice { from, to, count: 100, flags: libc::SPLICE_F_NONBLOCK };
        assert_eq!(done(machine.begin(at_once)), Answer::error(libc::EAGAIN));
    }
    let call = waits(machine.begin(Call::Splice { from: fd, to: writer, count: 100, flags: 0 }));
    machine.deliver(&segment(80, ACK, (1, ack), &[7; 30]));
    assert_eq!(done(machine.go_on(call)), Answer::value(30));
    assert_eq!(done(machine.begin(Call::Splice { from: reader, to: fd, count: 100, flags: 0 })), Answer::value(30));
}

/// A packet of many frames is one segment: all of it is read, and one ACK answers it.
#[test]
fn large_packets_arrive_whole() {
    let (mut machine, fd, ack) = connected(Machine::new(LOCAL, 9_000, &Sysctl::default()));
    let payload: Vec<u8> = (0..8_900_u32).map(|at| at as u8).collect();
    machine.deliver(&segment(80, ACK, (1, ack), &payload));
    let answer = done(machine.begin(Call::Receive { fd, count: 20_000, flags: 0 }));
    assert_eq!((answer.value, answer.bytes), (8_900, payload));
    let until = machine.now() + Duration::from_secs(1);
    machine.advance(until);
    let sent: Vec<Sent> = std::iter::from_fn(|| machine.next_sent()).collect();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].bytes[28..32], 8_901_u32.to_be_bytes());
}

/// Settings are the options' defaults: of fresh sockets and of connections, from the time at which they change.
#[test]
fn settings_are_defaults() {
    let mut sysctl = Sysctl::default();
    sysctl.set("tcp_keepalive_time", "60");
    let (mut machine, fd, _) = connected(Machine::new(LOCAL, 1_500, &sysctl));
    assert_eq!(number(&mut machine, fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE), 60);
    sysctl.set("tcp_keepalive_time", "70");
    sysctl.set("tcp_keepalive_probes", "4");
    sysctl.set("tcp_notsent_lowat", "16384");
    machine.reconfigure(1_400, &sysctl);
    let fresh = socket(&mut machine);
    for (fd, low_water) in [(fresh, 16_384), (fd, 0)] {
        assert_eq!(number(&mut machine, fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE), 70);
        assert_eq!(number(&mut machine, fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT), 4);
        assert_eq!(number(&mut machine, fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT), low_water);
    }
    waits(machine.begin(connect(fresh)));
    let syn = machine.next_sent().expect("a SYN").bytes;
    assert_eq!(syn[40..44], [2, 4, 5, 80], "MSS option: 1,360 bytes");
}

/// The caller numbers the machine's descriptors; without a number there is no descriptor.
#[test]
fn descriptors_have_numbers_of_the_callers() {
    let mut machine = machine();
    machine.number_by(|| Some(70));
    assert_eq!(machine.socket(libc::AF_INET, libc::SOCK_STREAM, 0), Answer::value(70));
    assert_eq!(done(machine.begin(Call::Close { fd: 70 })), Answer::value(0));
    machine.number_by(|| None);
    let before = machine.kernel.open_descriptors().expect("they are listed");
    assert_eq!(machine.socket(libc::AF_INET, libc::SOCK_STREAM, 0), Answer::error(libc::EMFILE));
    assert_eq!(machine.pipe(), Err(libc::EMFILE));
    assert_eq!(machine.kernel.open_descriptors(), Ok(before));
    let set = vec![(70, libc::POLLIN), (-1, libc::POLLIN)];
    let answer = done(machine.begin(Call::Poll { set, timeout: None }));
    assert_eq!((answer.value, answer.reported), (1, vec![libc::POLLNVAL, 0]));
}

/// A script's number 3 stays its own when the process's own number 3 becomes free, and a new descriptor gets it.
#[test]
fn a_number_that_a_script_has_given_is_not_given_again() {
    let mut machine = machine();
    let [first, second] = [(); 2].map(|()| socket(&mut machine));
    let far = 1 << 20;
    assert!(machine.renumber(first, far));
    assert_eq!(done(machine.begin(Call::Close { fd: far })), Answer::value(0));
    assert!(machine.renumber(second, first));
    let third = socket(&mut machine);
    assert_ne!(third, first, "the process's number of the third is free again, and the script's of the second is not");
    for fd in [first, third] {
        assert_eq!(done(machine.begin(Call::Close { fd })), Answer::value(0));
    }
}

/// Options that programs must not find supported.
#[test]
fn options_that_are_not_there_are_refused() {
    let mut machine = machine();
    let fd = socket(&mut machine);
    for name in [libc::SO_ZEROCOPY, libc::SO_TIMESTAMPING, libc::SO_TXTIME] {
        assert_eq!(machine.set_option(fd, libc::SOL_SOCKET, name, &1_i32.to_ne_bytes()), Answer::error(libc::ENOPROTOOPT));
    }
}

const SYN: u8 = 2;
const ACK: u8 = 16;
/// linux/sockios.h
const SIOCOUTQNSD: u64 = 0x894b;
