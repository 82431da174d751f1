use super::*;
use alloc::vec;

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);

fn ip(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

fn written(message: &Message) -> Vec<u8> {
    let mut bytes = vec![0xff; message.len()];
    message.write(&mut bytes);
    bytes
}

/// What a host sends comes back the same, with and without options.
#[test]
fn round_trip() {
    let target = ip("fe80::1");
    let (mac, nonce) = (Some(MAC), Some([1, 2, 3, 4, 5, 6]));
    let advertisement = |target_link, router, solicited, overrides| Message::NeighborAdvertisement {
        target,
        target_link,
        router,
        solicited,
        overrides,
    };
    let messages = [
        Message::RouterSolicitation { source_link: None },
        Message::RouterSolicitation { source_link: mac },
        Message::NeighborSolicitation { target, source_link: None, nonce: None },
        Message::NeighborSolicitation { target, source_link: mac, nonce },
        Message::NeighborSolicitation { target, source_link: None, nonce },
        advertisement(None, true, false, false),
        advertisement(mac, false, true, false),
        advertisement(mac, false, false, true),
    ];
    for message in messages {
        let bytes = written(&message);
        assert_eq!(Message::parse(&bytes).as_ref(), Some(&message));
        assert!((0..bytes.len()).all(|len| Message::parse(&bytes[..len]) != Some(message.clone())), "cut off: {message:?}");
    }
}

/// An advertisement's fields and options are where RFC 4861 §4.2 and §4.6 say.
#[test]
fn router_advertisements() {
    let mut bytes = vec![134, 0, 0, 0, 64, 0xc0, 0x07, 0x08, 0, 0, 0x75, 0x30, 0, 0, 0x03, 0xe8];
    bytes.extend([1, 1, 2, 0, 0, 0, 0, 9]);
    bytes.extend([5, 1, 0, 0, 0, 0, 0x05, 0x78]);
    bytes.extend([3, 4, 64, 0xc0, 0, 0, 0x0e, 0x10, 0, 0, 0x07, 0x08, 0, 0, 0, 0]);
    bytes.extend(ip("2001:db8:1::").octets());
    bytes.extend([200, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let Some(Message::RouterAdvertisement(heard)) = Message::parse(&bytes) else { panic!("an advertisement") };
    assert_eq!((heard.hop_limit, heard.managed, heard.other, heard.lifetime_secs), (64, true, true, 1800));
    assert_eq!((heard.reachable_ms, heard.retransmit_ms), (30_000, 1_000));
    assert_eq!((heard.source_link, heard.mtu), (Some(MAC), Some(1400)));
    let prefix = Prefix {
        prefix_len: 64,
        on_link: true,
        autonomous: true,
        valid_secs: 3600,
        preferred_secs: 1800,
        prefix: ip("2001:db8:1::"),
    };
    assert_eq!(heard.prefixes, [prefix]);
    // As many prefixes as there may be, and no more.
    let one: Vec<u8> = bytes[32..64].to_vec();
    let mut many = bytes[..16].to_vec();
    (0..40).for_each(|_| many.extend(&one));
    let Some(Message::RouterAdvertisement(heard)) = Message::parse(&many) else { panic!("an advertisement") };
    assert_eq!(heard.prefixes.len(), PREFIXES_MAX);
}

/// RFC 4861 §6.1, §7.1: an option of length zero or one that is cut off spoils the message, as do targets that
/// are no hosts and codes that are not 0; unknown options do not.
#[test]
fn spoiled_messages() {
    let solicitation = Message::NeighborSolicitation { target: ip("fe80::1"), source_link: Some(MAC), nonce: None };
    let good = written(&solicitation);
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        Message::parse(&bytes)
    };
    assert_eq!(with(25, 0), None, "length zero");
    assert_eq!(with(25, 2), None, "cut off");
    assert_eq!(with(1, 1), None, "code");
    assert_eq!(with(8, 0xff), None, "multicast target");
    assert_eq!(with(0, 200), None, "kind");
    let unknown = Message::NeighborSolicitation { target: ip("fe80::1"), source_link: None, nonce: None };
    assert_eq!(with(24, 99), Some(unknown));
    assert_eq!(Message::parse(&[]), None);
}
