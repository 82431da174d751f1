//! Over veth with the kernel behind it: owned packets reach the device and not the kernel, others
//! reach the kernel and not the device, and nothing stays behind.
use super::*;
use crate::Device;
use crate::interface::{Interface, set_up};
use crate::packet::{Packet as PacketDevice, PacketOptions};
use crate::testing::{Arrived, Packet, arena, arrived, in_namespace, ip, receive_some};
use ringway_shm::{Arena, Burst, Flow, Instant};
use std::net::Ipv4Addr;

mod flows;

const OWNED: u16 = 8080;
const KERNELS: u16 = 9090;
const SERVER_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SERVER: IpAddr = IpAddr::V4(SERVER_V4);
/// The address that `Packet` writes for 10.0.0.2 when it writes IPv6; `1` at the end is the client's.
const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0xfdfd, 0xfdfd, 0xfdfd, 0xfdfd, 0xfdfd, 0xfdfd, 0x0a00, 2);
const SYN: u8 = 2;
const RST: u8 = 4;

/// `client` sees everything that leaves the server's interface; `server` shares that interface with the kernel.
struct Shared {
    client: PacketDevice,
    server: PacketDevice,
    arena: Arena,
    macs: [u8; 12],
    filter: PortFilter,
    hidden: Option<Attachment>,
    steering: Steering,
}

fn shared() -> Shared {
    ip("link add client type veth peer name server");
    set_up("client", None, None).expect("it was made above");
    set_up("server", None, Some((SERVER_V4, 24))).expect("it was made above");
    let mac = |name| Interface::open(name).expect("it was made above").mac;
    let macs: [u8; 12] = [mac("server"), mac("client")].concat().try_into().expect("twice six bytes");
    // The kernel must not have to ask for the client's address, which no host would answer.
    let text: Vec<String> = macs[6..].iter().map(|byte| format!("{byte:02x}")).collect();
    ip(&format!("address add {SERVER_V6}/64 dev server nodad"));
    for client in ["10.0.0.1", "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:a00:1"] {
        ip(&format!("neigh replace {client} lladdr {} dev server", text.join(":")));
    }
    let arena = arena();
    let steering = Steering::new(64).expect("root may use BPF");
    let program = steering.socket_filter().expect("the verifier accepts it");
    let hidden = steering.hide_from_kernel(Interface::open("server").expect("made above").index).expect("Linux 6.6");
    let filter = steering.port_filter().expect("a descriptor is left");
    filter.own(Protocol::Tcp, SERVER, OWNED, 1).expect("room");
    filter.own(Protocol::Tcp, SERVER_V6.into(), OWNED, 1).expect("room");
    let options = PacketOptions { ring_slots: 63, ..PacketOptions::default() };
    let client = PacketDevice::open("client", None, options, &arena).expect("made above");
    let server = PacketDevice::open("server", Some(program.as_fd()), options, &arena).expect("made above");
    Shared { client, server, arena, macs, filter, hidden: Some(hidden), steering }
}

impl Shared {
    fn send(&mut self, bytes: &[u8]) {
        let mut burst = Burst::default();
        burst.push(self.arena.alloc_from(bytes).expect("room"));
        self.client.transmit(Instant::ZERO, &mut burst).expect("the link is up");
    }

    fn send_syn(&mut self, port: u16) {
        self.send(&self.syn(port, false).bytes());
    }

    fn syn(&self, port: u16, ipv6: bool) -> Packet<'static> {
        Packet { ports: (5555, port), flags: SYN, payload: b"", macs: self.macs, ipv6, ..Packet::default() }
    }

    /// Waits for the kernel's next answer, which must be from `port`, and returns its TCP flags.
    fn kernel_answer(&mut self, port: u16) -> u8 {
        let mut burst = Burst::default();
        loop {
            receive_some(&mut self.client, &mut burst);
            let mut answers = arrived(&mut burst).into_iter().filter_map(|packet| Some((tcp_ports(&packet)?, packet)));
            if let Some((ports, packet)) = answers.next() {
                assert_eq!(ports, (port, 5555), "the kernel answers what it should not have seen, or not what it should");
                return packet.bytes[tcp_start(&packet.bytes) + 13];
            }
        }
    }

    /// A socket on the server's interface for each of the workers of `division`.
    fn workers(&self, division: &Division) -> Vec<PacketDevice> {
        let open = |worker| {
            let filter = self.steering.socket_filter_of(worker, division).expect("the verifier accepts it");
            let options = PacketOptions { ring_slots: 63, ..PacketOptions::default() };
            PacketDevice::open("server", Some(filter.as_fd()), options, &self.arena).expect("root")
        };
        (0..division.workers()).map(open).collect()
    }

    /// The destination ports of what the device has received.
    fn device_got(&mut self) -> Vec<Option<u16>> {
        let mut burst = Burst::default();
        self.server.receive(Instant::ZERO, &mut burst).expect("the link is up");
        arrived(&mut burst).iter().map(|packet| tcp_ports(packet).map(|ports| ports.1)).collect()
    }
}

