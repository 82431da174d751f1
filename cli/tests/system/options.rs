//! Options that guard a socket: their *effect* is the same on the kernel and on Ringway, whatever setsockopt has answered.
//!
//! `options/guards.py` sets them before `listen`, `connect` or `bind`; what the stack does not serve must then be the kernel's
//! socket, and the library says so by name. The whole table of options is held by unit tests of `posix`.

use crate::harness::*;

const PORT: &str = "5600";

/// Returns the output of server and client, and what the library said beside it.
fn play(net: &Net, address: &str, server: &[&str], client: &[&str]) -> ([String; 2], [String; 2]) {
    let script = text(&net.path("guards.py"));
    let mut serving = net.spawn(Server, &[server, &["python3", &script, "server", address, PORT]].concat());
    net.wait_listening(Server, PORT.parse().expect("a number"), &mut serving);
    let client = net.run(Client, &[client, &["python3", &script, "client", address, PORT]].concat());
    let server = serving.finish(DEADLINE);
    let ended = [server, client].map(|ended| {
        assert!(ended.status.success(), "{}\n{}\n{}", ended.status, ended.stdout, ended.stderr);
        (ended.stdout, ended.stderr)
    });
    let [(server, server_said), (client, client_said)] = ended;
    ([server, client], [server_said, client_said])
}

fn guards(address: fn(&Net, Side) -> String, named: &[&str], named_by_client: &[&str]) {
    let net = Net::new();
    net.file("common.py", SCRIPTS_SHARE);
    net.file("guards.py", include_str!("options/guards.py"));
    let address = address(&net, Server);
    let ringway = ["env", "RINGWAY_LOG=fallback", RINGWAY, "run", "-q", "--workers", "1", "--"];
    let (reference, _) = play(&net, &address, &[], &[]);
    let (server_on_ringway, [said, _]) = play(&net, &address, &ringway, &[]);
    assert_eq!(server_on_ringway, reference, "the server on Ringway against the kernel's (left: Ringway)");
    let (client_on_ringway, [_, client_said]) = play(&net, &address, &[], &ringway);
    assert_eq!(client_on_ringway, reference, "the client on Ringway against the kernel's (left: Ringway)");
    let is_named = |said: &str, name: &str| said.lines().any(|line| line.contains("option-not-served") && line.ends_with(name));
    for name in named {
        assert!(is_named(&said, name), "{name} is not named in\n{said}");
    }
    for name in named_by_client {
        assert!(is_named(&client_said, name), "{name} is not named in\n{client_said}");
    }
}

#[test]
fn guards_hold() {
    let named = ["IP_MINTTL", "SO_ATTACH_FILTER", "SO_BINDTODEVICE", "SO_BINDTOIFINDEX", "IP_TRANSPARENT", "TCP_SAVE_SYN"];
    let all = [&named[..], &["SO_ATTACH_REUSEPORT_CBPF"]].concat();
    guards(Net::address, &all, &["SO_BINDTODEVICE", "SO_MARK", "IP_LOCAL_PORT_RANGE", "SO_ZEROCOPY"]);
}

#[test]
fn guards_hold_over_ipv6() {
    guards(Net::address6, &["IPV6_MINHOPCOUNT", "SO_ATTACH_FILTER", "SO_BINDTODEVICE", "IPV6_TRANSPARENT"], &["SO_MARK"]);
}
