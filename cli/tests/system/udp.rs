//! Datagrams of unmodified programs: each script says on Ringway what it says on the kernel, with either end on Ringway.

use crate::harness::*;

const PORT: &str = "5600";

/// Datagrams that the kernel's UDP has received in this namespace.
fn kernel_datagrams(net: &Net, side: Side) -> u64 {
    net.kernel_counter(side, "Udp", "InDatagrams")
}

/// Returns the output of server and client.
fn play(net: &Net, script: &str, address: &str, server: &[&str], client: &[&str]) -> [String; 2] {
    let mut serving = net.spawn(Server, &[server, &["python3", script, "server", address, PORT]].concat());
    net.wait_printed(&mut serving, "ready");
    let client = net.run(Client, &[client, &["python3", script, "client", address, PORT]].concat());
    let server = serving.finish(DEADLINE);
    [server, client].map(|ended| {
        assert!(ended.status.success(), "{script}: {}\n{}\n{}", ended.status, ended.stdout, ended.stderr);
        ended.stdout
    })
}

fn same_on_both(name: &str, script: &str, address: fn(&Net, Side) -> String) {
    let net = Net::new();
    let address = address(&net, Server);
    net.file("common.py", SCRIPTS_SHARE);
    let script = net.file(&format!("{name}.py"), script);
    let ringway = [RINGWAY, "run", "-q", "--"];
    let reference = play(&net, &script, &address, &[], &[]);
    for (side, server, client) in [(Server, &ringway[..], &[][..]), (Client, &[][..], &ringway[..])] {
        let before = kernel_datagrams(&net, side);
        let answer = play(&net, &script, &address, server, client);
        assert_eq!(answer, reference, "{side:?} on Ringway against the kernel's (left: Ringway)");
        assert_eq!(kernel_datagrams(&net, side) - before, 0, "datagrams received by the kernel's UDP of {side:?}");
    }
}

macro_rules! scripts {
    ($address:expr; $($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            same_on_both(stringify!($name), include_str!(concat!("udp/", stringify!($name), ".py")), $address);
        })*
    };
}

scripts! {
    Net::address;
    basics, messages, batches, pieces, ways, errors,
}

/// iperf3's own count says how much arrived; both directions, Ringway as the client.
#[test]
fn iperf3_both_ways() {
    let net = Net::new();
    let mut server = net.spawn(Server, &["iperf3", "-s", "-p", "5601"]);
    net.wait_listening(Server, 5601, &mut server);
    let address = net.address(Server);
    for reverse in [&[][..], &["-R"]] {
        let client = [&["iperf3", "-u", "-b", "20M", "-t", "2", "-J", "-p", "5601", "-c", &address], reverse].concat();
        let before = kernel_datagrams(&net, Client);
        let report = net.output_ringway(Client, &client);
        assert_eq!(kernel_datagrams(&net, Client) - before, 0, "datagrams received by the kernel's UDP");
        let report: serde_json::Value = serde_json::from_str(&report).expect("iperf3 prints JSON");
        let sum = &report["end"]["sum"];
        let (packets, lost) = (sum["packets"].as_u64().unwrap_or(0), sum["lost_packets"].as_u64().unwrap_or(0));
        assert!(packets > 1_000 && lost * 10 < packets, "{reverse:?}: {lost} of {packets} lost");
    }
}

/// A server of socat's on Ringway: one process for each peer's datagrams, answers by the same socket.
#[test]
fn socat_answers() {
    let net = Net::new();
    let mut server = net.spawn_ringway(Server, &["socat", "-T5", "UDP4-RECVFROM:5602,fork", "EXEC:rev"]);
    server.wait_while_running("serves the port", || {
        net.run(Server, &[RINGWAY, "ss", "-Hlun"]).stdout.lines().any(|line| line.contains("0.0.0.0:5602"))
    });
    let to = format!("UDP4:{}:5602", net.address(Server));
    let input = net.file("question", "stressed\n");
    for side in [&[][..], &[RINGWAY, "run", "-q", "--"]] {
        let client = net.spawn_with(Client, &[side, &["socat", "-t3", "-", &to]].concat(), &[], Some(input.as_ref()));
        assert_eq!(client.finish(DEADLINE).success().stdout, "desserts\n");
    }
}

mod multicast;

/// The same over IPv6.
mod ipv6 {
    use super::*;

    scripts! {
        Net::address6;
        basics, messages, pieces, ways, errors,
    }
}