/// The next `count` packets that arrive at a worker's socket.
fn received(worker: &mut PacketDevice, count: usize) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    while got.len() < count {
        let mut burst = Burst::default();
        receive_some(worker, &mut burst);
        got.extend(arrived(&mut burst).into_iter().map(|packet| packet.bytes));
    }
    got
}

fn tcp_start(bytes: &[u8]) -> usize {
    if bytes[12..14] == [8, 0] { 34 } else { 54 }
}

/// Ports of a whole TCP segment without IP options or extension headers.
fn tcp_ports(packet: &Arrived) -> Option<(u16, u16)> {
    let bytes = &packet.bytes;
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let at = tcp_start(bytes);
    (bytes.len() >= at + 20 && bytes[if at == 34 { 23 } else { 20 }] == 6).then(|| (port(at), port(at + 2)))
}

#[test]
fn owned_ports_are_ours_and_the_rest_is_the_kernels() {
    in_namespace(|| {
        let mut shared = shared();
        // The kernel has no listener on either port: it would refuse both if it saw them.
        shared.send_syn(OWNED);
        shared.send_syn(KERNELS);
        assert_eq!(shared.kernel_answer(KERNELS) & RST, RST);
        assert_eq!(shared.device_got(), [Some(OWNED)]);
        // What is released is the kernel's again.
        shared.filter.release(Protocol::Tcp, SERVER, OWNED).expect("it was owned");
        shared.filter.release(Protocol::Tcp, SERVER, OWNED).expect("twice does nothing");
        shared.send_syn(OWNED);
        assert_eq!(shared.kernel_answer(OWNED) & RST, RST);
        assert_eq!(shared.device_got(), []);
        // Of no worker.
        shared.filter.own(Protocol::Tcp, SERVER, OWNED, 0).expect("room");
        shared.send_syn(OWNED);
        shared.send_syn(KERNELS);
        assert_eq!(shared.kernel_answer(KERNELS) & RST, RST);
        assert_eq!(shared.device_got(), []);
    });
}

/// On kernels before 6.6, a filter of the traffic control hides as the TCX program does, and no more when its process is dead.
#[test]
fn a_filter_hides_owned_packets_while_its_process_lives() {
    in_namespace(|| {
        let mut shared = shared();
        let index = Interface::open("server").expect("made above").index;
        for dies in [false, true] {
            shared.hidden = Some(shared.steering.hide_by_filter(index).expect("root"));
            shared.send_syn(OWNED);
            shared.send_syn(KERNELS);
            assert_eq!(shared.kernel_answer(KERNELS) & RST, RST, "the first answer there is");
            assert_eq!(shared.device_got(), [Some(OWNED)]);
            match shared.hidden.take().map(|attachment| attachment.hold) {
                Some(Hold::Filter { _filter }) if dies => _filter.abandon(),
                filter => drop(filter),
            }
            shared.send_syn(OWNED);
            assert_eq!(shared.kernel_answer(OWNED) & RST, RST);
            assert_eq!(shared.device_got(), [Some(OWNED)]);
        }
    });
}

#[test]
fn the_kernel_sees_everything_when_the_attachment_is_gone() {
    in_namespace(|| {
        let mut shared = shared();
        shared.hidden = None;
        shared.send_syn(OWNED);
        assert_eq!(shared.kernel_answer(OWNED) & RST, RST);
        assert_eq!(shared.device_got(), [Some(OWNED)], "the filter still copies");
    });
}

