//! Packet filters and policy routing of the kernel, which packets of the stack do not obey: an interface that they concern is
//! the kernel's.

use crate::harness::*;
use crate::http::{fetch, nginx_config, site};
use crate::interfaces::second_wire;

const ON_KERNEL: &[&str] = &[];
const CHAIN: &str = "add table inet filter; add chain inet filter input { type filter hook input priority 0; policy accept; }";

fn nft(net: &Net, commands: &str) {
    net.output(Server, &["nft", commands]);
}

/// What the kernel's TCP of the server has received.
fn kernel_segments(net: &Net) -> u64 {
    net.kernel_counter(Server, "Tcp", "InSegs")
}

#[test]
fn a_rule_that_comes_gives_the_interface_back_and_one_that_goes_lets_it_be_served() {
    let net = Net::new();
    let [large, _] = site(&net);
    nft(&net, CHAIN);
    nft(&net, "add rule inet filter input ct state established,related counter accept");
    nft(&net, "add rule inet filter input iifname other drop");
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let url = net.url(80, "large.bin");
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &url), large));
    for round in 1..=2 {
        nft(&net, "add rule inet filter input tcp dport 81 drop");
        nginx.wait_for_error_lines(&format!("serves {INTERFACE} no more: it has firewall rules"), round);
        let before = kernel_segments(&net);
        assert_eq!(fetch(&net, Client, ON_KERNEL, &url), large);
        assert!(kernel_segments(&net) > before + 10, "the kernel's TCP has carried it");
        nft(&net, "add rule inet filter input tcp dport 80 drop");
        let refused = net.run(Client, &["curl", "-sS", "--max-time", "2", &url]);
        assert_eq!(refused.code(), 28, "the rule drops: {}", refused.stderr);
        nft(&net, "flush chain inet filter input");
        nginx.wait_for_error_lines(&format!("serves {INTERFACE}"), 2 * round);
        net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &url), large));
    }
}

#[test]
fn a_firewall_that_is_there_at_the_start_is_respected_and_named() {
    let net = Net::new();
    let [large, _] = site(&net);
    nft(&net, "add table ip filter; add chain ip filter input { type filter hook input priority 0; policy drop; }");
    nft(&net, "add rule ip filter input tcp dport 80 accept");
    let reason = "table ip filter, chain input: policy drop";
    let dry = net.run(Server, &[RINGWAY, "run", "--dry-run", "--", "true"]);
    assert!(dry.code() == 1 && dry.stdout.contains(reason) && dry.stdout.contains("policy.firewall"), "{}", dry.stdout);
    let doctor = net.run(Server, &[RINGWAY, "doctor"]);
    assert!(doctor.stdout.contains(reason), "{}", doctor.stdout);
    let strict = net.run(Server, &[RINGWAY, "run", "-e", "strict", "--", "true"]);
    assert!(strict.code() != 0 && strict.stderr.contains(reason), "{}", strict.stderr);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_listening(Server, 80, &mut nginx);
    nginx.wait_for_error_line(reason);
    let before = kernel_segments(&net);
    assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large);
    assert!(kernel_segments(&net) > before + 10, "the kernel's TCP has carried it");
}

#[test]
fn an_operator_may_be_warned_or_take_it_on() {
    let net = Net::new();
    let [large, _] = site(&net);
    nft(&net, CHAIN);
    nft(&net, "add rule inet filter input tcp dport 80 reject");
    let words = "do not pass the firewall (table inet filter, chain input: rejects)";
    for (choice, port, warns) in [("warn", 80, true), ("ignore", 8080, false)] {
        let config = nginx_config(&net, port);
        let command = ringway(&["nginx", "-c", &config]);
        let mut nginx = net.spawn_with(Server, &command, &[("RINGWAY_POLICY_FIREWALL", choice)], None);
        net.wait_served(Server, port, &mut nginx);
        net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(port, "large.bin")), large));
        assert_eq!(nginx.stderr().contains(words), warns, "{}", nginx.stderr());
    }
}

/// Another interface is served meanwhile: what was guarded at the start is served when the rule goes.
#[test]
fn policy_routing_and_rules_for_one_interface_are_followed() {
    let net = Net::new();
    let [large, _] = site(&net);
    second_wire(&net);
    nft(&net, CHAIN);
    nft(&net, &format!("add rule inet filter input iifname {INTERFACE} tcp dport 81 drop"));
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    let url = "http://10.78.0.1/large.bin";
    nginx.wait_for_error_line(&format!("{INTERFACE} has firewall rules"));
    net.wait_listening(Server, 80, &mut nginx);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, url), large));
    nft(&net, "flush ruleset");
    nginx.wait_for_error_line(&format!("serves {INTERFACE}"));
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large));
    net.output(Server, &["ip", "rule", "add", "from", "10.99.0.0/16", "lookup", "200"]);
    nginx.wait_for_error_lines("serves veth2 no more: it has routes that Ringway does not know", 1);
    assert_eq!(fetch(&net, Client, ON_KERNEL, url), large);
    net.output(Server, &["ip", "rule", "delete", "from", "10.99.0.0/16", "lookup", "200"]);
    nginx.wait_for_error_lines("serves veth2 (", 1);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, url), large));
}

/// Routes of an interface that was closed lead nowhere in the stack: connections that are made then are the kernel's.
#[test]
fn connections_from_an_interface_that_a_rule_guards_are_the_kernels() {
    let net = Net::new();
    let [large, _] = site(&net);
    nft(&net, CHAIN);
    let mut nginx = net.spawn(Client, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_listening(Client, 80, &mut nginx);
    let (mut service, name) = net.serve(Server, &[]);
    let url = format!("http://{}/large.bin", net.address(Client));
    let fetch = || {
        let file = text(&net.path("fetched"));
        net.output(Server, &[RINGWAY, "run", "--name", &name, "-q", "--", "curl", "-sS", "--max-time", "20", "-o", &file, &url]);
        digest_of(&file).expect("curl has written it")
    };
    net.untouched(Server, || assert_eq!(fetch(), large));
    nft(&net, "add rule inet filter input tcp dport 81 drop");
    service.wait_for_error_line("no more: it has firewall rules");
    let before = kernel_segments(&net);
    assert_eq!(fetch(), large);
    assert!(kernel_segments(&net) > before + 10, "the kernel's TCP has carried it");
}
