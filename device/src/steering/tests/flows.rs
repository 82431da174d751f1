//! Flows of an owned port that are the kernel's: the kernel answers them, the port's other flows are the device's.
use super::*;
use crate::xdp::{Xdp, XdpOptions};

/// The kernel's, of the client's ports; `STAYS` is a flow of the same port that is the device's.
const LEFT: u16 = 5555;
const STAYS: u16 = 5556;
const CLIENT_V6: &str = "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:a00:1";

fn flow(ipv6: bool, from: u16) -> Flow {
    match ipv6 {
        false => Flow { local: (SERVER, OWNED), remote: ([10, 0, 0, 1].into(), from) },
        true => Flow { local: (SERVER_V6.into(), OWNED), remote: (CLIENT_V6.parse().expect("it is one"), from) },
    }
}

impl Shared {
    fn syn_from(&self, from: u16, ipv6: bool) -> Vec<u8> {
        Packet { ports: (from, OWNED), ..self.syn(OWNED, ipv6) }.bytes()
    }

    /// Sends a segment of the flow that is left and of the one that stays, and of a port of the kernel; returns those that reached the
    /// device, by the client's port, and whether the kernel answered the first.
    fn divide(&mut self, ipv6: bool) -> (Vec<u16>, bool) {
        let (left, stays) = (self.syn_from(LEFT, ipv6), self.syn_from(STAYS, ipv6));
        let last = self.syn(KERNELS, ipv6).bytes();
        [left, stays, last].iter().for_each(|bytes| self.send(bytes));
        let (mut burst, mut answered) = (Burst::default(), false);
        loop {
            receive_some(&mut self.client, &mut burst);
            let answers: Vec<_> = arrived(&mut burst).iter().filter_map(tcp_ports).collect();
            answered |= answers.contains(&(OWNED, LEFT));
            assert!(!answers.contains(&(OWNED, STAYS)), "the kernel does not see it");
            if answers.contains(&(KERNELS, LEFT)) {
                break;
            }
        }
        self.server.receive(Instant::ZERO, &mut burst).expect("the link is up");
        let got = arrived(&mut burst).iter().filter_map(|packet| tcp_ports(packet).map(|ports| ports.0)).collect();
        (got, answered)
    }
}

#[test]
fn a_flow_that_is_left_is_the_kernels_and_its_ports_other_flows_are_not() {
    in_namespace(|| {
        let mut shared = shared();
        let index = Interface::open("server").expect("made above").index;
        for (ipv6, by_filter) in [(false, false), (true, false), (false, true), (true, true)] {
            shared.hidden = None;
            let hide = if by_filter { Steering::hide_by_filter } else { Steering::hide_from_kernel };
            shared.hidden = Some(hide(&shared.steering, index).expect("root"));
            let flow = flow(ipv6, LEFT);
            assert_eq!(shared.divide(ipv6), (vec![LEFT, STAYS], false));
            for _ in 0..2 {
                shared.filter.leave_flow(&flow).expect("room");
                assert_eq!(shared.divide(ipv6), (vec![STAYS], true), "twice is as once");
            }
            // The port may lose its owner and get another one meanwhile.
            let ip = flow.local.0;
            shared.filter.release(Protocol::Tcp, ip, OWNED).expect("it was owned");
            shared.filter.own(Protocol::Tcp, ip, OWNED, 1).expect("room");
            assert_eq!(shared.divide(ipv6), (vec![STAYS], true));
            for _ in 0..2 {
                shared.filter.retake_flow(&flow).expect("it was left");
                assert_eq!(shared.divide(ipv6), (vec![LEFT, STAYS], false), "twice is as once");
            }
        }
    });
}