#[test]
fn a_kernel_service_on_the_same_address_answers() {
    in_namespace(|| {
        let mut shared = shared();
        let _listener = std::net::TcpListener::bind((SERVER, KERNELS)).expect("the port is free");
        shared.send_syn(KERNELS);
        assert_eq!(shared.kernel_answer(KERNELS), 0x12, "SYN,ACK");
        assert_eq!(shared.device_got(), []);
    });
}

#[test]
fn header_options_fragments_tags_and_other_addresses_are_told_apart() {
    in_namespace(|| {
        let mut shared = shared();
        let plain = Packet { ports: (5555, OWNED), flags: SYN, payload: b"", macs: shared.macs, ..Packet::default() };
        let bytes = plain.bytes();
        let mut options = bytes.clone();
        options[14] = 0x46;
        options.splice(34..34, [1, 1, 1, 1]);
        shared.send(&options);
        let mut later_fragment = bytes.clone();
        later_fragment[20..22].copy_from_slice(&[0, 100]);
        shared.send(&later_fragment);
        let mut tagged = bytes.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        shared.send(&tagged);
        shared.send(&Packet { destination: [10, 0, 0, 3], ..plain }.bytes());
        let short = &bytes[..30];
        shared.send(short);
        let mut unreachable = bytes.clone();
        unreachable[23] = 1;
        unreachable[34] = 3;
        shared.send(&unreachable);
        let mut echo = bytes.clone();
        echo[23] = 1;
        echo[34] = 8;
        shared.send(&echo);
        // The last packet in order shows that the others have passed.
        shared.send_syn(KERNELS);
        shared.kernel_answer(KERNELS);
        let mut burst = Burst::default();
        shared.server.receive(Instant::ZERO, &mut burst).expect("the link is up");
        let got: Vec<Vec<u8>> = arrived(&mut burst).into_iter().map(|packet| packet.bytes).collect();
        assert_eq!(got, [options, later_fragment, unreachable]);
    });
}

#[test]
fn ipv6_ports_fragments_errors_and_other_headers_are_told_apart() {
    in_namespace(|| {
        let mut shared = shared();
        let owned = shared.syn(OWNED, true).bytes();
        // The header that would follow, and the rest of an extension header of eight bytes.
        let behind = |next: u8, header: [u8; 7]| {
            let mut bytes = owned.clone();
            bytes[20] = next;
            bytes[19] += 8;
            bytes.splice(54..54, [&[6], &header[..]].concat());
            bytes
        };
        let (first, later) = (behind(44, [0, 0, 1, 0, 0, 0, 9]), behind(44, [0, 1, 0, 0, 0, 0, 9]));
        let options = behind(0, [0, 1, 4, 0, 0, 0, 0]);
        let (mut udp, mut too_big, mut solicitation) = (owned.clone(), owned.clone(), owned.clone());
        udp[20] = 17;
        (too_big[20], too_big[54]) = (58, 2);
        (solicitation[20], solicitation[54]) = (58, 135);
        let elsewhere = Packet { destination: [10, 0, 0, 3], ..shared.syn(OWNED, true) }.bytes();
        for bytes in [&owned, &first, &later, &options, &udp, &too_big, &solicitation, &elsewhere, &owned[..57].to_vec()] {
            shared.send(bytes);
        }
        assert_eq!(shared.kernel_answer(OWNED) & RST, RST, "options before the header of TCP are the kernel's");
        shared.filter.own(Protocol::Udp, SERVER_V6.into(), OWNED, 1).expect("room");
        shared.send(&udp);
        let last = shared.syn(KERNELS, true).bytes();
        shared.send(&last);
        assert_eq!(shared.kernel_answer(KERNELS) & RST, RST);
        let mut burst = Burst::default();
        shared.server.receive(Instant::ZERO, &mut burst).expect("the link is up");
        let got: Vec<Vec<u8>> = arrived(&mut burst).into_iter().map(|packet| packet.bytes).collect();
        // The filter of a packet socket runs when the packet comes: the first UDP datagram was not ours yet.
        assert_eq!(got, [owned, first, later, too_big, udp]);
    });
}

