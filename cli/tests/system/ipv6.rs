//! Unmodified programs over IPv6, as servers and as clients, and beside IPv4 on one socket.

use crate::harness::*;
use crate::http::{assert_wrk, fetch, site};
use crate::iperf;

const ON_KERNEL: &[&str] = &[];
const ON_RINGWAY: &[&str] = &[RINGWAY, "run", "-q", "--"];

/// nginx with one socket for both families.
pub(crate) fn nginx_config(net: &Net, port: u16) -> String {
    let config = crate::http::nginx_config(net, port);
    let text = std::fs::read_to_string(config).expect("it has just been written");
    net.file("nginx6.conf", text.replace(&format!("listen {port};"), &format!("listen [::]:{port} ipv6only=off;")))
}

#[test]
fn nginx_serves_both_families() {
    let net = Net::new();
    let [large, small] = site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    net.untouched(Server, || {
        for url in [Net::url, Net::url6] {
            assert_eq!(fetch(&net, Client, ON_KERNEL, &url(&net, 80, "small.txt")), small);
            assert_eq!(fetch(&net, Client, ON_KERNEL, &url(&net, 80, "large.bin")), large);
        }
        let report = net.output(Client, &["wrk", "-t1", "-c32", "-d2s", &net.url6(80, "small.txt")]);
        assert_wrk(&report);
    });
    let loopback = "http://[::1]/small.txt";
    assert_eq!(fetch(&net, Server, ON_KERNEL, loopback), small, "the kernel's half of the listener");
}

#[test]
fn curl_fetches_from_a_kernel_server() {
    let net = Net::new();
    let [large, small] = site(&net);
    let mut nginx = net.spawn(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_listening(Server, 80, &mut nginx);
    net.untouched(Client, || {
        assert_eq!(fetch(&net, Client, ON_RINGWAY, &net.url6(80, "small.txt")), small);
        assert_eq!(fetch(&net, Client, ON_RINGWAY, &net.url6(80, "large.bin")), large);
    });
}

#[test]
fn ringway_talks_to_ringway() {
    let net = Net::new();
    let [large, _] = site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    net.untouched(Server, || {
        net.untouched(Client, || assert_eq!(fetch(&net, Client, ON_RINGWAY, &net.url6(80, "large.bin")), large));
    });
}

#[test]
fn python_serves_kernel_clients() {
    let net = Net::new();
    let [large, small] = site(&net);
    let folder = text(&net.path("www"));
    let mut server = net.spawn_ringway(Server, &["python3", "-m", "http.server", "-b", "::", "-d", &folder, "8000"]);
    net.wait_served(Server, 8000, &mut server);
    net.untouched(Server, || {
        assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url6(8000, "small.txt")), small);
        assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(8000, "large.bin")), large);
    });
}

#[test]
fn iperf3_both_ways() {
    let net = Net::new();
    let shapes: &[&[&str]] = &[&["-P", "1"], &["-P", "4", "-R"]];
    let address = net.address6(Server);
    let mut server = net.spawn_ringway(Server, &["iperf3", "-s"]);
    net.wait_served(Server, 5201, &mut server);
    net.untouched(Server, || shapes.iter().for_each(|shape| iperf::measure(&net, &address, ON_KERNEL, shape)));
    drop(server);
    let mut server = net.spawn(Server, &["iperf3", "-s"]);
    net.wait_listening(Server, 5201, &mut server);
    net.untouched(Client, || shapes.iter().for_each(|shape| iperf::measure(&net, &address, ON_RINGWAY, shape)));
}

/// `ss` names the sockets as the kernel's would; `tcpdump` shows their packets.
#[test]
fn tools_show_ipv6() {
    let net = Net::new();
    site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let listening = net.output(Server, &[RINGWAY, "ss", "-Hltn"]);
    assert!(listening.contains(" *:80 ") && listening.contains(" *:* "), "{listening}");
    let mut holder = net.spawn(Client, &["python3", "-c", HOLDER, &net.address6(Server)]);
    net.wait_printed(&mut holder, "connected");
    let filter = ["src", &format!("[{}]:80", net.address6(Server))];
    let mut sockets = String::new();
    nginx.wait_while_running("is shown", || {
        sockets = net.output(Server, &[&[RINGWAY, "ss", "-Htn6"][..], &filter].concat());
        sockets.contains(&format!("[{}]:80", net.address6(Server)))
    });
    assert!(sockets.contains(&format!("[{}]:", net.address6(Client))), "{sockets}");
}

/// Connects to port 80 and stays.
const HOLDER: &str = "
import signal, socket, sys
s = socket.create_connection((sys.argv[1], 80)); print('connected', flush=True); signal.pause()";
