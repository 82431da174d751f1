//! Between IP and the wire on a link of the stack's own: addresses that it makes for itself, and VLANs.
//!
//! The kernel's end of the TAP interface is moved to the other namespace, where the kernel is an ordinary neighbor.

use crate::harness::*;
use crate::http::{fetch, site};
use crate::ipv6;

const ON_KERNEL: &[&str] = &[];
const TAP: &str = "ringway0";
/// Router advertisements, and duplicate addresses.
const ROUTER: &str = include_str!("link/router.py");
/// The kernel's end on a VLAN.
const TAGS: &str = include_str!("link/tag.py");

fn ip(net: &Net, side: Side, arguments: &[&str]) {
    net.output(side, &[&["ip"], arguments].concat());
}

/// A service on a TAP interface of this configuration, whose other end is in the client's namespace.
struct OnTap<'a> {
    net: &'a Net,
    service: Process,
    name: String,
}

impl OnTap<'_> {
    fn new<'a>(net: &'a Net, settings: &str) -> OnTap<'a> {
        let text = format!("[interface]\ndevice = \"tap\"\naddress = \"10.76.0.2/24\"\n{settings}");
        let config = net.file("ringway.toml", text);
        let (service, name) = net.serve(Server, &["--config", &config]);
        ip(net, Server, &["link", "set", TAP, "netns", &net.namespace(Client)]);
        ip(net, Client, &["link", "set", TAP, "up"]);
        OnTap { net, service, name }
    }

    fn run(&self, program: &[&str]) -> Process {
        self.net.spawn(Server, &[&[RINGWAY, "run", "-q", "-e", "strict", "--name", &self.name, "--"], program].concat())
    }

    /// nginx for both families.
    fn nginx(&self) -> Process {
        let mut nginx = self.run(&["nginx", "-c", &ipv6::nginx_config(self.net, 80)]);
        let name = &self.name;
        nginx.wait_while_running("listens on Ringway", || {
            self.net.output(Server, &[RINGWAY, "ss", "--name", name, "-Hltn"]).contains(":80 ")
        });
        nginx
    }
}

/// Starts the router with a prefix; the first `rivals` addresses in it are taken.
fn advertise(net: &Net, prefix: &str, rivals: &str) -> Process {
    let script = net.file("router.py", ROUTER);
    let mut router = net.spawn(Client, &["python3", &script, TAP, prefix, rivals]);
    net.wait_printed(&mut router, "on the link");
    router
}

/// The addresses that were asked for, in order, without repetitions.
fn probed(router: &Process) -> Vec<String> {
    let said = router.stdout();
    let mut targets: Vec<String> = said.lines().filter_map(|line| line.strip_prefix("probe ")).map(String::from).collect();
    targets.dedup();
    targets
}

fn small_answer(net: &Net, address: &str, small: &str) {
    let url = format!("http://[{address}]/small.txt");
    // Until the address is known to be unique, no host answers for it.
    let got = text(&net.path("got"));
    let retry = ["curl", "-sS", "--fail", "--retry", "20", "--retry-connrefused", "--retry-delay", "1", "--retry-all-errors"];
    net.output(Client, &[&retry[..], &["--connect-timeout", "2", "-o", &got, &url]].concat());
    assert_eq!(digest_of(&got).expect("curl has written it"), small);
}

/// SLAAC end to end: a router is heard, an address is made, its uniqueness is asked for, and the kernel connects to it.
/// RFC 4862 §5.4, §5.5
#[test]
fn a_router_gives_the_stack_an_address() {
    let net = Net::new();
    let [large, small] = site(&net);
    let tap = OnTap::new(&net, "autoconfiguration = \"stable\"\n");
    let _nginx = tap.nginx();
    let mut router = advertise(&net, "fd99::/64", "0");
    net.wait_printed(&mut router, "probe fd99:");
    let address = probed(&router).remove(0);
    ip(&net, Client, &["address", "add", "fd99::1/64", "dev", TAP, "nodad"]);
    net.untouched(Server, || {
        small_answer(&net, &address, &small);
        assert_eq!(fetch(&net, Client, ON_KERNEL, &format!("http://[{address}]/large.bin")), large);
    });
    let ping = net.output(Client, &["ping", "-c", "3", "-i", "0.1", "-W", "2", &address]);
    assert!(ping.contains(" 0% packet loss"), "{ping}");
    assert_eq!(probed(&router), [address], "asked for once more than it is used");
    assert!(!tap.service.stderr().contains("somebody else"), "{}", tap.service.stderr());
}

