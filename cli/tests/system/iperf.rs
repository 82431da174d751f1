//! iperf3: one and four streams, both directions, bidirectional.

use serde_json::Value;

use crate::harness::*;

const SHAPES: &[&[&str]] =
    &[&["-P", "1"], &["-P", "4"], &["-P", "1", "-R"], &["-P", "4", "-R"], &["-P", "1", "--bidir"], &["-P", "4", "--bidir"]];

pub(crate) fn measure(net: &Net, address: &str, launcher: &[&str], shape: &[&str]) {
    let report = net.output(Client, &[launcher, &["iperf3", "-c", address, "-t", "2", "-J"], shape].concat());
    let report: Value = serde_json::from_str(&report).expect("iperf3 -J prints JSON");
    assert_eq!(report["error"], Value::Null, "{shape:?}: {report}");
    let mut sums = vec!["sum_received"];
    if shape.contains(&"--bidir") {
        sums.push("sum_received_bidir_reverse");
    }
    for sum in sums {
        let bytes = report["end"][sum]["bytes"].as_f64().unwrap_or(0.0);
        assert!(bytes > 10e6, "{shape:?} {sum}: {bytes} bytes in 2 s\n{report}");
    }
}

#[test]
fn iperf3_server_on_ringway() {
    let net = Net::new();
    let mut server = net.spawn_ringway(Server, &["iperf3", "-s"]);
    net.wait_served(Server, 5201, &mut server);
    let address = net.address(Server);
    net.untouched(Server, || SHAPES.iter().for_each(|shape| measure(&net, &address, &[], shape)));
}

#[test]
fn iperf3_client_on_ringway() {
    let net = Net::new();
    let mut server = net.spawn(Server, &["iperf3", "-s"]);
    net.wait_listening(Server, 5201, &mut server);
    let address = net.address(Server);
    net.untouched(Client, || SHAPES.iter().for_each(|shape| measure(&net, &address, &[RINGWAY, "run", "-q", "--"], shape)));
}