#[test]
fn a_full_table_says_so() {
    in_namespace(|| {
        let steering = Steering::new(2).expect("root may use BPF");
        let filter = steering.port_filter().expect("a descriptor is left");
        filter.own(Protocol::Tcp, SERVER, 1, 1).expect("room");
        filter.own(Protocol::Tcp, SERVER, 2, 1).expect("room");
        filter.own(Protocol::Tcp, SERVER, 2, 1).expect("again does nothing");
        assert_eq!(filter.own(Protocol::Tcp, SERVER, 3, 1).expect_err("full").raw_os_error(), Some(libc::E2BIG));
    });
}

#[test]
fn the_verifier_accepts_the_xdp_programs() {
    in_namespace(|| {
        let shared = shared();
        let sockets = SocketMap::new(1, 1).expect("root may use BPF");
        let index = shared.server.interface().index;
        for mode in [XdpMode::Native, XdpMode::Generic] {
            drop(Redirect::Owned(&shared.steering).attach(index, &sockets, mode).expect("veth has both modes"));
            let one = Redirect::All.attach(index, &sockets, mode).expect("veth has both modes");
            let error = Redirect::All.attach(index, &sockets, mode).expect_err("one is attached");
            assert!(error.to_string().contains("another XDP program"), "{error}");
            drop(one);
        }
    });
}

#[test]
fn xdp_takes_owned_ports_and_errors_about_them_and_leaves_the_rest() {
    use crate::xdp::{Xdp, XdpOptions};
    for mode in [XdpMode::Native, XdpMode::Generic] {
        in_namespace(move || {
            let mut shared = shared();
            shared.hidden = None;
            let xdp_arena = arena();
            let options = XdpOptions { mode: Some(mode), ..XdpOptions::default() };
            let mut xdp = Xdp::open("server", Redirect::Owned(&shared.steering), options, &xdp_arena).expect("veth has both");
            let plain = Packet { ports: (5555, OWNED), flags: SYN, payload: b"", macs: shared.macs, ..Packet::default() };
            let owned = plain.bytes();
            let mut options = owned.clone();
            options[14] = 0x46;
            options.splice(34..34, [1, 1, 1, 1]);
            let mut fragment = owned.clone();
            fragment[20..22].copy_from_slice(&[0, 100]);
            // Unreachable errors that quote a segment from an owned port, and from one of the kernel.
            let about = |port| {
                let quoted = Packet { source: SERVER_V4.octets(), ports: (port, 5555), ..plain }.bytes();
                [&owned[..23], &[1], &owned[24..34], &[3, 1, 0, 0, 0, 0, 0, 0], &quoted[14..42]].concat()
            };
            for bytes in [&owned, &options, &fragment, &about(OWNED), &about(KERNELS), &owned[..30].to_vec()] {
                shared.send(bytes);
            }
            shared.send_syn(KERNELS);
            assert_eq!(shared.kernel_answer(KERNELS) & RST, RST);
            let mut burst = Burst::default();
            while xdp.receive(Instant::ZERO, &mut burst).expect("the link is up") > 0 {}
            let got: Vec<Vec<u8>> = arrived(&mut burst).into_iter().map(|packet| packet.bytes).collect();
            assert_eq!(got, [owned.clone(), options, about(OWNED)], "{mode:?}");
            // Without the device the kernel has its port back.
            drop(xdp);
            shared.send_syn(OWNED);
            assert_eq!(shared.kernel_answer(OWNED) & RST, RST);
        });
    }
}

#[test]
fn xdp_takes_owned_ipv6_ports_and_errors_about_them() {
    use crate::xdp::{Xdp, XdpOptions};
    in_namespace(|| {
        let mut shared = shared();
        shared.hidden = None;
        let xdp_arena = arena();
        let options = XdpOptions { mode: Some(XdpMode::Generic), ..XdpOptions::default() };
        let mut xdp = Xdp::open("server", Redirect::Owned(&shared.steering), options, &xdp_arena).expect("veth has it");
        let plain = shared.syn(OWNED, true);
        let owned = plain.bytes();
        // Too-big errors that quote a segment from an owned port, and from one of the kernel.
        let about = |port| {
            let quoted = Packet { source: SERVER_V4.octets(), ports: (port, 5555), ..plain }.bytes();
            [&owned[..20], &[58], &owned[21..54], &[2, 0, 0, 0, 0, 0, 5, 0], &quoted[14..62]].concat()
        };
        let mut fragment = owned.clone();
        (fragment[20], fragment[19]) = (44, 28);
        fragment.splice(54..54, [6, 0, 0, 1, 0, 0, 0, 9]);
        for bytes in [&owned, &fragment, &about(OWNED), &about(KERNELS), &owned[..54].to_vec()] {
            shared.send(bytes);
        }
        let last = shared.syn(KERNELS, true).bytes();
        shared.send(&last);
        assert_eq!(shared.kernel_answer(KERNELS) & RST, RST);
        let mut burst = Burst::default();
        while xdp.receive(Instant::ZERO, &mut burst).expect("the link is up") > 0 {}
        let got: Vec<Vec<u8>> = arrived(&mut burst).into_iter().map(|packet| packet.bytes).collect();
        assert_eq!(got, [owned.clone(), fragment, about(OWNED)]);
    });
}