#[test]
fn a_port_that_is_left_keeps_its_connections_and_gets_no_new_ones() {
    in_namespace(|| {
        let mut shared = shared();
        for ipv6 in [false, true] {
            let Flow { local: (ip, port), remote } = flow(ipv6, STAYS);
            let with = |shared: &mut Shared, stay: &[(IpAddr, u16)]| shared.filter.leave_port(ip, port, stay).expect("room");
            with(&mut shared, &[remote]);
            assert_eq!(shared.divide(ipv6), (vec![STAYS], true), "the other flow is new");
            // A flow of the kernel's from before stays the kernel's, also when the port is left with it.
            shared.filter.leave_flow(&flow(ipv6, LEFT)).expect("room");
            with(&mut shared, &[remote, flow(ipv6, LEFT).remote]);
            assert_eq!(shared.divide(ipv6), (vec![STAYS], true));
            shared.filter.retake_flow(&flow(ipv6, LEFT)).expect("it was left");
            assert_eq!(shared.divide(ipv6), (vec![LEFT, STAYS], false), "it came back to a port that is left");
            shared.filter.leave_flow(&flow(ipv6, LEFT)).expect("room");
            assert_eq!(shared.divide(ipv6), (vec![STAYS], true));
            // A port that has lost its owner is as it was at first.
            shared.filter.release(Protocol::Tcp, ip, OWNED).expect("it was owned");
            shared.filter.own(Protocol::Tcp, ip, OWNED, 1).expect("room");
            assert_eq!(shared.divide(ipv6), (vec![STAYS], true), "but for the flow of the kernel's");
            shared.filter.retake_flow(&flow(ipv6, LEFT)).expect("it was left");
            assert_eq!(shared.divide(ipv6), (vec![LEFT, STAYS], false));
        }
    });
}

#[test]
fn a_port_that_has_too_many_connections_is_not_left() {
    in_namespace(|| {
        let steering = Steering::with_flows(2, 2).expect("root may use BPF");
        let filter = steering.port_filter().expect("a descriptor is left");
        filter.own(Protocol::Tcp, SERVER, OWNED, 1).expect("room");
        let word = || sys::look_up(steering.table.as_fd(), &port_key(Protocol::Tcp, SERVER, OWNED)).expect("it is there");
        let ends: Vec<_> = (1..4).map(|from| flow(false, from).remote).collect();
        assert_eq!(filter.leave_port(SERVER, OWNED, &ends).expect_err("full").raw_os_error(), Some(libc::E2BIG));
        assert_eq!(word(), Some(1));
        filter.leave_port(SERVER, OWNED, &ends[..2]).expect("the others were taken out");
        assert_eq!(word(), Some(1 | kernel_flows::FLOWS | kernel_flows::LEFT));
    });
}

/// A shut port, of no worker, hides all but the flows that are the kernel's.
#[test]
fn the_kernels_flows_of_a_shut_port_stay_the_kernels() {
    in_namespace(|| {
        let mut shared = shared();
        shared.filter.leave_flow(&flow(false, LEFT)).expect("room");
        shared.filter.own(Protocol::Tcp, SERVER, OWNED, 0).expect("room");
        assert_eq!(shared.divide(false), (vec![], true));
    });
}

#[test]
fn a_flow_of_a_common_port_that_is_left_reaches_no_worker() {
    in_namespace(|| {
        let mut shared = shared();
        for ipv6 in [false, true] {
            let ip = flow(ipv6, LEFT).local.0;
            shared.filter.own(Protocol::Tcp, ip, OWNED, 0b11).expect("room");
            let division = Division::new(2, 1).expect("root may use BPF");
            let mut workers = shared.workers(&division);
            let worker = Division::first_owner(flow(ipv6, LEFT).group(), 2);
            // Also where its worker keeps it.
            division.keep(&flow(ipv6, LEFT), worker).expect("room for one");
            division.assign(flow(ipv6, LEFT).group(), 1 - worker, Flows::Scattered).expect("the table is there");
            let (left, stays) = (shared.syn_from(LEFT, ipv6), shared.syn_from(STAYS, ipv6));
            shared.send(&left);
            assert_eq!(received(&mut workers[worker], 1), std::slice::from_ref(&left));
            shared.filter.leave_flow(&flow(ipv6, LEFT)).expect("room");
            shared.send(&left);
            assert_eq!(shared.kernel_answer(OWNED) & RST, RST);
            shared.send(&stays);
            let other = Division::first_owner(flow(ipv6, STAYS).group(), 2);
            let same = flow(ipv6, STAYS).group() == flow(ipv6, LEFT).group();
            assert_eq!(received(&mut workers[if same { 1 - worker } else { other }], 1), [stays], "its worker gets it alone");
        }
    });
}

