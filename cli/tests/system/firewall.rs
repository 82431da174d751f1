//! Packet filters of the kernel, which packets of the stack do not pass: ports and connections that they may refuse, and
//! interfaces that policy routing concerns, are the kernel's.

mod cgroups;
mod oracle;

use crate::harness::*;
use crate::http::{fetch, nginx_config, site};
use crate::interfaces::second_wire;

const ON_KERNEL: &[&str] = &[];
const CHAIN: &str = "add table inet filter; add chain inet filter input { type filter hook input priority 0; policy accept; }";

fn nft(net: &Net, commands: &str) {
    net.output(Server, &["nft", commands]);
}

/// Counts the segments that the kernel's TCP of the server has received.
fn kernel_segments(net: &Net) -> u64 {
    net.kernel_counter(Server, "Tcp", "InSegs")
}

/// The firewall of an ordinary server.
fn server_rules(net: &Net, more: &str) {
    let text = format!(
        "flush ruleset
        table inet filter {{
            chain input {{
                type filter hook input priority 0; policy drop;
                ct state established,related accept
                ct state invalid drop
                iif lo accept
                {more}
            }}
        }}"
    );
    let file = net.file("rules.nft", &text);
    net.output(Server, &["nft", "-f", &file]);
}

/// Waits until the stack carries a download.
fn wait_served_again(net: &Net, server: &mut Process, url: &str, content: &str) {
    server.wait_while_running("serves the port again", || {
        let before = kernel_segments(net);
        fetch(net, Client, ON_KERNEL, url) == content && kernel_segments(net) == before
    });
}

/// curl's exit status for a download that must fail: 7 (refused) or 28 (no answer).
fn fails(net: &Net, url: &str) -> i32 {
    net.run(Client, &["curl", "-sS", "-o", "/dev/null", "--max-time", "2", url]).code()
}

const ALLOWED: &str = "tcp dport { 22, 80, 443 } accept";

#[test]
fn behind_an_ordinary_firewall_an_allowed_port_is_served_and_another_is_as_without_ringway() {
    let net = Net::new();
    let [large, _] = site(&net);
    server_rules(&net, ALLOWED);
    let dry = net.run(Server, &[RINGWAY, "run", "--dry-run", "--", "true"]);
    assert!(dry.code() == 0 && dry.stdout.contains("firewall"), "{}", dry.stdout);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large));
    let log = [("RINGWAY_LOG", "fallback")];
    let mut other = net.spawn_with(Server, &ringway(&["nginx", "-c", &nginx_config(&net, 81)]), &log, None);
    net.wait_listening(Server, 81, &mut other);
    other.wait_for_error_line(
        "the kernel serves TCP port 81: the firewall does not let all packets pass (table inet filter, chain input: policy drop)",
    );
    other.wait_for_error_line("fallback=firewall listen");
    assert_eq!(fails(&net, &net.url(81, "large.bin")), 28, "the policy drops");
    let strict = net.run(Server, &[RINGWAY, "run", "-e", "strict", "--", "nginx", "-c", &nginx_config(&net, 82)]);
    assert!(strict.code() != 0 && strict.stderr.contains("Network is down"), "{}", strict.stderr);
}

#[test]
fn a_rule_that_comes_gives_the_port_back_and_one_that_goes_lets_it_be_served() {
    let net = Net::new();
    let [large, _] = site(&net);
    server_rules(&net, ALLOWED);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let url = net.url(80, "large.bin");
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &url), large));
    let open = net.spawn(Client, &["python3", "-c", HOLDS, &net.address(Server)]);
    nginx.wait_while_running("has the connection", || {
        let sockets = net.run(Server, &[RINGWAY, "ss", "-Htn"]).stdout;
        sockets.lines().any(|line| line.contains(":80 "))
    });
    for round in 1..=2 {
        server_rules(&net, "tcp dport { 22, 443 } accept");
        nginx.wait_for_error_lines("the kernel serves TCP port 80: the firewall does not let all packets pass", 2 * round - 1);
        nginx.wait_while_running("is behind the policy", || fails(&net, &url) == 28);
        // The rule depends on the peer, so the kernel decides.
        server_rules(&net, &format!("ip saddr {} tcp dport 80 accept", net.address(Client)));
        nginx.wait_for_error_lines("which depends on the peer's address", round);
        let before = kernel_segments(&net);
        assert_eq!(fetch(&net, Client, ON_KERNEL, &url), large);
        assert!(kernel_segments(&net) > before + 10, "the kernel's TCP has carried it");
        server_rules(&net, ALLOWED);
        wait_served_again(&net, &mut nginx, &url, &large);
    }
    // What was open when the rule came has ended.
    assert_eq!(open.finish(DEADLINE).success().stdout, "over\n");
}

