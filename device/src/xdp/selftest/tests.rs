//! Answers that are right and wrong; and the whole test over a veth pair, whose other end is a kernel of its own namespace.
use std::process::{Child, Command};
use std::sync::OnceLock;

use super::*;
use crate::steering::XdpMode;
use crate::testing::{arena, in_namespace, ip};
use crate::xdp::XdpOptions;

const IDENTIFIER: u16 = 0xbeef;
const LENGTHS: [usize; 2] = [64, 1500];

fn ends(ipv6: bool) -> Ends {
    let address = |last| if ipv6 { format!("fd00::{last}").parse() } else { format!("10.0.0.{last}").parse() };
    let [own, neighbor] = [1, 2].map(|last| address(last).expect("an address"));
    Ends { own, neighbor, own_mac: [2, 0, 0, 0, 0, 1], neighbor_mac: [2, 0, 0, 0, 0, 2] }
}

/// The frame that a host answers request `number` with.
fn answer(ends: &Ends, number: u16) -> Vec<u8> {
    let back = Ends { own: ends.neighbor, neighbor: ends.own, own_mac: ends.neighbor_mac, neighbor_mac: ends.own_mac };
    let (mut frame, start) = echo::request(&back, (IDENTIFIER, number), LENGTHS[usize::from(number)]);
    frame[start] = if ends.own.is_ipv4() { 0 } else { 129 };
    echo::sum(&mut frame, start);
    frame
}

fn judge(frame: &[u8], ends: &Ends) -> Answer {
    echo::judge(frame, ends, IDENTIFIER, &LENGTHS)
}

#[test]
fn an_answer_is_right_or_it_is_said_what_is_wrong() {
    for ends in [ends(false), ends(true)] {
        for number in [0, 1] {
            let right = answer(&ends, number);
            assert_eq!(judge(&right, &ends), Answer::Right(number));
            let padded = [&right[..], &[0; 6]].concat();
            assert_eq!(judge(&padded, &ends), Answer::Right(number), "Ethernet pads short frames");
            let message = right.len() - LENGTHS[usize::from(number)] + if ends.own.is_ipv4() { 20 } else { 40 };
            for at in message + 8..right.len() {
                let mut changed = right.clone();
                changed[at] ^= 0x10;
                assert!(matches!(judge(&changed, &ends), Answer::Wrong(text) if text.contains("another byte")), "byte {at}");
            }
            let mut unsummed = right.clone();
            unsummed[message + 2] ^= 1;
            assert!(matches!(judge(&unsummed, &ends), Answer::Wrong(text) if text.contains("checksum")));
            for len in 0..right.len() {
                let judged = judge(&right[..len], &ends);
                assert!(!matches!(judged, Answer::Right(_)), "{len} bytes are not the whole");
            }
        }
    }
}

#[test]
fn what_is_no_answer_to_the_test_is_passed_over() {
    let (four, six) = (ends(false), ends(true));
    let right = answer(&four, 0);
    assert_eq!(echo::judge(&right, &four, IDENTIFIER ^ 1, &LENGTHS), Answer::Other, "another's");
    assert_eq!(judge(&right, &six), Answer::Other, "of the other family");
    assert_eq!(judge(&echo::request(&four, (IDENTIFIER, 0), 64).0, &four), Answer::Other, "a request");
    let mut unknown = right;
    unknown[40] = 7;
    assert_eq!(judge(&unknown, &four), Answer::Other, "a number that was not sent");
}

/// A host at the other end of a veth pair.
struct Peer(Child);

impl Peer {
    /// 10.9.0.1 and fd09::1 on `left` here, 10.9.0.2 and fd09::2 on `right` there.
    fn new(mtu: u16) -> Peer {
        let peer = Peer(Command::new("unshare").args(["-n", "sleep", "60"]).spawn().expect("util-linux is installed"));
        let pid = peer.0.id();
        let own = std::fs::read_link("/proc/thread-self/ns/net").expect("Linux");
        while std::fs::read_link(format!("/proc/{pid}/ns/net")).expect("it sleeps") == own {
            std::thread::yield_now();
        }
        ip(&format!("link add left mtu {mtu} type veth peer name right mtu {mtu} netns {pid}"));
        ip("address add 10.9.0.1/24 dev left");
        ip("address add fd09::1/64 dev left nodad");
        ip("link set left up");
        for line in ["address add 10.9.0.2/24 dev right", "address add fd09::2/64 dev right nodad", "link set right up"] {
            peer.run(&format!("ip {line}"));
        }
        peer
    }

