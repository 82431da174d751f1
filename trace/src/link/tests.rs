use super::*;

#[test]
fn every_link_leads_to_ip() {
    let ethernet = |kinds: &[u16]| [&[0; 12][..], &kinds.iter().flat_map(|kind| kind.to_be_bytes()).collect::<Vec<_>>()].concat();
    assert_eq!(content(ETHERNET, &ethernet(&[TYPE_IPV4])), Content::Ip(14));
    assert_eq!(content(ETHERNET, &ethernet(&[0x8100, 5, TYPE_IPV6])), Content::Ip(18));
    assert_eq!(content(ETHERNET, &ethernet(&[0x88a8, 5, 0x8100, 6, TYPE_IPV4])), Content::Ip(22));
    assert_eq!(content(ETHERNET, &ethernet(&[0x0806])), Content::Other);
    assert_eq!(content(ETHERNET, &ethernet(&[0x8100; 20])), Content::Other);
    assert_eq!(content(LINUX_SLL, &[&[0; 14][..], &[8, 0]].concat()), Content::Ip(16));
    assert_eq!(content(LINUX_SLL2, &[&[0x86, 0xdd][..], &[0; 18]].concat()), Content::Ip(20));
    assert_eq!(content(NULL, &[2, 0, 0, 0, 0x45]), Content::Ip(4));
    assert_eq!(content(RAW, &[0x60]), Content::Ip(0));
    assert_eq!(content(RAW, &[0x20]), Content::Other);
    assert_eq!(content(147, &[0x45]), Content::UnknownLink);
}

#[test]
fn nothing_is_read_beyond_the_end() {
    for link_type in [NULL, ETHERNET, RAW, LINUX_SLL, LINUX_SLL2, 12, 14, 108, 228, 229] {
        assert_eq!(content(link_type, &[]), Content::Other);
    }
}
