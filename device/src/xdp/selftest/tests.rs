//! Answers that are right and wrong; the test on cards that spoil or lose packets, in virtual time; and the whole test over a veth pair, whose other end is a kernel of its own namespace.
use std::cell::{Cell, RefCell};
use std::process::{Child, Command};
use std::sync::OnceLock;

use super::*;
use crate::memory::MemoryOptions;
use crate::steering::XdpMode;
use crate::testing::{arena, in_namespace, ip};
use crate::xdp::XdpOptions;
use crate::{Capabilities, Counters};

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

/// A card and what is behind it: a host that answers each request in which every byte is right.
#[derive(Clone, Copy)]
struct Card {
    /// The card takes packets whose checksum it is to complete.
    completes_sums: bool,
    /// Does to a frame what the card does when it sends it; `false`: it is lost.
    sends: fn(&mut Vec<u8>) -> bool,
    /// The same of a frame that the card receives.
    receives: fn(&mut Vec<u8>) -> bool,
}

const GOOD: Card = Card { completes_sums: false, sends: |_| true, receives: |_| true };

struct Scripted<'a> {
    card: Card,
    ends: Ends,
    arena: &'a Arena,
    answers: Vec<Vec<u8>>,
}

/// The neighbor's answer, if there is one.
fn neighbor(ends: &Ends, frame: &[u8]) -> Option<Vec<u8>> {
    let number = (0..2).find(|&number| {
        let (mut right, start) = echo::request(ends, (IDENTIFIER, number), LENGTHS[usize::from(number)]);
        echo::sum(&mut right, start);
        right == frame
    })?;
    Some(answer(ends, number))
}

