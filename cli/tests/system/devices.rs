//! The same service over each device.

use crate::harness::*;
use crate::http::{nginx_config, site};
use crate::ipv6;

/// nginx on this device: small and large files over both families, byte for byte, with the kernel's counters unmoved.
fn serves(device: &str) {
    let net = Net::new();
    let [large, small] = site(&net);
    let config = net.file("ringway.toml", format!("[interface]\ndevice = \"{device}\"\n"));
    let nginx_config = ipv6::nginx_config(&net, 80);
    let mut nginx = net.spawn(Server, &[RINGWAY, "run", "--config", &config, "--", "nginx", "-c", &nginx_config]);
    net.wait_served(Server, 80, &mut nginx);
    let got = text(&net.path("got"));
    net.untouched(Server, || {
        for (file, expected) in [("small.txt", &small), ("large.bin", &large)] {
            for url in [net.url(80, file), net.url6(80, file)] {
                net.output(Client, &["curl", "-sS", "--fail", "--max-time", "50", "-o", &got, &url]);
                assert_eq!(&digest_of(&got).expect("curl has written it"), expected);
            }
        }
    });
    for address in [net.address(Server), net.address6(Server)] {
        let ping = net.output(Client, &["ping", "-c", "3", "-i", "0.1", "-W", "2", &address]);
        assert!(ping.contains(" 0% packet loss"), "{ping}");
    }
}

#[test]
fn over_packet_sockets() {
    serves("packet");
}

#[test]
fn over_af_xdp() {
    serves("xdp");
}

/// A tap device of its own: the stack answers ARP and ping for its address, and the kernel beside it is the peer.
#[test]
fn over_tap() {
    let net = Net::new();
    let [large, small] = site(&net);
    let config = net.file("ringway.toml", "[interface]\ndevice = \"tap\"\naddress = \"10.76.0.2/24\"\n");
    let nginx_config = nginx_config(&net, 80);
    let mut nginx = net.spawn(Server, &[RINGWAY, "run", "--config", &config, "--", "nginx", "-c", &nginx_config]);
    net.wait_served(Server, 80, &mut nginx);
    assert!(nginx.stderr().contains("accelerated TCP and UDP on ringway0 10.76.0.2 (tap"), "{}", nginx.stderr());
    let got = text(&net.path("got"));
    for (file, expected) in [("small.txt", &small), ("large.bin", &large)] {
        let url = format!("http://10.76.0.2/{file}");
        net.output(Server, &["curl", "-sS", "--fail", "--max-time", "50", "-o", &got, &url]);
        assert_eq!(&digest_of(&got).expect("curl has written it"), expected);
    }
    let sockets = net.output(Server, &[RINGWAY, "ss", "-tln"]);
    assert!(sockets.contains("0.0.0.0:80"), "{sockets}");
    let ping = net.output(Server, &["ping", "-c", "3", "-i", "0.1", "-W", "2", "10.76.0.2"]);
    assert!(ping.contains(" 0% packet loss"), "{ping}");
}

/// bind(2) to the address that only the stack has succeeds, of TCP and UDP; to one that no stack has it does not.
#[test]
fn bind_to_the_stacks_own_address() {
    let net = Net::new();
    let config = net.file("ringway.toml", "[interface]\ndevice = \"tap\"\naddress = \"10.76.0.2/24\"\n");
    let script = r#"
import errno, socket
for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
    for address in "10.76.0.2", "10.76.0.9":
        s = socket.socket(socket.AF_INET, kind)
        try:
            s.bind((address, 7000))
            print(s.getsockname(), s.getsockopt(socket.IPPROTO_IP, 15))
        except OSError as error:
            print(errno.errorcode[error.errno])
"#;
    let output = net.output(Server, &[RINGWAY, "run", "-q", "--config", &config, "--", "python3", "-c", script]);
    assert_eq!(output, "('10.76.0.2', 7000) 0\nEADDRNOTAVAIL\n".repeat(2));
}