/// An address that another host has is reported, not used, and another one is made. RFC 4862 §5.4.5, RFC 7217 §6
#[test]
fn an_address_that_is_taken_is_told_and_replaced() {
    let net = Net::new();
    let [_, small] = site(&net);
    let mut tap = OnTap::new(&net, "autoconfiguration = \"stable\"\n");
    let _nginx = tap.nginx();
    let mut router = advertise(&net, "fd98::/64", "1");
    net.wait_printed(&mut router, "claimed fd98:");
    wait_until("another address is asked for", DEADLINE, || probed(&router).len() == 2);
    let [taken, free] = <[String; 2]>::try_from(probed(&router)).expect("two addresses");
    tap.service.wait_for_error_line(&format!("{taken} is used by another host on the link"));
    ip(&net, Client, &["address", "add", "fd98::1/64", "dev", TAP, "nodad"]);
    net.untouched(Server, || small_answer(&net, &free, &small));
    let url = format!("http://[{taken}]/small.txt");
    let refused = net.run(Client, &["curl", "-sS", "--connect-timeout", "2", "-o", "got", &url]);
    assert!(!refused.status.success(), "the stack answers for an address that is not its own");
}

/// Sends back what it gets, of both families.
const ECHO: &str = "
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 4000)); print('ready', flush=True)
while True:
    data, peer = s.recvfrom(2000); s.sendto(data, peer)";

/// Datagrams of many sizes; each comes back as it was.
const ASK: &str = "
import socket, sys
for address in sys.argv[1:]:
    s = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10)
    for size in (0, 1, 700, 1400, 1472):
        if size == 1472 and ':' in address: size = 1452
        data = bytes(n & 255 for n in range(size)); s.sendto(data, (address, 4000)); assert s.recv(2000) == data, size
print('all back')";

/// The stack on a VLAN, its neighbor the kernel, whose end takes and gives that VLAN's packets only: all that crosses is tagged,
/// both ways, and nothing is lost by the four bytes that a tag takes. IEEE 802.1Q
#[test]
fn a_vlan_carries_both_families_and_protocols() {
    let net = Net::new();
    let [large, small] = site(&net);
    let tap = OnTap::new(&net, "address6 = \"fd76::2/64\"\nvlan = 7\n");
    let mut tags = net.spawn(Client, &["python3", &net.file("tag.py", TAGS), TAP, "7"]);
    net.wait_printed(&mut tags, "tagged");
    ip(&net, Client, &["address", "add", "10.76.0.1/24", "dev", TAP]);
    ip(&net, Client, &["address", "add", "fd76::1/64", "dev", TAP, "nodad"]);
    let mut capture = net.spawn(Client, &["tcpdump", "-i", TAP, "-lne", "--immediate-mode", "ip or ip6 or vlan"]);
    capture.wait_for_error_line("listening on");
    let nginx = tap.nginx();
    let mut echo = tap.run(&["python3", "-c", ECHO]);
    net.wait_printed(&mut echo, "ready");
    net.untouched(Server, || {
        for host in ["10.76.0.2", "[fd76::2]"] {
            assert_eq!(fetch(&net, Client, ON_KERNEL, &format!("http://{host}/small.txt")), small);
            assert_eq!(fetch(&net, Client, ON_KERNEL, &format!("http://{host}/large.bin")), large);
        }
        assert_eq!(net.output(Client, &["python3", "-c", ASK, "10.76.0.2", "fd76::2"]), "all back\n");
    });
    drop(nginx);
    let mut kernels = net.spawn(Client, &["nginx", "-c", &ipv6::nginx_config(&net, 80)]);
    net.wait_listening(Client, 80, &mut kernels);
    let on_ringway = [RINGWAY, "run", "-q", "-e", "strict", "--name", &tap.name, "--"];
    for host in ["10.76.0.1", "[fd76::1]"] {
        assert_eq!(fetch(&net, Server, &on_ringway, &format!("http://{host}/large.bin")), large);
    }
    capture.signal(rustix::process::Signal::INT);
    let captured = capture.finish(DEADLINE).stdout;
    let packets: Vec<&str> = captured.lines().filter(|line| line.contains("Flags [") || line.contains("UDP")).collect();
    assert!(packets.len() > 1000, "{} packets", packets.len());
    assert_eq!(packets.iter().find(|line| !line.contains("vlan 7,")), None);
    for sender in ["10.76.0.1.", "10.76.0.2.80 >", "fd76::1.", "fd76::2.80 >", "10.76.0.2.4000 >", "fd76::2.4000 >"] {
        assert!(packets.iter().any(|line| line.contains(&format!("), {sender}"))), "no packet of {sender}");
    }
}
