//! Interfaces that come, change and go while a service runs.

use crate::harness::*;
use crate::http::{assert_wrk, fetch, nginx_config, site};

const ON_KERNEL: &[&str] = &[];

/// A second wire between the two sides; its addresses in `net` are `.1` and `.2` of both families.
pub(crate) fn second_wire(net: &Net) {
    let client = net.namespace(Client);
    ip(net, Server, &["link", "add", "veth2", "type", "veth", "peer", "name", "veth2", "netns", &client]);
    for (side, host) in [(Server, "1"), (Client, "2")] {
        ip(net, side, &["address", "add", &format!("10.78.0.{host}/24"), "dev", "veth2"]);
        ip(net, side, &["address", "add", &format!("fd78::{host}/64"), "dev", "veth2", "nodad"]);
        ip(net, side, &["link", "set", "veth2", "up"]);
    }
}

fn ip(net: &Net, side: Side, arguments: &[&str]) {
    net.output(side, &[&["ip"], arguments].concat());
}

#[test]
fn a_new_interface_is_served_and_one_that_goes_is_forgotten() {
    let net = Net::new();
    let [large, _] = site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let mut python =
        net.spawn_ringway(Server, &["python3", "-m", "http.server", "-b", "::", "-d", &text(&net.path("www")), "8000"]);
    net.wait_served(Server, 8000, &mut python);
    for round in 1..=2 {
        second_wire(&net);
        for process in [&mut nginx, &mut python] {
            process.wait_for_error_lines("serves veth2", round);
        }
        net.untouched(Server, || {
            assert_eq!(fetch(&net, Client, ON_KERNEL, "http://10.78.0.1/large.bin"), large);
            assert_eq!(fetch(&net, Client, ON_KERNEL, "http://[fd78::1]:8000/large.bin"), large);
        });
        ip(&net, Server, &["link", "delete", "veth2"]);
        net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large));
    }
}

/// The queueing discipline makes bands of priorities; netfilter's egress hook sees the same ones.
#[test]
fn what_leaves_has_the_priority_of_its_dscp() {
    let net = Net::new();
    net.output(Server, &["tc", "qdisc", "replace", "dev", INTERFACE, "root", "pfifo_fast"]);
    let chain = format!(
        "add table netdev t; add chain netdev t out {{ type filter hook egress device {INTERFACE} priority 0; }}; \
         add rule netdev t out meta priority 0:5 counter; add rule netdev t out meta priority 0:6 counter"
    );
    net.output(Server, &["nft", &chain]);
    let file = net.file("ringway.toml", "interface.priorities = [\"EF=5\"]\npolicy.firewall = \"ignore\"\n");
    let (_service, name) = net.serve(Server, &["--config", &file]);
    // EF of 46 << 2, and the low delay that ssh asks for (RFC 1349), whose priority is the kernel's choice.
    let program = format!(
        "import socket\nfor tos, count in (184, 3), (16, 2), (0, 9):\n  s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n  \
         s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)\n  s.bind(('{}', 0))\n  for _ in range(count): s.sendto(b'x', ('{}', 9))\n",
        net.address(Server),
        net.address(Client)
    );
    net.output(Server, &[RINGWAY, "run", "-e", "strict", "-q", "--name", &name, "--", "python3", "-c", &program]);
    let counted = net.output(Server, &["nft", "-n", "list", "table", "netdev", "t"]);
    let has = |priority: &str, packets: u32| counted.contains(&format!("meta priority {priority} counter packets {packets} "));
    assert!(has("0:5", 3) && has("0:6", 2), "{counted}");
    let wrong = net.file("wrong.toml", "interface.priorities = \"EF=9\"\n");
    let refused = net.run(Server, &[RINGWAY, "run", "--config", &wrong, "--", "true"]);
    assert!(
        refused.code() != 0 && refused.stderr.contains("interface.priorities: \"EF=9\" has no priority"),
        "{}",
        refused.stderr
    );
}

