//! socat: one way and echo, as server and as client.

use crate::harness::*;

/// Sends a file one way; the receiver writes what it got.
fn one_way(net: &Net, server: &[&str], client: &[&str]) {
    let content = noise(6, LARGE);
    let (input, got) = (net.file("input", &content), text(&net.path("got")));
    let create = format!("CREATE:{got}");
    let listen = [server, &["socat", "-u", "TCP4-LISTEN:5000,reuseaddr", &create]].concat();
    let mut receiver = net.spawn(Server, &listen);
    wait(net, server, 5000, &mut receiver);
    let target = format!("TCP4:{}:5000", net.address(Server));
    let file = format!("FILE:{input}");
    net.output(Client, &[client, &["socat", "-u", &file, &target]].concat());
    receiver.finish(DEADLINE).success();
    assert_eq!(digest_of(&got).expect("socat has written the file"), digest(&content));
}

/// Sends a file to an echo server with a child per connection, half-closes, reads it back.
fn echo(net: &Net, server: &[&str], client: &[&str]) {
    let content = noise(7, LARGE);
    let input = net.path(&net.file("input", &content));
    let mut echo = net.spawn(Server, &[server, &["socat", "TCP4-LISTEN:5001,reuseaddr,fork", "EXEC:cat"]].concat());
    wait(net, server, 5001, &mut echo);
    for round in 0..2 {
        let got = format!("got{round}");
        let target = format!("TCP4:{}:5001", net.address(Server));
        let streams = format!("STDIN!!CREATE:{}", text(&net.path(&got)));
        let arguments = [client, &["socat", "-t", "30", &streams, &target]].concat();
        net.spawn_with(Client, &arguments, &[], Some(&input)).finish(DEADLINE).success();
        assert_eq!(digest_of(net.path(&got)).expect("socat has written the file"), digest(&content));
    }
}

fn wait(net: &Net, launcher: &[&str], port: u16, server: &mut Process) {
    match launcher {
        [] => net.wait_listening(Server, port, server),
        _ => net.wait_served(Server, port, server),
    }
}

const ON_RINGWAY: &[&str] = &[RINGWAY, "run", "-q", "--"];

#[test]
fn socat_receives_on_ringway() {
    let net = Net::new();
    net.untouched(Server, || one_way(&net, ON_RINGWAY, &[]));
}

#[test]
fn socat_sends_on_ringway() {
    let net = Net::new();
    net.untouched(Client, || one_way(&net, &[], ON_RINGWAY));
}

#[test]
fn socat_echoes_on_ringway() {
    let net = Net::new();
    net.untouched(Server, || echo(&net, ON_RINGWAY, &[]));
}

#[test]
fn socat_is_echoed_on_ringway() {
    let net = Net::new();
    net.untouched(Client, || echo(&net, &[], ON_RINGWAY));
}
