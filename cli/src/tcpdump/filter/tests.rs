use super::*;

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

/// A UDP datagram between the ports 53 and 9, without payload, as an IPv4 packet.
const DATAGRAM: [u8; 28] = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 0, 9, 0, 8, 0, 0];

#[test]
fn the_kernel_decides_as_the_expression_says() {
    for (expression, expected) in [("udp port 53", true), ("udp dst port 53", false), ("host 10.0.0.2", true), ("tcp", false)] {
        let filter = Filter::compile(&words(expression), Medium::Ip).expect("tcpdump is installed");
        for _ in 0..3 {
            assert_eq!(filter.accepts(&DATAGRAM).expect("a socket to ourselves"), expected, "{expression}");
        }
    }
    // The largest packet of a capture ring passes too.
    let filter = Filter::compile(&words("greater 65000"), Medium::Ip).expect("tcpdump is installed");
    assert!(filter.accepts(&[0x45; ringway_shm::capture::SNAPLEN_MAX]).expect("a socket to ourselves"));
    assert!(!filter.accepts(&DATAGRAM).expect("a socket to ourselves"));
}

#[test]
fn expressions_apply_to_the_link_type() {
    let frame = [&[0; 12][..], &[8, 0], &DATAGRAM].concat();
    let filter = Filter::compile(&words("udp port 53"), Medium::Ethernet).expect("tcpdump is installed");
    assert!(filter.accepts(&frame).expect("a socket to ourselves"));
    assert!(!filter.accepts(&DATAGRAM).expect("a socket to ourselves"));
}

#[test]
fn errors_of_expressions_are_tcpdumps() {
    let error = Filter::compile(&words("port nonsense"), Medium::Ip).err().expect("no such port").to_string();
    assert!(error.contains("nonsense") && !error.contains("reading from"), "{error}");
}
