//! Handovers that are taken back, that are refused, and that meet a machine without what they would like to have.

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use ringway_engine::clock;
use rustix::net::{bind, sockopt};

use super::world::{Kind, PORT, World, counted, pattern, shell};
use super::*;

/// What is taken back has sent nothing; the connection works in the stack, and then in the same socket.
#[test]
fn a_handover_is_taken_back() {
    in_fresh_namespace("handover::tests::stays::namespace_taken_back");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_taken_back() {
    for kind in KINDS {
        let mut world = World::new(kind);
        let (id, mut peer) = warmed(&mut world);
        world.loses = true;
        world.send(id, &pattern(1, 50_000));
        world.loses = false;
        let image = world.export(id);
        let options = TcpOptions { send_buffer_bytes: 10_000, ..TcpOptions::default() };
        let leaving = leaving(&image, &options);
        let socket = kind.kernel_socket();
        sockopt::set_socket_reuseaddr(&socket, true).expect("it is a socket");
        let buffers = || (sockopt::socket_recv_buffer_size(&socket), sockopt::socket_send_buffer_size(&socket));
        let (before, sent) = (buffers(), (counted("snmp", "OutSegs"), counted("snmp", "OutRsts")));
        for _ in 0..2 {
            let ours = socket.try_clone().expect("a descriptor is left");
            prepare(&leaving, ours, Some(&world.injector)).expect("it can leave").undo();
            assert_eq!(repair::info(socket.as_fd()).expect("of TCP").state, State::Closed.linux());
            assert_eq!((buffers(), sockopt::socket_reuseaddr(&socket)), (before, Ok(true)));
            assert_eq!(repair::number(socket.as_fd(), Number::BufferLocks).expect("Linux 5.14"), 0);
            assert_eq!(sockopt::socket_error(&socket), Ok(Ok(())), "the program sees nothing of it");
        }
        // The segment that the kernel is shown is the only one.
        assert_eq!((counted("snmp", "OutSegs"), counted("snmp", "OutRsts")), sent);
        let id = world.stack.import(clock::now(), &image, 7).expect("it was exported here");
        world.expect("from the stack", &mut peer, &pattern(1, 50_000));
        let image = world.export(id);
        let mut stream = world.hand_over(&Leaving { image: &image, ..leaving }, socket);
        assert_eq!(sockopt::socket_reuseaddr(&stream), Ok(true));
        world.write("to the peer", &mut stream, &pattern(3, 50_000));
        world.expect("from the kernel", &mut peer, &pattern(3, 50_000));
    }
}

/// Sockets that cannot have the connection, and connections that cannot leave; each has its reason, and the socket stays closed.
#[test]
fn refusals_have_reasons() {
    in_fresh_namespace("handover::tests::stays::namespace_refusals");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_refusals() {
    let mut world = World::new(Kind::Ipv4);
    let (id, mut peer) = warmed(&mut world);
    let image = world.export(id);
    let options = TcpOptions::default();
    let whole = leaving(&image, &options);
    let injector = Injector::open().expect("root");
    let refuse = |leaving: &Leaving<'_>, socket: OwnedFd| {
        let copy = socket.try_clone().expect("a descriptor is left");
        let refusal = prepare(leaving, socket, Some(&injector)).expect_err("it stays");
        let is_in_repair = repair::select(copy.as_fd(), Queue::None).is_ok();
        assert!(!is_in_repair, "{refusal}: the socket is as it was");
        refusal
    };
    let bound_to = |address: SocketAddr| {
        let socket = Kind::Ipv4.kernel_socket();
        bind(&socket, &address).expect("the address is the kernel's");
        socket
    };
    assert!(matches!(refuse(&whole, UdpSocket::bind("127.0.0.1:0").expect("free").into()), Refusal::Socket));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("free");
    assert!(matches!(refuse(&whole, listener.into()), Refusal::Socket));
    assert!(matches!(refuse(&whole, bound_to(([10, 7, 0, 2], PORT + 1).into())), Refusal::Address));
    shell("ip address add 10.8.0.2/24 dev here");
    assert!(matches!(refuse(&whole, bound_to(([10, 8, 0, 2], PORT).into())), Refusal::Address));
    let only_ipv6 = Kind::Mapped.kernel_socket();
    sockopt::set_ipv6_v6only(&only_ipv6, true).expect("not bound");
    assert!(matches!(refuse(&whole, only_ipv6), Refusal::Family));
    // The image says what cannot be.
    let mut forged = image.clone();
    forged.local.ip = [198, 51, 100, 7].into();
    assert!(matches!(refuse(&Leaving { image: &forged, ..whole }, Kind::Ipv4.kernel_socket()), Refusal::Address));
    forged.local.ip = [0xfd07, 0, 0, 0, 0, 0, 0, 2].into();
    assert!(matches!(refuse(&Leaving { image: &forged, ..whole }, Kind::Ipv4.kernel_socket()), Refusal::Family));
    let mut forged = image.clone();
    forged.remote.ip = [203, 0, 113, 7].into();
    assert!(matches!(refuse(&Leaving { image: &forged, ..whole }, Kind::Ipv4.kernel_socket()), Refusal::Route));
    let mut forged = image.clone();
    forged.sending.nxt = forged.sending.nxt.wrapping_add(1);
    assert!(matches!(refuse(&Leaving { image: &forged, ..whole }, Kind::Ipv4.kernel_socket()), Refusal::Contradiction));
    forged.state = State::FinWait2;
    assert!(matches!(refuse(&Leaving { image: &forged, ..whole }, Kind::Ipv4.kernel_socket()), Refusal::Contradiction));
    let mut forged = image.clone();
    forged.state = State::FinWait2;
    let unqueued = Leaving { image: &forged, unqueued: b"more", ..whole };
    assert!(matches!(refuse(&unqueued, Kind::Ipv4.kernel_socket()), Refusal::Contradiction));
    let mut forged = image.clone();
    forged.terms.send_scale = 15;
    assert!(matches!(refuse(&Leaving { image: &forged, ..whole }, Kind::Ipv4.kernel_socket()), Refusal::System(_)));
    // The kernel has such a connection.
    let first = prepare(&whole, Kind::Ipv4.kernel_socket(), Some(&world.injector)).expect("it can leave");
    assert!(matches!(refuse(&whole, Kind::Ipv4.kernel_socket()), Refusal::InUse));
    world.steer(&image);
    let mut stream = TcpStream::from(first.go().expect("memory enough"));
    world.write("to the peer", &mut stream, &pattern(1, 5_000));
    world.expect("from the kernel", &mut peer, &pattern(1, 5_000));
    assert!(matches!(refuse(&whole, stream.into()), Refusal::Socket));
}

/// Urgent data of either direction keeps the connection in the stack until it is read and acknowledged.
#[test]
fn urgent_data_stays() {
    in_fresh_namespace("handover::tests::stays::namespace_urgent");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_urgent() {
    let mut world = World::new(Kind::Ipv4);
    let (id, mut peer) = warmed(&mut world);
    let options = TcpOptions::default();
    let refuses = |world: &mut World, id| {
        let image = world.export(id);
        let refusal = prepare(&leaving(&image, &options), Kind::Ipv4.kernel_socket(), Some(&world.injector)).err();
        let id = world.stack.import(clock::now(), &image, 7).expect("it was exported here");
        (id, matches!(refusal, Some(Refusal::Urgent)))
    };
    rustix::net::send(&peer, b"abc", rustix::net::SendFlags::OOB).expect("connected");
    world.until("urgent data", |world| world.stack.unread(id) == 3);
    let (id, is_refused) = refuses(&mut world, id);
    assert!(is_refused, "unread");
    assert_eq!(world.take(id, 3), b"abc");
    let (id, is_refused) = refuses(&mut world, id);
    assert!(is_refused, "delivered and not read");
    world.stack.consumed(id, 3);
    world.loses = true;
    world.stack.mark_urgent(id, 1);
    world.send(id, b"d");
    let (id, is_refused) = refuses(&mut world, id);
    assert!(is_refused, "not acknowledged");
    world.loses = false;
    world.until("its acknowledgment", |world| world.stack.send_queued(id) == 0);
    let image = world.export(id);
    let mut stream = world.hand_over(&leaving(&image, &options), Kind::Ipv4.kernel_socket());
    world.write("to the peer", &mut stream, b"e");
    world.until("the last byte", |_| matches!(peer.read(&mut [0; 4]), Ok(1)));
}

/// Where the kernel can be shown no segment, an established connection goes without a round trip, and one with the peer's FIN stays.
#[test]
fn without_injection_the_peers_fin_stays() {
    in_fresh_namespace("handover::tests::stays::namespace_no_injection");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_no_injection() {
    let options = TcpOptions::default();
    for has_right in [false, true] {
        let mut world = World::new(Kind::Ipv4);
        let (id, mut peer) = warmed(&mut world);
        let (second, ended) = warmed(&mut world);
        ended.shutdown(std::net::Shutdown::Write).expect("connected");
        world.until("CLOSE-WAIT", |world| world.state(second) == State::CloseWait);
        if has_right {
            // A firewall that takes no such packets.
            shell("ip link set lo down");
        }
        let injector = Some(&world.injector).filter(|_| has_right);
        let image = world.stack.export(clock::now(), second).expect("it can leave");
        let refusal = prepare(&leaving(&image, &options), Kind::Ipv4.kernel_socket(), injector).expect_err("it stays");
        assert!(matches!(refusal, Refusal::Injection));
        let image = world.stack.export(clock::now(), id).expect("it can leave");
        let prepared = prepare(&leaving(&image, &options), Kind::Ipv4.kernel_socket(), injector).expect("it can leave");
        assert_eq!(repair::info(prepared.socket()).expect("of TCP").round_trip_us, 0);
        world.steer(&image);
        let mut stream = TcpStream::from(prepared.go().expect("memory enough"));
        world.write("to the peer", &mut stream, &pattern(1, 90_000));
        world.expect("from the kernel", &mut peer, &pattern(1, 90_000));
    }
}

/// The peer resets the connection after the flow is the kernel's and before it goes on: the program learns it.
#[test]
fn a_reset_in_between_is_the_programs_to_see() {
    in_fresh_namespace("handover::tests::stays::namespace_reset");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_reset() {
    let mut world = World::new(Kind::Ipv4);
    let (id, peer) = warmed(&mut world);
    let image = world.export(id);
    let options = TcpOptions::default();
    let leaving = Leaving { unqueued: b"never sent", shuts: true, ..leaving(&image, &options) };
    let prepared = prepare(&leaving, Kind::Ipv4.kernel_socket(), Some(&world.injector)).expect("it can leave");
    world.steer(&image);
    sockopt::set_socket_linger(&peer, Some(std::time::Duration::ZERO)).expect("it is a socket");
    drop(peer);
    world.until("the reset", |_| repair::info(prepared.socket()).is_ok_and(|info| info.state == State::Closed.linux()));
    let mut stream = TcpStream::from(prepared.go().expect("there is nothing to do"));
    assert_eq!(stream.read(&mut [0; 8]).expect_err("reset").kind(), io::ErrorKind::ConnectionReset);
    assert!(stream.write(b"x").is_err());
}

/// The program has the socket too: what it does to it while the connection comes is noticed, and it gets no right from repair mode.
#[test]
fn a_program_that_uses_the_socket_meanwhile_gets_nothing() {
    in_fresh_namespace("handover::tests::stays::namespace_hostile");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_hostile() {
    for connects in [false, true] {
        let mut world = World::new(Kind::Ipv4);
        let (id, _peer) = warmed(&mut world);
        let image = world.export(id);
        let options = TcpOptions::default();
        let socket = Kind::Ipv4.kernel_socket();
        sockopt::set_socket_reuseaddr(&socket, false).expect("it is a socket");
        let ours = socket.try_clone().expect("a descriptor is left");
        let prepared = prepare(&leaving(&image, &options), ours, Some(&world.injector)).expect("it can leave");
        // Linux says 2 while any port may be bound, which is true too.
        assert_eq!(sockopt::socket_reuseaddr(&socket), Ok(false));
        world.steer(&image);
        connect_unspec(&socket).expect("it may");
        if connects {
            rustix::net::connect(&socket, &SocketAddr::from(([10, 7, 0, 1], 22))).expect("in repair mode it may");
            let error = prepared.go().expect_err("it is another connection");
            assert!(error.to_string().contains("something else"), "{error}");
        } else {
            prepared.go().expect("there is nothing to do");
        }
        assert_eq!(repair::info(socket.as_fd()).expect("of TCP").state, State::Closed.linux());
        repair::set_windows(socket.as_fd(), repair::Windows::default()).expect_err("it is out of repair mode");
    }
}

/// A program that binds and listens at every instant gets neither another's port nor a socket in repair mode.
#[test]
fn a_program_that_races_gets_no_port() {
    in_fresh_namespace("handover::tests::stays::namespace_race");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_race() {
    let mut world = World::new(Kind::Ipv4);
    let (id, _peer) = warmed(&mut world);
    let image = world.export(id);
    let options = TcpOptions::default();
    let victim = SocketAddr::from(([10, 7, 0, 2], 7_070));
    let _listener = std::net::TcpListener::bind(victim).expect("the port is free");
    for _ in 0..100 {
        let socket = Kind::Ipv4.kernel_socket();
        let ours = socket.try_clone().expect("a descriptor is left");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if bind(&socket, &victim).is_ok() {
                        rustix::net::listen(&socket, 1).ok();
                    }
                }
            });
            drop(prepare(&leaving(&image, &options), ours, Some(&world.injector)));
            is_over.store(true, Ordering::Relaxed);
        });
        repair::set_windows(socket.as_fd(), repair::Windows::default()).expect_err("it is out of repair mode");
        rustix::net::listen(&socket, 1).ok();
        let has_port = SocketAddr::try_from(rustix::net::getsockname(&socket).expect("a socket")).expect("bound") == victim;
        let listens = repair::info(socket.as_fd()).expect("of TCP").state == State::Listen.linux();
        assert!(!(has_port && listens), "the port is another's");
    }
}
