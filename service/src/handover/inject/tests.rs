use ringway_stack::wire::sequence::SeqNum;
use ringway_stack::wire::tcp::{Options, Timestamps};

use super::*;

/// The packet is one that a receiver takes: its headers parse, and its checksums are right.
#[test]
fn packets_have_their_headers_and_checksums() {
    let v6 = |end| IpAddr::from([0xfd07, 0, 0, 0, 0, 0, 0, end]);
    for (source, destination) in [(IpAddr::from([10, 7, 0, 1]), IpAddr::from([10, 7, 0, 2])), (v6(1), v6(2))] {
        let mut options = Options::default();
        options.timestamps = Some(Timestamps { value: 1, echo: 2 });
        let header = tcp::Header {
            source_port: 9_090,
            destination_port: 80,
            sequence: SeqNum(u32::MAX),
            acknowledgment: SeqNum(7),
            flags: tcp::FIN | tcp::ACK,
            ae: false,
            window: 1_000,
            urgent: 0,
            options,
        };
        let bytes = packet(source, destination, &header, b"payload");
        let (ip_len, parsed) = match source {
            IpAddr::V4(_) => {
                let ip = ipv4::Header::parse(&bytes).expect("its checksum is right");
                assert_eq!(usize::from(ip.total_len), bytes.len());
                (ipv4::HEADER_LEN, (IpAddr::from(ip.source), IpAddr::from(ip.destination)))
            }
            IpAddr::V6(_) => {
                let ip = ipv6::Header::parse(&bytes).expect("it is one");
                assert_eq!(usize::from(ip.payload_len) + ipv6::HEADER_LEN, bytes.len());
                (ipv6::HEADER_LEN, (ip.source.into(), ip.destination.into()))
            }
        };
        assert_eq!(parsed, (source, destination));
        let segment = &bytes[ip_len..];
        assert_eq!(tcp::Header::parse(segment), Some((header, segment.len() - 7)));
        assert!(segment.ends_with(b"payload"));
        let pseudo = checksum::pseudo_header(source, destination, 6, segment.len() as u32);
        assert_eq!(checksum::add(pseudo, checksum::sum(segment)), 0xffff);
    }
}