/// A port of one worker brings it all flows; one that all own divides them by flow group; both families, and what has no
/// ports reaches everyone.
#[test]
fn workers_get_their_own_ports_and_their_flows_of_common_ports() {
    const COMMON: u16 = 80;
    in_namespace(|| {
        let mut shared = shared();
        for ip in [SERVER, SERVER_V6.into()] {
            shared.filter.own(Protocol::Tcp, ip, OWNED, 0b010).expect("room");
            shared.filter.own(Protocol::Tcp, ip, COMMON, 0b111).expect("room");
        }
        let division = Division::new(3, 4).expect("root may use BPF");
        let mut workers = shared.workers(&division);
        let mut expected: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 3];
        for ipv6 in [false, true] {
            for from in 5_000..5_020 {
                let own = Packet { ports: (from, OWNED), ..shared.syn(OWNED, ipv6) }.bytes();
                let common = Packet { ports: (from, COMMON), ..shared.syn(COMMON, ipv6) }.bytes();
                shared.send(&own);
                shared.send(&common);
                let classify::Addressee::Flow(group) = classify::addressee(crate::Medium::Ethernet, &common) else {
                    panic!("it is a flow's")
                };
                expected[1].push(own);
                expected[Division::first_owner(group, 3)].push(common);
            }
        }
        let mut fragment = shared.syn(COMMON, false).bytes();
        fragment[20..22].copy_from_slice(&[0, 100]);
        shared.send(&fragment);
        expected.iter_mut().for_each(|packets| packets.push(fragment.clone()));
        assert!(expected.iter().all(|packets| packets.len() > 5), "all have flows");
        for (worker, expected) in workers.iter_mut().zip(expected) {
            assert_eq!(received(worker, expected.len()), expected);
        }
    });
}

/// When a flow group moves, what is kept stays where it was, and everything else of the group comes to the new worker; so in
/// both families. Once nothing is kept, all of the group is the new worker's.
#[test]
fn a_group_moves_and_the_flows_that_are_kept_stay() {
    const COMMON: u16 = 80;
    in_namespace(|| {
        let mut shared = shared();
        for ip in [SERVER, SERVER_V6.into()] {
            shared.filter.own(Protocol::Tcp, ip, COMMON, 0b11).expect("room");
        }
        for ipv6 in [false, true] {
            let division = Division::new(2, 1).expect("root may use BPF");
            let mut workers = shared.workers(&division);
            let (local, remote): (IpAddr, IpAddr) = match ipv6 {
                false => (SERVER, [10, 0, 0, 1].into()),
                true => (SERVER_V6.into(), "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:a00:1".parse().expect("it is one")),
            };
            let flow = |from| Flow { local: (local, COMMON), remote: (remote, from) };
            let group = flow(6_000).group();
            // Two flows of one group.
            let other = (6_001..).find(|&from| flow(from).group() == group).expect("ports enough");
            let packet = |shared: &Shared, from| Packet { ports: (from, COMMON), ..shared.syn(COMMON, ipv6) }.bytes();
            let (kept, new) = (packet(&shared, 6_000), packet(&shared, other));
            let old_worker = Division::first_owner(group, 2);
            shared.send(&kept);
            shared.send(&new);
            assert_eq!(received(&mut workers[old_worker], 2), [kept.clone(), new.clone()], "as it was");
            division.keep(&flow(6_000), old_worker).expect("room for one");
            assert_eq!(division.keep(&flow(other), old_worker).expect_err("full").raw_os_error(), Some(libc::E2BIG));
            division.assign(group, 1 - old_worker, Flows::Scattered).expect("the table is there");
            shared.send(&new);
            shared.send(&kept);
            assert_eq!(received(&mut workers[old_worker], 1), std::slice::from_ref(&kept), "it stays");
            assert_eq!(received(&mut workers[1 - old_worker], 1), std::slice::from_ref(&new), "it is the new worker's");
            division.assign(group, 1 - old_worker, Flows::AllThere).expect("the table is there");
            division.forget(&flow(6_000)).expect("it was kept");
            division.forget(&flow(6_000)).expect("twice does nothing");
            shared.send(&kept);
            assert_eq!(received(&mut workers[1 - old_worker], 1), [kept], "nobody keeps it any more");
        }
    });
}