/// Opens a connection and waits for its end, whatever that is.
const HOLDS: &str = r"
import socket, sys
s = socket.create_connection((sys.argv[1], 80))
s.settimeout(0.2)
while True:
    try:
        s.sendall(b'G')
        if not s.recv(100): break
    except TimeoutError: continue
    except OSError: break
print('over')
";

const ECHO: &str = r"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('0.0.0.0', 5353))
while True:
    data, peer = s.recvfrom(100)
    s.sendto(data, peer)
";

/// Datagrams may be lost, the more so when rules change.
const ASK: &str = r"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.5)
for _ in range(60):
    s.sendto(b'?', (sys.argv[1], 5353))
    try:
        s.recv(100)
        print('echo')
        break
    except OSError:
        pass
";

#[test]
fn a_datagram_socket_goes_on_at_the_kernel_when_a_rule_guards_it() {
    let net = Net::new();
    server_rules(&net, "udp dport 5353 accept");
    let mut server = net.spawn_ringway(Server, &["python3", "-c", ECHO]);
    let received = || net.kernel_counter(Server, "Udp", "InDatagrams");
    let ask = || assert_eq!(net.output(Client, &["python3", "-c", ASK, &net.address(Server)]), "echo\n");
    ask();
    let before = received();
    ask();
    assert_eq!(received(), before, "the stack has answered");
    // The rule depends on the peer now.
    server_rules(&net, &format!("ip saddr {} udp dport 5353 accept", net.address(Client)));
    server.wait_for_error_line("the kernel serves UDP port 5353");
    ask();
    server.wait_while_running("is the kernel's", || {
        let before = received();
        ask();
        received() > before
    });
    let listed = net.output(Server, &[RINGWAY, "ss", "-Huna"]);
    let rows: Vec<&str> = listed.lines().filter(|line| line.contains(":5353")).collect();
    assert!(rows.len() == 1 && rows[0].contains("path:kernel reason:firewall count:"), "{listed}");
}

#[test]
fn connections_are_opened_where_the_rules_let_them_pass() {
    let net = Net::new();
    let [large, _] = site(&net);
    server_rules(&net, "");
    nft(&net, "add chain inet filter output { type filter hook output priority 0; policy accept; }");
    nft(&net, "add rule inet filter output tcp dport 81 reject");
    // They read the same file of configuration, one after the other.
    let _servers = [80, 81].map(|port| {
        let mut server = net.spawn(Client, &["nginx", "-c", &nginx_config(&net, port)]);
        net.wait_listening(Client, port, &mut server);
        server
    });
    let (mut service, name) = net.serve(Server, &[]);
    let fetch = |port: u16| {
        let file = text(&net.path("fetched"));
        let url = format!("http://{}:{port}/large.bin", net.address(Client));
        let curl = ["curl", "-sS", "--max-time", "20", "-o", &file, &url];
        let run = net.run(Server, &[&[RINGWAY, "run", "--name", &name, "-q", "--"], &curl[..]].concat());
        (run.code(), digest_of(&file).ok())
    };
    net.untouched(Server, || assert_eq!(fetch(80), (0, Some(large.clone()))));
    assert_eq!(fetch(81).0, 7, "the rule rejects");
    service.wait_for_error_line("the kernel serves connections to TCP port 81");
    nft(&net, "flush chain inet filter output");
    nft(&net, &format!("add rule inet filter output ip daddr {} tcp dport 80 drop", net.address(Client)));
    service.wait_while_running("obeys the new rule", || fetch(80).0 == 28 || fetch(80).0 == 7);
}

#[test]
fn an_operator_may_be_warned_or_take_it_on() {
    let net = Net::new();
    let [large, _] = site(&net);
    nft(&net, CHAIN);
    nft(&net, "add rule inet filter input tcp dport 80 reject");
    let words = "packets of TCP port 80 do not pass the firewall (table inet filter, chain input: rejects)";
    for (choice, port, warns) in [("warn", 80, true), ("ignore", 8080, false)] {
        let config = nginx_config(&net, port);
        let command = ringway(&["nginx", "-c", &config]);
        let mut nginx = net.spawn_with(Server, &command, &[("RINGWAY_POLICY_FIREWALL", choice)], None);
        net.wait_served(Server, port, &mut nginx);
        net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(port, "large.bin")), large));
        assert_eq!(nginx.stderr().contains(words), warns, "{}", nginx.stderr());
    }
}

