//! The same service over each way to share an interface.

use crate::harness::*;
use crate::http::{nginx_config, site};

/// nginx on this device: small and large files, byte for byte, with the kernel's counters unmoved.
fn serves(device: &str) {
    let net = Net::new();
    let [large, small] = site(&net);
    let config = net.file("ringway.toml", format!("[interface]\ndevice = \"{device}\"\n"));
    let nginx_config = nginx_config(&net, 80);
    let mut nginx = net.spawn(Server, &[RINGWAY, "run", "--config", &config, "--", "nginx", "-c", &nginx_config]);
    net.wait_served(Server, 80, &mut nginx);
    let got = text(&net.path("got"));
    net.untouched(Server, || {
        for (file, expected) in [("small.txt", &small), ("large.bin", &large)] {
            net.output(Client, &["curl", "-sS", "--fail", "--max-time", "50", "-o", &got, &net.url(80, file)]);
            assert_eq!(&digest_of(&got).expect("curl has written it"), expected);
        }
    });
    let ping = net.output(Client, &["ping", "-c", "3", "-i", "0.1", "-W", "2", &net.address(Server)]);
    assert!(ping.contains(" 0% packet loss"), "{ping}");
}

#[test]
fn over_packet_sockets() {
    serves("packet");
}

#[test]
fn over_af_xdp() {
    serves("xdp");
}
