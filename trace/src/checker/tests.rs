use super::*;

fn check(packets: &[&[u8]]) -> Report {
    let mut checker = Checker::new(Options::default());
    for (number, bytes) in packets.iter().enumerate() {
        let number = number as u64 + 1;
        checker.packet(&Packet::bare(number, 0, 101, (bytes, bytes.len() as u32)));
    }
    checker.finish(Ending::default())
}

fn udp(version: u8, len: u16, sum: u16, payload: &[u8]) -> Vec<u8> {
    let ports = [0, 53, 0, 99];
    let body = [&ports[..], &len.to_be_bytes(), &sum.to_be_bytes(), payload].concat();
    if version == 6 {
        return [&[0x60, 0, 0, 0, 0, body.len() as u8, 17, 64][..], &[1; 16], &[2; 16], &body].concat();
    }
    let header = [0x45, 0, 0, 20 + body.len() as u8, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    [&header[..], &body].concat()
}

fn rules(report: &Report) -> Vec<Rule> {
    report.findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn udp_headers() {
    assert_eq!(rules(&check(&[&udp(4, 12, 0, b"ping")])), []);
    assert_eq!(rules(&check(&[&udp(4, 13, 0, b"ping")])), [Rule::UdpLength]);
    assert_eq!(rules(&check(&[&udp(4, 7, 0, b"ping")])), [Rule::UdpLength]);
    assert_eq!(rules(&check(&[&udp(4, 12, 0x1234, b"ping")])), [Rule::UdpChecksum]);
    assert_eq!(rules(&check(&[&udp(6, 12, 0, b"ping")])), [Rule::UdpChecksum]);
    let report = check(&[&udp(4, 12, 0, b"ping"), &udp(4, 12, 0, b"ping")]);
    assert_eq!((report.flows.len(), report.flows[0].packets, report.flows[0].bytes), (1, [2, 0], [8, 0]));
}

#[test]
fn ip_headers() {
    let mut spoiled = udp(4, 12, 0, b"ping");
    spoiled[10] = 1;
    assert_eq!(rules(&check(&[&spoiled])), [Rule::IpChecksum]);
    let mut long = udp(4, 12, 0, b"ping");
    long[3] = 200;
    assert_eq!(rules(&check(&[&long])), [Rule::IpHeader]);
}

#[test]
fn what_is_not_looked_at_is_counted() {
    let mut fragment = udp(4, 12, 0, b"ping");
    fragment[7] = 1;
    let report = check(&[&fragment, &[0x45, 0], &[0]]);
    assert_eq!(report.errors, 0);
    let notes: Vec<(&str, u64)> = report.notes.into_iter().collect();
    assert_eq!(notes, [("fragments", 1), ("packets captured too short", 1), ("packets that are not IP", 1)]);
}

#[test]
fn a_data_offset_beyond_the_end() {
    let mut bytes = udp(4, 12, 0, &[0; 12]);
    bytes[9] = 6;
    bytes[32] = 0xf0;
    assert_eq!(rules(&check(&[&bytes])), [Rule::TcpHeader]);
}