#[test]
fn xdp_passes_the_kernels_flows_and_errors_about_them() {
    for (mode, ipv6) in [(XdpMode::Native, false), (XdpMode::Generic, false), (XdpMode::Native, true), (XdpMode::Generic, true)] {
        in_namespace(move || {
            let mut shared = shared();
            shared.hidden = None;
            let xdp_arena = arena();
            let options = XdpOptions { mode: Some(mode), ..XdpOptions::default() };
            let mut xdp = Xdp::open("server", Redirect::Owned(&shared.steering), options, &xdp_arena).expect("veth has both");
            shared.filter.leave_flow(&flow(ipv6, LEFT)).expect("room");
            let (left, stays) = (shared.syn_from(LEFT, ipv6), shared.syn_from(STAYS, ipv6));
            let errors = [LEFT, STAYS].map(|from| unreachable_about(&left, &shared, from, ipv6));
            for bytes in [&left, &stays, &errors[0], &errors[1]] {
                shared.send(bytes);
            }
            assert_eq!(shared.kernel_answer(OWNED) & RST, RST);
            let last = shared.syn(KERNELS, ipv6).bytes();
            shared.send(&last);
            assert_eq!(shared.kernel_answer(KERNELS) & RST, RST);
            let mut burst = Burst::default();
            while xdp.receive(Instant::ZERO, &mut burst).expect("the link is up") > 0 {}
            let got: Vec<Vec<u8>> = arrived(&mut burst).into_iter().map(|packet| packet.bytes).collect();
            assert_eq!(got, [stays.clone(), errors[1].clone()], "{mode:?}");
            // A flow that is taken back comes with its errors again.
            shared.filter.retake_flow(&flow(ipv6, LEFT)).expect("it was left");
            for bytes in [&left, &errors[0], &last] {
                shared.send(bytes);
            }
            assert_eq!(shared.kernel_answer(KERNELS) & RST, RST);
            while xdp.receive(Instant::ZERO, &mut burst).expect("the link is up") > 0 {}
            let got: Vec<Vec<u8>> = arrived(&mut burst).into_iter().map(|packet| packet.bytes).collect();
            assert_eq!(got, [left.clone(), errors[0].clone()], "{mode:?}");
        });
    }
}

/// The kernel refuses each SYN that reaches it, so its answers count them.
#[test]
fn the_kernel_gets_no_more_of_owned_ports_than_it_may() {
    const SENT: u32 = 60;
    const MOST: u32 = 3;
    for (by_xdp, ipv6) in [(false, false), (false, true), (true, false), (true, true)] {
        in_namespace(move || {
            let mut shared = shared();
            let xdp_arena = arena();
            let _xdp = by_xdp.then(|| {
                shared.hidden = None;
                let options = XdpOptions { mode: Some(XdpMode::Generic), ..XdpOptions::default() };
                Xdp::open("server", Redirect::Owned(&shared.steering), options, &xdp_arena).expect("veth has it")
            });
            let exceptions = shared.steering.exception_path();
            shared.filter.leave_flow(&flow(ipv6, LEFT)).expect("room");
            let (left, last) = (shared.syn_from(LEFT, ipv6), shared.syn(KERNELS, ipv6).bytes());
            let answers = |shared: &mut Shared| {
                (0..SENT).for_each(|_| shared.send(&left));
                shared.send(&last);
                let (mut burst, mut answers) = (Burst::default(), 0);
                loop {
                    receive_some(&mut shared.client, &mut burst);
                    let ports: Vec<_> = arrived(&mut burst).iter().filter_map(tcp_ports).collect();
                    answers += ports.iter().filter(|ports| **ports == (OWNED, LEFT)).count() as u32;
                    if ports.contains(&(KERNELS, LEFT)) {
                        return answers;
                    }
                }
            };
            assert_eq!((answers(&mut shared), exceptions.dropped().expect("it is there")), (SENT, 0), "no bound");
            exceptions.set_most(MOST).expect("it is there");
            let passed = answers(&mut shared);
            let dropped = exceptions.dropped().expect("it is there");
            // More than one second may have begun; in none of them fewer pass.
            assert!(passed >= MOST && passed + dropped == SENT && dropped > 0, "{passed} passed, {dropped} dropped");
            exceptions.set_most(0).expect("it is there");
            assert_eq!(answers(&mut shared), SENT);
        });
    }
}

/// An ICMP error that quotes a segment of the server's to the client's port `to`.
fn unreachable_about(example: &[u8], shared: &Shared, to: u16, ipv6: bool) -> Vec<u8> {
    let mut quoted = Packet { ports: (OWNED, to), ..shared.syn(OWNED, ipv6) }.bytes();
    let (addresses, bytes) = if ipv6 { (22, 16) } else { (26, 4) };
    let (source, destination) = quoted[addresses..addresses + 2 * bytes].split_at_mut(bytes);
    source.swap_with_slice(destination);
    match ipv6 {
        false => [&example[..23], &[1], &example[24..34], &[3, 1, 0, 0, 0, 0, 0, 0], &quoted[14..42]].concat(),
        true => [&example[..20], &[58], &example[21..54], &[2, 0, 0, 0, 0, 0, 5, 0], &quoted[14..62]].concat(),
    }
}

