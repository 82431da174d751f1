//! Connections with a kernel's TCP over a wire that leave a stack for a kernel socket while they work: nothing is lost, and nothing reset.

mod adopts;
mod stays;
mod waits;
mod world;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use ringway_engine::clock;
use ringway_stack::{SocketId, SocketTimer};

use super::*;
use crate::netlink::tests::in_fresh_namespace;
use world::{Kind, World, counted, pattern, shell};

const KINDS: [Kind; 3] = [Kind::Ipv4, Kind::Ipv6, Kind::Mapped];

/// A connection over which 3,000 bytes have gone in both directions.
fn warmed(world: &mut World) -> (SocketId, TcpStream) {
    let (id, mut peer) = world.accepted(TcpOptions::default());
    world.send(id, &pattern(8, 3_000));
    world.expect("the stack's first bytes", &mut peer, &pattern(8, 3_000));
    peer.write_all(&pattern(9, 3_000)).expect("room");
    world.until("the peer's first bytes", |world| world.stack.unread(id) == 3_000);
    assert_eq!(world.take(id, 3_000), pattern(9, 3_000));
    world.stack.consumed(id, 3_000);
    world.until("their acknowledgment", |world| world.stack.send_queued(id) == 0);
    (id, peer)
}

fn leaving<'a>(image: &'a ConnectionImage, options: &'a TcpOptions) -> Leaving<'a> {
    Leaving { image, options, delivered: &[], unqueued: &[], shuts: false }
}

fn state_of(stream: &TcpStream) -> u8 {
    repair::info(stream.as_fd()).expect("it is a socket of TCP").state
}