/// The port of a multicast group: the stack has a copy, and so does the kernel; over AF_XDP the kernel alone.
#[test]
fn copies_come_to_both() {
    use crate::xdp::{Xdp, XdpOptions};
    const PORT: u16 = 5353;
    /// A datagram of four bytes to [`PORT`], without a checksum.
    fn datagram(shared: &Shared) -> Vec<u8> {
        let mut bytes = shared.syn(PORT, false).bytes()[..34].to_vec();
        bytes[16..18].copy_from_slice(&32_u16.to_be_bytes());
        bytes[23] = 17;
        bytes[24..26].fill(0);
        let sum = !crate::checksum::fold(crate::checksum::add(0, &bytes[14..34]));
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        let ports = [5555_u16.to_be_bytes(), PORT.to_be_bytes()].concat();
        [&bytes[..], &ports, &12_u16.to_be_bytes(), &[0, 0], b"mdns"].concat()
    }
    in_namespace(|| {
        let mut shared = shared();
        let kernels = std::net::UdpSocket::bind((SERVER_V4, PORT)).expect("the address is there");
        shared.filter.own_copies(SERVER, PORT, 1).expect("room");
        let bytes = datagram(&shared);
        shared.send(&bytes);
        let mut got = [0; 8];
        assert_eq!(kernels.recv(&mut got).expect("it has come"), 4);
        assert_eq!(received(&mut shared.server, 1), std::slice::from_ref(&bytes));
        // Hidden as other ports are, it comes to the stack alone.
        shared.filter.own(Protocol::Udp, SERVER, PORT, 1).expect("room");
        shared.send(&bytes);
        assert_eq!(received(&mut shared.server, 1), std::slice::from_ref(&bytes));
        kernels.set_nonblocking(true).expect("it is ours");
        assert_eq!(kernels.recv(&mut got).expect_err("nothing").kind(), io::ErrorKind::WouldBlock);
        shared.filter.own_copies(SERVER, PORT, 1).expect("room");
        shared.hidden = None;
        let xdp_arena = arena();
        let mut xdp =
            Xdp::open("server", Redirect::Owned(&shared.steering), XdpOptions::default(), &xdp_arena).expect("veth has it");
        shared.send(&bytes);
        kernels.set_nonblocking(false).expect("it is ours");
        assert_eq!(kernels.recv(&mut got).expect("it has come"), 4);
        assert_eq!(xdp.receive(Instant::ZERO, &mut Burst::default()).expect("the link is up"), 0);
    });
}

/// While a device of AF_XDP is tried, its program hides packets of owned ports from the kernel itself; so does the program that serves,
/// where a queue has no socket.
#[test]
fn a_device_that_is_tried_or_has_no_socket_hides_owned_packets() {
    let ways = [XdpMode::Native, XdpMode::Generic].into_iter().flat_map(|mode| [(mode, "tried"), (mode, "serves")]);
    for (mode, state) in ways {
        in_namespace(move || {
            let mut shared = shared();
            shared.hidden = None;
            let sockets = SocketMap::new(1, 1).expect("root may use BPF");
            let index = shared.server.interface().index;
            let serving = Redirect::Owned(&shared.steering);
            let redirect = if state == "tried" { serving.tested(7) } else { serving };
            let attached = redirect.attach(index, &sockets, mode).expect("veth has both modes");
            for ipv6 in [false, true] {
                let owned = shared.syn(OWNED, ipv6).bytes();
                shared.send(&owned);
            }
            shared.send_syn(KERNELS);
            assert_eq!(shared.kernel_answer(KERNELS) & RST, RST, "the first answer there is, {mode:?}, {state}");
            drop(attached);
        });
    }
}
