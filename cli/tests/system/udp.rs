//! Datagrams of unmodified programs: each script says on Ringway what it says on the kernel, with either end on Ringway.

use crate::harness::*;

const PORT: &str = "5600";

/// Datagrams that the kernel's UDP has received in this namespace.
fn kernel_datagrams(net: &Net, side: Side) -> u64 {
    net.kernel_counter(side, "Udp", "InDatagrams")
}

/// What server and client printed.
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
    basics
}

/// The same over IPv6.
mod ipv6 {
    use super::*;

    scripts! {
        Net::address6;
        basics
    }
}