/// A queue that comes while connections are busy has sockets soon; until then its packets are lost, and the kernel, which would reset
/// the connections, sees none.
#[test]
fn a_changed_number_of_queues_is_followed() {
    for workers in ["1", "2"] {
        let net = Net::new();
        let [large, _] = site(&net);
        let config = net.file("ringway.toml", "[interface]\ndevice = \"xdp\"\n");
        let (_service, name) = net.serve(Server, &["--config", &config, "--workers", workers]);
        let mut nginx = net.spawn(Server, &[RINGWAY, "run", "--name", &name, "--", "nginx", "-c", &nginx_config(&net, 80)]);
        net.wait_served(Server, 80, &mut nginx);
        let load = net.spawn(Client, &["wrk", "-t1", "-c16", "-d6s", "--timeout", "20s", &net.url(80, "small.txt")]);
        wait_until("it has connected", DEADLINE, || {
            net.output(Server, &[RINGWAY, "ss", "-Htn", "--name", &name, "state", "established"]).lines().count() == 16
        });
        let before = net.kernel_tcp(Server);
        let second = || {
            let counters = net.output(Server, &["ethtool", "-S", INTERFACE]);
            counters.lines().any(|line| line.contains("rx_queue_1_xdp_packets:") && !line.ends_with(": 0"))
        };
        // The peer sends by two queues, which are two to receive from here.
        for side in [Server, Client] {
            net.output(side, &["ethtool", "-L", INTERFACE, "rx", "2", "tx", "2"]);
        }
        wait_until("packets come by the second queue", DEADLINE, second);
        assert_wrk(&load.finish(DEADLINE).success().stdout);
        net.assert_kernel_received(Server, &before, 0);
        let fewer = net.run(Server, &["ethtool", "-L", INTERFACE, "rx", "1"]);
        assert!(!fewer.status.success(), "the kernel takes no queue that has a socket");
        // Their ports are others, so they come by both queues.
        for _ in 0..12 {
            assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large);
        }
    }
}

/// The MTU of both ends goes down while bytes flow, and up again: nothing stalls.
#[test]
fn a_changed_mtu_is_followed() {
    let net = Net::new();
    let [large, _] = site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let url = net.url(80, "large.bin");
    let slow = ["curl", "-sS", "--fail", "--max-time", "50", "--limit-rate", "8M", "-o", "slow", &url];
    let download = net.spawn(Client, &slow);
    net.untouched(Server, || {
        for mtu in ["1280", "1500"] {
            for side in [Server, Client] {
                ip(&net, side, &["link", "set", INTERFACE, "mtu", mtu]);
            }
            assert_eq!(fetch(&net, Client, ON_KERNEL, &url), large);
        }
        download.finish(DEADLINE).success();
    });
    assert_eq!(digest_of(text(&net.path("slow"))).expect("curl has written it"), large);
}

/// A link address that changes: the kernel's neighbors hear of it, and so do we.
#[test]
fn a_changed_link_address_is_followed() {
    let net = Net::new();
    let [large, _] = site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    for (side, mac) in [(Server, "02:00:00:00:77:01"), (Client, "02:00:00:00:77:02")] {
        ip(&net, side, &["link", "set", INTERFACE, "address", mac]);
        // As the kernel does where arp_notify is on.
        for other in [Server, Client] {
            ip(&net, other, &["neigh", "flush", "dev", INTERFACE]);
        }
        net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large));
    }
}

/// A link that goes down for 1.5 s, at either end, loses no connection: what was under way is sent again.
#[test]
fn a_link_that_comes_back_loses_no_connection() {
    let net = Net::new();
    let [large, _] = site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let url = net.url(80, "large.bin");
    for (number, side) in [Client, Server, Server].into_iter().enumerate() {
        let name = format!("slow{number}");
        let slow = ["curl", "-sS", "--fail", "--max-time", "50", "--limit-rate", "4M", "-o", &name, &url];
        let download = net.spawn(Client, &slow);
        let got = net.path(&name);
        wait_until("the download has begun", DEADLINE, || got.metadata().is_ok_and(|file| file.len() > 1_000_000));
        net.output(side, &["sh", "-c", &format!("ip link set {INTERFACE} down; sleep 1.5; ip link set {INTERFACE} up")]);
        download.finish(DEADLINE).success();
        assert_eq!(digest_of(got).expect("curl has written it"), large);
    }
}
