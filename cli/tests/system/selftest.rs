//! The self-test of AF_XDP: a card that carries packets serves; one that does not is given back, and packet sockets serve.

use std::fs::File;
use std::os::fd::AsFd;

use ringway_device::interface::Interface;
use ringway_device::steering::{Attachment, Steering};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::harness::*;
use crate::http::{assert_wrk, fetch, nginx_config, site};

const ON_KERNEL: &[&str] = &[];

/// The peer drops what the self-test sends by AF_XDP: no router has taken a hop off, while the kernel's packets have fewer.
const LOSES: &str = "ip ttl 255 icmp type echo-request drop";

/// A service over AF_XDP with this `xdp_mode`, started when both ends know each other.
fn serve(net: &Net, mode: &str) -> (Process, String) {
    net.output(Server, &["ping", "-c", "1", "-W", "5", &net.address(Client)]);
    let config = net.file("ringway.toml", format!("[interface]\ndevice = \"xdp\"\nxdp_mode = \"{mode}\"\n"));
    net.serve(Server, &["--config", &config])
}

/// nginx behind the service: a large file arrives, and the kernel sees nothing of it.
fn assert_serves(net: &Net, name: &str, large: &str) {
    let config = nginx_config(net, 80);
    let mut nginx = net.spawn(Server, &[RINGWAY, "run", "--name", name, "--", "nginx", "-c", &config]);
    net.wait_served(Server, 80, &mut nginx);
    net.untouched(Server, || assert_eq!(fetch(net, Client, ON_KERNEL, &net.url(80, "large.bin")), large));
}

/// Returns the lines of `ringway doctor` about this service's devices.
fn doctor(net: &Net, name: &str) -> String {
    let report = net.run(Server, &[RINGWAY, "doctor"]).stdout;
    report.lines().filter(|line| line.contains(&format!("service {name}"))).map(|line| format!("{line}\n")).collect()
}

fn attached(net: &Net) -> bool {
    net.output(Server, &["ip", "link", "show", INTERFACE]).contains("xdp")
}

#[test]
fn a_card_that_passes_serves_over_af_xdp() {
    let net = Net::new();
    let [large, _] = site(&net);
    for (mode, way) in [("native", "native, copy"), ("generic", "generic, copy")] {
        let (mut service, name) = serve(&net, mode);
        service.wait_for_error_line(&format!("(af_xdp, {way}, self-test passed)"));
        assert!(attached(&net), "the program is there");
        assert_serves(&net, &name, &large);
        let said = doctor(&net, &name);
        assert!(said.starts_with("OK") && said.contains(&format!("{INTERFACE}, {way}: PASS")), "{said}");
    }
}

/// From now on the self-test fails.
fn lose(net: &Net) {
    net.output(Client, &["nft", "add", "table", "ip", "walls"]);
    net.output(Client, &["nft", "add chain ip walls in { type filter hook input priority 0 ; }"]);
    net.output(Client, &["nft", &format!("add rule ip walls in {LOSES}")]);
}

/// When the MTU changes, the devices of all workers are closed, and opened again once they have passed the self-test, or packet sockets are in their
/// place. The kernel sees nothing of the connections meanwhile, which it would reset.
#[test]
fn connections_live_on_while_devices_are_replaced() {
    for (workers, loses) in [("1", false), ("2", false), ("1", true), ("2", true)] {
        let net = Net::new();
        site(&net);
        net.output(Server, &["ping", "-c", "1", "-W", "5", &net.address(Client)]);
        let config = net.file("ringway.toml", "[interface]\ndevice = \"xdp\"\n");
        let (mut service, name) = net.serve(Server, &["--config", &config, "--workers", workers]);
        let mut nginx = net.spawn(Server, &[RINGWAY, "run", "--name", &name, "--", "nginx", "-c", &nginx_config(&net, 80)]);
        net.wait_served(Server, 80, &mut nginx);
        let load = net.spawn(Client, &["wrk", "-t1", "-c16", "-d6s", "--timeout", "20s", &net.url(80, "small.txt")]);
        wait_until("it has connected", DEADLINE, || {
            net.output(Server, &[RINGWAY, "ss", "-Htn", "--name", &name, "state", "established"]).lines().count() == 16
        });
        if loses {
            lose(&net);
        }
        let program = || net.output(Server, &["ip", "-o", "link", "show", INTERFACE]).split("prog/xdp").nth(1).map(str::to_owned);
        let before = program();
        net.output(Server, &["ip", "link", "set", INTERFACE, "mtu", "1400"]);
        if loses {
            service.wait_for_error_line("packet sockets serve it");
        } else {
            wait_until("the device is new", DEADLINE, || program().is_some_and(|now| Some(now) != before));
        }
        assert_wrk(&load.finish(DEADLINE).success().stdout);
        assert_eq!(attached(&net), !loses, "{}", service.stderr());
    }
}