#[test]
fn an_idle_connection_goes_on() {
    in_fresh_namespace("handover::tests::namespace_idle");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_idle() {
    for kind in KINDS {
        let mut world = World::new(kind);
        let (id, mut peer) = warmed(&mut world);
        let (image, probes) = (world.export(id), counted("netstat", "TCPWinProbe"));
        let options = TcpOptions::default();
        let mut stream = world.hand_over(&leaving(&image, &options), kind.kernel_socket());
        assert_eq!(counted("netstat", "TCPWinProbe"), probes + 1, "the peer is asked what it has got");
        assert_eq!(stream.peer_addr().expect("connected").port(), peer.local_addr().expect("connected").port());
        let info = repair::info(stream.as_fd()).expect("it is a socket of TCP");
        assert!(info.round_trip_us > 0, "it knows the round trip: {info:?}");
        assert_eq!(info.agreed.mss, image.terms.mss, "its segments are as large");
        world.write("to the peer", &mut stream, &pattern(1, 500_000));
        world.expect("from the program", &mut peer, &pattern(1, 500_000));
        world.write("to the program", &mut peer, &pattern(2, 500_000));
        world.expect("from the peer", &mut stream, &pattern(2, 500_000));
        drop(stream);
        world.expect_end("the end", &mut peer);
    }
}

/// Unread, delivered, lost in flight, never sent, not even queued: everything arrives, and what the peer sends meanwhile too.
#[test]
fn every_queue_goes_along() {
    in_fresh_namespace("handover::tests::namespace_queues");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_queues() {
    for kind in KINDS {
        let mut world = World::new(kind);
        let (id, mut peer) = warmed(&mut world);
        world.write("to the stack", &mut peer, &pattern(2, 100_000));
        world.until("unread bytes", |world| world.stack.unread(id) == 100_000);
        let delivered = world.take(id, 30_000);
        // The first of these arrive and their acknowledgments do not; the next ones are lost; the rest is not sent.
        world.send(id, &pattern(1, 20_000));
        world.loses = true;
        world.send(id, &pattern(1, 220_000)[20_000..]);
        let image = world.export(id);
        let flight = image.sending.nxt.wrapping_sub(image.sending.una);
        let queued: usize = image.sending.extents.iter().map(|extent| extent.data.len()).sum();
        assert!(flight > 0 && (flight as usize) < queued, "{flight} of {queued} bytes are sent");
        world.loses = false;
        peer.write_all(&pattern(2, 120_000)[100_000..]).expect("room");
        world.turn();
        let options = TcpOptions::default();
        let unqueued = &pattern(1, 300_000)[220_000..];
        let leaving = Leaving { delivered: &delivered, unqueued, ..leaving(&image, &options) };
        let mut stream = world.hand_over(&leaving, kind.kernel_socket());
        world.expect("from the program", &mut peer, &pattern(1, 300_000));
        world.expect("from the peer", &mut stream, &pattern(2, 120_000));
        world.write("to the peer", &mut stream, &pattern(3, 300_000));
        world.expect("more from the program", &mut peer, &pattern(3, 300_000));
        world.write("to the program", &mut peer, &pattern(4, 300_000));
        world.expect("more from the peer", &mut stream, &pattern(4, 300_000));
    }
}

/// Our FIN: sent and lost, acknowledged, waiting behind data, wanted by the program alone. The peer reads all, then the end.
#[test]
fn our_fin_goes_along() {
    in_fresh_namespace("handover::tests::namespace_our_fin");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_our_fin() {
    for (case, kind) in (0..4).flat_map(|case| KINDS.map(|kind| (case, kind))) {
        let mut world = World::new(kind);
        let (id, mut peer) = warmed(&mut world);
        world.send(id, &pattern(1, 5_000));
        match case {
            0 => {
                world.loses = true;
                world.stack.shutdown_write(clock::now(), id);
                world.turn();
            }
            1 => {
                world.stack.shutdown_write(clock::now(), id);
                world.until("FIN-WAIT-2", |world| world.state(id) == State::FinWait2);
            }
            2 => {
                world.loses = true;
                world.send(id, &pattern(1, 205_000)[5_000..]);
                world.stack.shutdown_write(clock::now(), id);
            }
            _ => {}
        }
        let image = world.export(id);
        world.loses = false;
        let expected_state = [State::FinWait1, State::FinWait2, State::FinWait1, State::Established][case];
        assert_eq!(image.state, expected_state);
        let options = TcpOptions::default();
        let leaving = Leaving { shuts: case == 3, ..leaving(&image, &options) };
        let mut stream = world.hand_over(&leaving, kind.kernel_socket());
        let count = if case == 2 { 205_000 } else { 5_000 };
        world.expect("from the program", &mut peer, &pattern(1, count));
        world.expect_end("the program's end", &mut peer);
        world.until("the acknowledgment of our FIN", |_| state_of(&stream) == State::FinWait2.linux());
        world.write("to the program", &mut peer, &pattern(2, 200_000));
        world.expect("from the peer", &mut stream, &pattern(2, 200_000));
        drop(peer);
        world.expect_end("the peer's end", &mut stream);
        assert_eq!(state_of(&stream), State::Closed.linux(), "TIME-WAIT is not the socket's");
    }
}

/// The peer's FIN, before ours and after it; in each the program reads all, then the end, and the peer has its own.
#[test]
fn the_peers_fin_goes_along() {
    in_fresh_namespace("handover::tests::namespace_peers_fin");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_peers_fin() {
    // With bytes in front of our FIN: they are sent, or most of them and the FIN wait.
    let cases = [(State::CloseWait, 0), (State::LastAck, 2_000), (State::LastAck, 200_000), (State::Closing, 0)];
    for ((state, bytes), kind) in cases.into_iter().flat_map(|case| KINDS.map(|kind| (case, kind))) {
        let mut world = World::new(kind);
        let (id, mut peer) = warmed(&mut world);
        let ends = |world: &mut World, peer: &mut TcpStream| {
            peer.write_all(&pattern(2, 7_000)).expect("room");
            peer.shutdown(std::net::Shutdown::Write).expect("connected");
            world.until("the peer's FIN", |world| {
                matches!(world.state(id), State::CloseWait | State::Closing) && world.stack.unread(id) == 7_000
            });
        };
        if state == State::Closing {
            world.loses = true;
            world.stack.shutdown_write(clock::now(), id);
            world.turn();
            ends(&mut world, &mut peer);
        } else {
            ends(&mut world, &mut peer);
            world.loses = true;
            if state == State::LastAck {
                world.send(id, &pattern(1, bytes));
                world.stack.shutdown_write(clock::now(), id);
                world.turn();
            }
        }
        let delivered = world.take(id, 1_000);
        let image = world.export(id);
        world.loses = false;
        assert_eq!(image.state, state);
        let options = TcpOptions::default();
        let leaving = Leaving { delivered: &delivered, ..leaving(&image, &options) };
        let mut stream = world.hand_over(&leaving, kind.kernel_socket());
        world.expect("from the peer", &mut stream, &pattern(2, 7_000));
        world.expect_end("the peer's end", &mut stream);
        match state {
            State::CloseWait => {
                assert_eq!(state_of(&stream), State::CloseWait.linux());
                world.write("to the peer", &mut stream, &pattern(1, 100_000));
                drop(stream);
                world.expect("from the program", &mut peer, &pattern(1, 100_000));
            }
            State::LastAck => world.expect("from the program", &mut peer, &pattern(1, bytes)),
            _ => {}
        }
        world.expect_end("the program's end", &mut peer);
    }
}

/// Terms of every kind: without timestamps, SACK and scales; a connection that this end has opened from a port that the program's
/// socket is bound to.
#[test]
fn connections_of_other_terms_go_on() {
    in_fresh_namespace("handover::tests::namespace_terms");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_terms() {
    for kind in KINDS {
        let mut world = World::new(kind);
        let plain = "sysctl -qw net.ipv4.tcp_timestamps=0 net.ipv4.tcp_sack=0 net.ipv4.tcp_window_scaling=0";
        world.there(|| shell(plain));
        let (id, mut peer) = world.opened();
        world.send(id, &pattern(1, 20_000));
        peer.write_all(&pattern(2, 30_000)).expect("room");
        world.until("unread bytes", |world| world.stack.unread(id) == 30_000);
        let image = world.export(id);
        let terms = &image.terms;
        assert_eq!((terms.timestamps, terms.sack, terms.send_scale, terms.receive_scale), (None, false, 0, 0));
        let socket = kind.kernel_socket();
        let any: std::net::IpAddr = if kind == Kind::Ipv6 { [0; 16].into() } else { [0; 4].into() };
        // Bound by the program, or the port is reserved by a socket of the service.
        let reserved = Kind::Ipv4.kernel_socket();
        let (bound, any) = if kind == Kind::Ipv6 { (&socket, any) } else { (&reserved, any) };
        rustix::net::bind(bound, &SocketAddr::new(any, world::PORT)).expect("the port is free");
        let options = TcpOptions::default();
        let mut stream = world.hand_over(&leaving(&image, &options), socket);
        world.expect("from the peer", &mut stream, &pattern(2, 30_000));
        world.expect("from the program", &mut peer, &pattern(1, 20_000));
        world.write("to the peer", &mut stream, &pattern(3, 300_000));
        world.expect("more from the program", &mut peer, &pattern(3, 300_000));
        world.write("to the program", &mut peer, &pattern(4, 300_000));
        world.expect("more from the peer", &mut stream, &pattern(4, 300_000));
        // The port is free at once.
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("it is a socket");
    }
}

/// The peer's window is shut, and the segment that opens it is lost between the stack and the kernel.
#[test]
fn a_window_that_opens_meanwhile_is_found_open() {
    in_fresh_namespace("handover::tests::namespace_window");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_window() {
    for kind in KINDS {
        let mut world = World::new(kind);
        let (id, mut peer) = warmed(&mut world);
        world.send(id, &pattern(1, 200_000));
        world.until("a shut window", |world| {
            let timer = world.stack.summary(id).and_then(|summary| summary.timer);
            timer.is_some_and(|(timer, _)| timer == SocketTimer::Persist)
        });
        let image = world.export(id);
        let mut first = Vec::new();
        world::read_some(&mut peer, &mut first);
        world.turn();
        let options = TcpOptions::default();
        let mut stream = world.hand_over(&leaving(&image, &options), kind.kernel_socket());
        world.expect("the rest", &mut peer, &pattern(1, 200_000)[first.len()..]);
        world.write("to the program", &mut peer, &pattern(2, 5_000));
        world.expect("from the peer", &mut stream, &pattern(2, 5_000));
    }
}

/// Data behind a gap, which the peer has been told of, is dropped; the peer sends it again (RFC 2018 §8).
#[test]
fn data_behind_a_gap_is_sent_again() {
    in_fresh_namespace("handover::tests::namespace_gap");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_gap() {
    for kind in KINDS {
        let mut world = World::new(kind);
        let (id, mut peer) = warmed(&mut world);
        peer.set_nodelay(true).expect("connected");
        world.misses = 1;
        peer.write_all(&pattern(2, 3_000)[..1_000]).expect("room");
        world.until("a loss", |world| world.misses == 0);
        peer.write_all(&pattern(2, 3_000)[1_000..2_000]).expect("room");
        world.turn();
        peer.write_all(&pattern(2, 3_000)[2_000..]).expect("room");
        world.turn();
        let image = world.export(id);
        assert!(!image.receiving.gaps.is_empty(), "something is behind the gap");
        let options = TcpOptions::default();
        let mut stream = world.hand_over(&leaving(&image, &options), kind.kernel_socket());
        world.expect("from the peer", &mut stream, &pattern(2, 3_000));
        world.write("to the peer", &mut stream, &pattern(3, 100_000));
        world.expect("from the program", &mut peer, &pattern(3, 100_000));
    }
}

/// The program reads the values that it has set from the kernel socket, and those that it has not set are the kernel's.
#[test]
fn options_go_along() {
    in_fresh_namespace("handover::tests::namespace_options");
}

#[test]
#[ignore = "runs in a namespace of its own"]
fn namespace_options() {
    let seconds = ringway_shm::Duration::from_secs;
    let set = TcpOptions {
        no_delay: true,
        keepalive: true,
        keepalive_idle: seconds(77),
        keepalive_interval: seconds(7),
        keepalive_probes: 5,
        user_timeout: seconds(9),
        send_buffer_bytes: 50_000,
        receive_buffer_bytes: 60_000,
        congestion_control: ringway_stack::CongestionControl::NewReno,
        pacing_rate_max: 1_000_000,
        type_of_service: 0x20,
        time_to_live: 33,
        not_sent_low_water: 4_000,
        syn_retries: 3,
        fin_timeout: Some(seconds(11)),
        path_mtu_discovery: ringway_stack::PathMtuDiscovery::Do,
        ..TcpOptions::default()
    };
    for (options, kind) in [set, TcpOptions::default()].into_iter().flat_map(|options| KINDS.map(|kind| (options, kind))) {
        let mut world = World::new(kind);
        let (id, _peer) = world.accepted(options);
        if options.keepalive {
            world.stack.shutdown_read(clock::now(), id);
        }
        let image = world.export(id);
        let mut stream = world.hand_over(&leaving(&image, &options), kind.kernel_socket());
        let is_set = options.keepalive;
        let number = |option| repair::number(stream.as_fd(), option).expect("Linux has it");
        let flags = (sockopt::tcp_nodelay(&stream), sockopt::socket_keepalive(&stream));
        assert_eq!(flags, (Ok(is_set), Ok(is_set)));
        assert_eq!(number(Number::BufferLocks), if is_set { 3 } else { 0 });
        assert_eq!(number(Number::NotSentLowWater), if is_set { 4_000 } else { 0 });
        assert_eq!(sockopt::tcp_congestion(&stream).expect("Linux has it"), if is_set { "reno" } else { "cubic" });
        let ttl = if kind == Kind::Ipv6 {
            u32::from(sockopt::ipv6_unicast_hops(&stream).expect("Linux has it"))
        } else {
            sockopt::ip_ttl(&stream).expect("Linux has it")
        };
        assert_eq!(ttl, if is_set { 33 } else { 64 });
        if is_set {
            let idle = (sockopt::tcp_keepidle(&stream), sockopt::tcp_keepintvl(&stream), sockopt::tcp_keepcnt(&stream));
            assert_eq!(idle, (Ok(Duration::from_secs(77)), Ok(Duration::from_secs(7)), Ok(5)));
            assert_eq!(sockopt::tcp_user_timeout(&stream), Ok(9_000));
            assert_eq!((number(Number::SynCount), number(Number::FinTimeout)), (3, 11));
            let sizes = (sockopt::socket_send_buffer_size(&stream), sockopt::socket_recv_buffer_size(&stream));
            assert_eq!(sizes, (Ok(100_000), Ok(120_000)), "twice what was set, as on the kernel");
            let discovery = if kind == Kind::Ipv6 { Number::Ipv6MtuDiscovery } else { Number::Ipv4MtuDiscovery };
            assert_eq!(number(discovery), 2);
            assert_eq!(stream.read(&mut [0; 8]).expect("reading has ended"), 0);
        }
    }
}