#[test]
fn a_full_table_of_flows_says_so_and_the_flow_stays() {
    in_namespace(|| {
        let steering = Steering::with_flows(2, 1).expect("root may use BPF");
        let filter = steering.port_filter().expect("a descriptor is left");
        filter.leave_flow(&flow(false, 1)).expect("room for one");
        assert_eq!(filter.leave_flow(&flow(false, 2)).expect_err("full").raw_os_error(), Some(libc::E2BIG));
        filter.retake_flow(&flow(false, 2)).expect("it was not left");
        filter.retake_flow(&flow(false, 1)).expect("it was left");
        filter.leave_flow(&flow(false, 2)).expect("room again");
    });
}

/// The kernel's connections of a port are the kernel's: all of them, or, where there are too many, none.
#[test]
fn connections_of_the_kernels_are_left_all_or_none() {
    in_namespace(|| {
        ip("link set lo up");
        let local = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        let listener = std::net::TcpListener::bind((local, OWNED)).expect("the port is free");
        let clients = [(); 3].map(|()| std::net::TcpStream::connect((local, OWNED)).expect("it listens"));
        let steering = Steering::with_flows(8, 3).expect("root may use BPF");
        let filter = steering.port_filter().expect("a descriptor is left");
        let word = || sys::look_up(steering.table.as_fd(), &port_key(Protocol::Tcp, local, OWNED)).expect("it is there");
        assert!(!filter.leave_connections(local, OWNED, 2).expect("it answers"));
        assert_eq!(filter.flows().count(), 0);
        // No room for the last one: those before it are taken back.
        let other = flow(false, 1);
        filter.leave_flow(&other).expect("room for one");
        assert_eq!(filter.leave_connections(local, OWNED, 9).expect_err("full").raw_os_error(), Some(libc::E2BIG));
        assert_eq!(filter.flows().count(), 1);
        filter.retake_flow(&other).expect("it was left");
        for _ in 0..2 {
            assert!(filter.leave_connections(local, OWNED, 3).expect("it answers"), "twice is as once");
        }
        assert_eq!((filter.flows().count(), word()), (3, None));
        filter.own(Protocol::Tcp, local, OWNED, 1).expect("room");
        assert_eq!(word(), Some(1 | kernel_flows::FLOWS), "a port that is owned later has them");
        drop((clients, listener));
    });
}

/// Flows without a kernel socket go; one with a socket stays until the socket and its TIME-WAIT are gone.
#[test]
fn a_sweep_takes_back_the_flows_whose_sockets_are_gone() {
    in_namespace(|| {
        ip("link set lo up");
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let listener = std::net::TcpListener::bind((local, 0)).expect("a port is free");
        let port = listener.local_addr().expect("bound").port();
        let client = std::net::TcpStream::connect((local, port)).expect("it listens");
        let from = client.local_addr().expect("connected").port();
        let steering = Steering::new(8).expect("root may use BPF");
        let filter = steering.port_filter().expect("a descriptor is left");
        filter.own(Protocol::Tcp, local, port, 1).expect("room");
        assert_eq!(filter.sweep().expect("nothing is asked"), 0);
        let flow = |from| Flow { local: (local, port), remote: (local, from) };
        // More than one sweep looks at, on both sides of the one that there is.
        for from in (1..1500).chain([from]).chain(u16::MAX - 100..=u16::MAX) {
            filter.leave_flow(&flow(from)).expect("room");
        }
        let word = || sys::look_up(steering.table.as_fd(), &port_key(Protocol::Tcp, local, port)).expect("it is there");
        assert_eq!(word(), Some(1 | kernel_flows::FLOWS));
        assert_eq!(filter.sweep().expect("it answers"), 1601 - 1024);
        assert_eq!(filter.sweep().expect("it answers"), 1);
        assert_eq!(filter.sweep().expect("it answers"), 1, "it goes round");
        // Without a FIN there is no TIME-WAIT.
        rustix::net::sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO)).expect("it is a socket");
        drop(client);
        let (accepted, _) = listener.accept().expect("it was queued");
        drop(accepted);
        assert_eq!(filter.sweep().expect("it answers"), 0);
        assert_eq!(word(), Some(1), "the port has no flow of the kernel's");
    });
}
