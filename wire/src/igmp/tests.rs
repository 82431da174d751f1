use super::*;
use alloc::vec;

/// RFC 3376 §4.1, §7.1: queries of versions 1, 2 and 3, general and about a group; times beyond 12.8 s are floating-point.
#[test]
fn igmp_queries() {
    let query = |group, response_ms| Some(Query { group, response_ms });
    let group = Some(Ipv4Addr::new(239, 1, 2, 3));
    assert_eq!(parse_query(&[0x11, 0, 0, 0, 0, 0, 0, 0]), query(None, 10_000));
    assert_eq!(parse_query(&[0x11, 50, 0, 0, 239, 1, 2, 3]), query(group, 5_000));
    assert_eq!(parse_query(&[0x11, 100, 0, 0, 0, 0, 0, 0, 2, 20, 0, 0]), query(None, 10_000));
    // 0x8a: mantissa 10, exponent 0: (10 | 16) << 3 tenths of a second.
    assert_eq!(parse_query(&[0x11, 0x8a, 0, 0, 0, 0, 0, 0, 2, 20, 0, 0]), query(None, 20_800));
    let bad: [&[u8]; 5] = [
        &[],
        &[0x11, 0, 0, 0, 0, 0, 0],
        &[0x16, 0, 0, 0, 239, 1, 2, 3],
        &[0x11, 0, 0, 0, 10, 0, 0, 1],
        &[0x11, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    assert!(bad.iter().all(|bytes| parse_query(bytes).is_none()));
}

/// RFC 3810 §5.1: the same for MLD.
#[test]
fn mld_queries() {
    let group: Ipv6Addr = "ff05::1:3".parse().expect("an address");
    let mut bytes = vec![130, 0, 0, 0, 0x27, 0x10, 0, 0];
    bytes.extend(group.octets());
    assert_eq!(parse_mld_query(&bytes), Some(Query { group: Some(group), response_ms: 10_000 }));
    assert!(parse_mld_query(&bytes[..23]).is_none());
    bytes.extend([2, 125, 0, 0]);
    bytes[8..24].fill(0);
    bytes[4..6].copy_from_slice(&[0x80, 0x01]);
    assert_eq!(parse_mld_query(&bytes), Some(Query { group: None, response_ms: (1 | 1 << 12) << 3 }));
    bytes[8] = 0x20;
    assert!(parse_mld_query(&bytes).is_none(), "no group");
}

/// RFC 3376 §4.2, RFC 3810 §5.2: layouts of the reports.
#[test]
fn reports() {
    let mut bytes = [0xff; report_len(2)];
    let groups = [Ipv4Addr::new(239, 1, 2, 3), Ipv4Addr::new(224, 0, 0, 251)];
    write_report(&[(Record::ToExclude, groups[0]), (Record::IsExclude, groups[1])], &mut bytes);
    assert_eq!(bytes, [0x22, 0, 0, 0, 0, 0, 0, 2, 4, 0, 0, 0, 239, 1, 2, 3, 2, 0, 0, 0, 224, 0, 0, 251]);
    let mut bytes = [0xff; mld_report_len(1)];
    let group: Ipv6Addr = "ff02::fb".parse().expect("an address");
    write_mld_report(&[(Record::ToInclude, group)], &mut bytes);
    assert_eq!(bytes[..12], [143, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0]);
    assert_eq!(bytes[12..], group.octets());
}