#[test]
fn a_card_that_loses_packets_is_given_back_and_packet_sockets_serve() {
    let net = Net::new();
    let [large, _] = site(&net);
    lose(&net);
    let (mut service, name) = serve(&net, "auto");
    service.wait_for_error_line("AF_XDP failed its self-test (native, copy: no answer to an echo request of 64 bytes");
    service.wait_for_error_line("generic, copy: no answer");
    service.wait_for_error_line("packet sockets serve it");
    assert!(!attached(&net), "the program is gone");
    assert_serves(&net, &name, &large);
    let said = doctor(&net, &name);
    assert!(said.matches("FAIL: no answer").count() == 2 && said.starts_with("WARN"), "{said}");
    // What has failed is not tried again: the device that comes with another MTU is the packet socket's at once.
    for side in [Client, Server] {
        net.output(side, &["ip", "link", "set", INTERFACE, "mtu", "1400"]);
    }
    service.wait_for_error_lines("packet sockets serve it", 2);
    assert!(!attached(&net), "the program is gone");
}

#[test]
fn without_a_neighbor_that_answers_it_serves_untested() {
    let net = Net::new();
    let [large, _] = site(&net);
    net.output(Client, &["sysctl", "-qw", "net.ipv4.icmp_echo_ignore_all=1"]);
    net.run(Server, &["ping", "-c", "1", "-W", "1", &net.address(Client)]);
    let config = net.file("ringway.toml", "[interface]\ndevice = \"xdp\"\n");
    let (mut service, name) = net.serve(Server, &["--config", &config]);
    service.wait_for_error_line("is not tested: no neighbor answers the kernel an echo request");
    assert_serves(&net, &name, &large);
    assert!(doctor(&net, &name).contains("NOT TRIED: no neighbor answers"), "{}", doctor(&net, &name));
}

/// `ringway doctor --self-test` tries every way on an interface that no service has, and leaves nothing.
#[test]
fn doctor_tries_af_xdp_when_asked() {
    let net = Net::new();
    net.output(Server, &["ping", "-c", "1", "-W", "5", &net.address(Client)]);
    let report = net.run(Server, &[RINGWAY, "doctor", "--self-test"]).stdout;
    for way in ["native, copy", "generic, copy"] {
        let line = report.lines().find(|line| line.contains(&format!("af_xdp, {way}: PASS")));
        assert!(line.is_some_and(|line| line.starts_with("OK")), "{report}");
    }
    assert!(report.contains("native, zero-copy: NOT AVAILABLE"), "veth has none: {report}");
    assert!(!attached(&net), "the program is gone");
}

/// More programs than the kernel runs at one hook.
const PROGRAMS: usize = 100;

/// Fills the hook at which packets are hidden from the kernel, so that packet sockets cannot share the server's interface.
fn fill_the_hook(net: &Net) -> Vec<Attachment> {
    let namespace = File::open(format!("/run/netns/{}", net.namespace(Server))).expect("the wire's");
    let fill = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("root");
        let index = Interface::open(INTERFACE).expect("the wire's").index;
        let steering = Steering::new(1).expect("root");
        let attached: Vec<_> = (0..PROGRAMS).map_while(|_| steering.hide_from_kernel(index).ok()).collect();
        assert!((1..PROGRAMS).contains(&attached.len()), "{} programs: the hook is not full", attached.len());
        attached
    };
    std::thread::spawn(fill).join().expect("the hook can be filled")
}

#[test]
fn auto_takes_af_xdp_where_packet_sockets_do_not_work_and_it_passes() {
    let net = Net::new();
    let [large, _] = site(&net);
    let filled = fill_the_hook(&net);
    // The programs are another's, which the service respects otherwise.
    let config = net.file("ringway.toml", "[policy]\nfirewall = \"ignore\"\n");
    let ended = net.run(Server, &[RINGWAY, "serve", "--config", &config, "--name", "untested"]);
    assert!(ended.code() == 1 && ended.stderr.contains("AF_XDP cannot be tested: no neighbor is known"), "{}", ended.stderr);
    net.output(Server, &["ping", "-c", "1", "-W", "5", &net.address(Client)]);
    let (mut service, name) = net.serve(Server, &["--config", &config]);
    service.wait_for_error_line("(af_xdp, native, copy, self-test passed)");
    assert_serves(&net, &name, &large);
    drop(filled);
}