/// An operator changes what rules mean while a service runs: what they refused is served, and is the kernel's again.
#[test]
fn what_rules_mean_changes_while_a_service_runs() {
    let net = Net::new();
    let [large, _] = site(&net);
    let (mut service, name) = net.serve(Server, &[]);
    let run = [RINGWAY, "run", "-q", "--name", &name, "--"];
    let mut nginx = net.spawn(Server, &[&run[..], &["nginx", "-c", &nginx_config(&net, 80)]].concat());
    net.wait_served(Server, 80, &mut nginx);
    let url = net.url(80, "large.bin");
    nft(&net, CHAIN);
    nft(&net, "add rule inet filter input ip saddr 10.99.0.0/16 tcp dport 80 drop");
    service.wait_for_error_line("the kernel serves TCP port 80");
    let set = |value: &str| {
        net.output(Server, &[RINGWAY, "config", "set", "--name", &name, value]);
    };
    for choice in ["warn", "ignore"] {
        set(&format!("policy.firewall={choice}"));
        wait_served_again(&net, &mut nginx, &url, &large);
        set("policy.firewall=respect");
        nginx.wait_while_running("leaves the port to the kernel", || {
            let before = kernel_segments(&net);
            fetch(&net, Client, ON_KERNEL, &url) == large && kernel_segments(&net) > before + 10
        });
    }
    nft(&net, "flush ruleset");
    wait_served_again(&net, &mut nginx, &url, &large);
    net.output(Server, &["ip", "rule", "add", "from", "10.99.0.0/16", "lookup", "200"]);
    service.wait_for_error_lines("no more: it has routes that Ringway does not know", 1);
    set("policy.routing=ignore");
    wait_served_again(&net, &mut nginx, &url, &large);
    set("policy.routing=respect");
    service.wait_for_error_lines("no more: it has routes that Ringway does not know", 2);
}

/// Another interface is served meanwhile.
#[test]
fn policy_routing_and_rules_for_one_interface_are_followed() {
    let net = Net::new();
    let [large, _] = site(&net);
    second_wire(&net);
    nft(&net, CHAIN);
    nft(&net, "add rule inet filter input iifname other tcp dport 80 drop");
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    let url = "http://10.78.0.1/large.bin";
    net.wait_served(Server, 80, &mut nginx);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, url), large));
    // Packets of a port may come by any interface.
    nft(&net, &format!("add rule inet filter input iifname {INTERFACE} tcp dport 80 drop"));
    nginx.wait_for_error_line("the kernel serves TCP port 80");
    nginx.wait_while_running("leaves the port to the kernel", || {
        let before = kernel_segments(&net);
        fetch(&net, Client, ON_KERNEL, url) == large && kernel_segments(&net) > before + 10
    });
    nft(&net, "flush ruleset");
    wait_served_again(&net, &mut nginx, url, &large);
    net.output(Server, &["ip", "rule", "add", "from", "10.99.0.0/16", "lookup", "200"]);
    nginx.wait_for_error_lines("serves veth2 no more: it has routes that Ringway does not know", 1);
    assert_eq!(fetch(&net, Client, ON_KERNEL, url), large);
    net.output(Server, &["ip", "rule", "delete", "from", "10.99.0.0/16", "lookup", "200"]);
    nginx.wait_for_error_lines("serves veth2 (", 1);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, url), large));
}

/// Routes of an interface that was closed lead nowhere in the stack: connections that are made then are the kernel's.
#[test]
fn connections_from_an_interface_that_policy_routing_concerns_are_the_kernels() {
    let net = Net::new();
    let [large, _] = site(&net);
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
    net.output(Server, &["ip", "rule", "add", "from", "10.99.0.0/16", "lookup", "200"]);
    service.wait_for_error_line("no more: it has routes that Ringway does not know");
    let before = kernel_segments(&net);
    assert_eq!(fetch(), large);
    assert!(kernel_segments(&net) > before + 10, "the kernel's TCP has carried it");
}