    fn run(&self, line: &str) -> String {
        let pid = self.0.id().to_string();
        let output = Command::new("nsenter").args(["-t", &pid, "-n"]).args(line.split_whitespace()).output();
        let output = output.expect("util-linux is installed");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Drops what arrives there and looks like this.
    fn refuse(&self, packets: &str) {
        self.run("nft add table inet walls");
        self.run("nft add chain inet walls in { type filter hook input priority 0 ; }");
        self.run(&format!("nft add rule inet walls in {packets} drop"));
    }

    fn mac(&self) -> [u8; 6] {
        let text = self.run("ip -br link show right");
        let word = text.split_whitespace().find(|word| word.matches(':').count() == 5).expect("a link address");
        let mut bytes = word.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal"));
        std::array::from_fn(|_| bytes.next().expect("six"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.0.kill().expect("it sleeps");
        self.0.wait().expect("it is ours");
    }
}

fn now() -> Instant {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    let nanos = START.get_or_init(std::time::Instant::now).elapsed().as_nanos();
    Instant::from_nanos(1 + nanos as u64)
}

/// Runs the kernel's and the card's test of `left`, in `mode`, towards the peer's IPv4 or IPv6 address.
fn tested(peer: &Peer, mode: Option<XdpMode>, ipv6: bool, arena: &Arena) -> Result<(Option<Xdp>, Vec<Tried>), String> {
    let interface = Interface::open("left").expect("made above");
    let candidate = if ipv6 { ("fd09::1", "fd09::2") } else { ("10.9.0.1", "10.9.0.2") };
    let candidate = (candidate.0.parse().expect("an address"), candidate.1.parse().expect("an address"));
    let (own, neighbor) = find_neighbor(interface.index, &[candidate], interface.mtu, IDENTIFIER, now)?;
    let ends = Ends { own, neighbor, own_mac: interface.mac, neighbor_mac: peer.mac() };
    let test = Test { ends, mtu: interface.mtu, identifier: IDENTIFIER, clock: now };
    let attach_modes = Xdp::attach_modes(&interface, XdpOptions { mode, ..XdpOptions::default() });
    Ok(open_tested(&interface, &attach_modes, 256, &test, arena))
}

#[test]
fn a_card_that_carries_packets_passes_in_every_mode_and_then_serves() {
    in_namespace(|| {
        for mtu in [1500, 9000] {
            let peer = Peer::new(mtu);
            for (mode, ipv6) in
                [(XdpMode::Native, false), (XdpMode::Native, true), (XdpMode::Generic, false), (XdpMode::Generic, true)]
            {
                let arena = arena();
                let (device, tried) = tested(&peer, Some(mode), ipv6, &arena).expect("the peer answers");
                assert!(matches!(&tried[..], [Tried { outcome: Ok(()), .. }]), "{mode:?} {ipv6} {mtu}: {tried:?}");
                let mut device = device.expect("it has passed");
                // The tested program is exchanged under the open device: now it gets everything.
                device.take(Redirect::All).expect("root");
                ping(&peer);
                let mut burst = Burst::default();
                crate::testing::receive_some(&mut device, &mut burst);
            }
            drop(peer);
        }
    });
}

/// The peer asks us something.
fn ping(peer: &Peer) {
    let pid = peer.0.id().to_string();
    let ping = ["-t", &pid, "-n", "ping", "-c", "1", "-W", "1", "10.9.0.1"];
    Command::new("nsenter").args(ping).output().expect("iputils is installed");
}

#[test]
fn a_card_that_loses_what_af_xdp_sends_is_given_back() {
    in_namespace(|| {
        let peer = Peer::new(1500);
        // The test's requests have the hop limit of packets that no router forwards, and the kernel's have not.
        peer.refuse("ip ttl 255 icmp type echo-request");
        let arena = arena();
        let (device, tried) = tested(&peer, None, false, &arena).expect("the peer answers the kernel");
        assert!(device.is_none() && tried.len() == 2, "{tried:?}");
        for Tried { attach_mode, outcome } in &tried {
            let Err(Wrong::Failed(text)) = outcome else { panic!("{attach_mode}: {outcome:?}") };
            for size in ["64", "1500"] {
                assert!(text.contains(&format!("no answer to an echo request of {size} bytes")), "{text}");
            }
            assert!(!text.contains("the kernel's own"), "{text}");
        }
        assert_eq!(arena.free(ringway_shm::Class::Large), arena.capacity(ringway_shm::Class::Large), "all frames are back");
        let link = Command::new("ip").args(["link", "show", "left"]).output().expect("iproute2 is installed").stdout;
        assert!(!String::from_utf8_lossy(&link).contains("xdp"), "nothing is attached");
    });
}

#[test]
fn without_a_neighbor_that_answers_nothing_is_tested() {
    in_namespace(|| {
        let peer = Peer::new(1500);
        let interface = Interface::open("left").expect("made above");
        assert_eq!(find_neighbor(interface.index, &[], 1500, 1, now), Err("no neighbor is known".to_owned()));
        peer.refuse("icmpv6 type echo-request");
        let arena = arena();
        let error = tested(&peer, None, true, &arena).err().expect("it does not answer");
        assert!(error.contains("fd09::2") && error.contains("no neighbor answers"), "{error}");
    });
}