impl Device for Scripted<'_> {
    fn capabilities(&self) -> Capabilities {
        let sends_partial_checksums = self.card.completes_sums;
        Capabilities {
            sends_partial_checksums,
            ..crate::memory::pair(self.arena, self.arena, MemoryOptions::default()).0.capabilities()
        }
    }

    fn receive(&mut self, _: Instant, burst: &mut Burst) -> io::Result<usize> {
        let mut count = 0;
        for mut frame in std::mem::take(&mut self.answers) {
            if (self.card.receives)(&mut frame) {
                let mut packet: Vec<Frame> =
                    frame.chunks(PIECE).map(|piece| self.arena.alloc_from(piece).expect("room")).collect();
                give_packet(burst, &mut packet);
                count += 1;
            }
        }
        Ok(count)
    }

    fn transmit(&mut self, _: Instant, burst: &mut Burst) -> io::Result<usize> {
        let (mut packet, mut count) = (Vec::new(), 0);
        while take_packet(burst, &mut packet) {
            let mut frame: Vec<u8> = packet.iter().flat_map(|frame| frame.bytes().to_vec()).collect();
            if let Checksum::Partial { start, .. } = packet[0].checksum() {
                echo::sum(&mut frame, usize::from(start));
            }
            if (self.card.sends)(&mut frame) {
                self.answers.extend(neighbor(&self.ends, &frame));
            }
            count += 1;
        }
        Ok(count)
    }

    fn wait_fds<'a>(&'a self, _: &mut Vec<BorrowedFd<'a>>) {}

    fn arm(&mut self) -> bool {
        false
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// The kernel's echo: answered, unless the card keeps the kernel's packets to itself.
struct ScriptedKernel {
    is_answered: bool,
    sent: RefCell<Vec<u16>>,
}

impl Echo for ScriptedKernel {
    fn send(&self, number: u16, _: usize) -> io::Result<()> {
        self.sent.borrow_mut().push(number);
        Ok(())
    }

    fn answered(&self) -> Vec<u16> {
        if self.is_answered { self.sent.take() } else { Vec::new() }
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Time of the tests without a network: a tenth of a second is over at each look.
fn leaping() -> Instant {
    thread_local!(static NOW: Cell<Instant> = const { Cell::new(Instant::ZERO) });
    NOW.set(NOW.get() + AGAIN);
    NOW.get()
}

/// The test's result for a card, over both families.
fn judged(card: Card, is_answered: bool) -> Result<(), String> {
    let [four, six] = [false, true].map(|ipv6| {
        let (ends, arena) = (ends(ipv6), arena());
        let mut device = Scripted { card, ends, arena: &arena, answers: Vec::new() };
        let kernel = ScriptedKernel { is_answered, sent: RefCell::default() };
        let test = Test { ends, mtu: 1500, identifier: IDENTIFIER, clock: leaping };
        let result = exchange(&mut device, &kernel, &test, &arena);
        assert_eq!(arena.free(ringway_shm::Class::Large), arena.capacity(ringway_shm::Class::Large), "all frames are back");
        result
    });
    assert_eq!(four, six, "the families do not differ");
    four
}

fn spoils_sum(frame: &mut [u8]) -> bool {
    let message = if frame[12] == 8 { 34 } else { 54 };
    frame[message + CHECKSUM] ^= 1;
    true
}

const NO_ANSWER: &str = "no answer to an echo request of 64 bytes, no answer to an echo request of 1500 bytes";

#[test]
fn a_card_that_changes_nothing_passes_whether_it_completes_sums_or_not() {
    assert_eq!(judged(GOOD, true), Ok(()));
    assert_eq!(judged(Card { completes_sums: true, ..GOOD }, true), Ok(()));
}

/// The receiver sees a wrong checksum, drops the request and says nothing.
#[test]
fn a_card_that_spoils_the_checksums_of_what_it_sends_fails() {
    assert_eq!(judged(Card { sends: |frame| spoils_sum(frame), ..GOOD }, true), Err(NO_ANSWER.to_owned()));
    // Also where it has said that it completes them.
    assert_eq!(judged(Card { completes_sums: true, sends: |frame| spoils_sum(frame), ..GOOD }, true), Err(NO_ANSWER.to_owned()));
}

#[test]
fn a_card_that_spoils_what_it_receives_fails_and_it_is_said_how() {
    let result = judged(Card { receives: |frame| spoils_sum(frame), ..GOOD }, true);
    assert_eq!(result, Err("the answer to an echo request of 64 bytes came with a wrong checksum".to_owned()));
    let cuts = |frame: &mut Vec<u8>| {
        frame.truncate(14 + 1280);
        true
    };
    let result = judged(Card { receives: cuts, ..GOOD }, true);
    assert_eq!(result, Err("the answer to an echo request of 1500 bytes came with 1280 bytes".to_owned()));
}

/// On the way out or back: small packets pass, and large ones do not.
#[test]
fn a_card_whose_mtu_is_smaller_than_it_says_fails_at_the_large_size_alone() {
    let small = |frame: &mut Vec<u8>| frame.len() <= 14 + 1280;
    let expected = Err("no answer to an echo request of 1500 bytes".to_owned());
    assert_eq!(judged(Card { sends: small, ..GOOD }, true), expected);
    assert_eq!(judged(Card { receives: small, ..GOOD }, true), expected);
}

#[test]
fn a_card_that_keeps_the_kernels_packets_fails() {
    let expected = NO_ANSWER.replace(" an echo", " the kernel's own echo");
    assert_eq!(judged(GOOD, false), Err(expected));
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

    /// Loses what is longer than this from now on: the pair carries nothing that its other end may not have.
    fn shrink(&self, mtu: u16) {
        self.run(&format!("ip link set right mtu {mtu}"));
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
    let options = XdpOptions { mode, ring_entries: 256, ..XdpOptions::default() };
    let attach_modes = Xdp::attach_modes(&interface, &options);
    Ok(open_tested(&interface, &attach_modes, &options, &test, (Redirect::All, arena)))
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

/// A path narrower than the interface says is no fault of AF_XDP: the kernel finds it first, and nothing is tested.
#[test]
fn a_neighbor_with_a_smaller_mtu_takes_no_part() {
    in_namespace(|| {
        let peer = Peer::new(1500);
        peer.shrink(1280);
        let arena = arena();
        let error = tested(&peer, None, false, &arena).err().expect("it answers no large request");
        assert_eq!(error, "10.9.0.2 answers the kernel no echo request of 1500 bytes");
    });
}
