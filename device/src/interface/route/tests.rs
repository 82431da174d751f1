use super::*;
use crate::interface::Interface;
use crate::testing::{in_namespace, ip};

fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, kind, payload);
    bytes
}

#[test]
fn the_smaller_size_counts_and_nonsense_is_passed_over() {
    let attributes = [
        attribute(3, b"eth0\0"),
        attribute(IFLA_GSO_MAX_SIZE, &60_000_u32.to_ne_bytes()),
        attribute(IFLA_GSO_MAX_SEGS, &7_u32.to_ne_bytes()),
        attribute(IFLA_GSO_IPV4_MAX_SIZE, &50_000_u32.to_ne_bytes()),
    ]
    .concat();
    assert_eq!(limits_of(&attributes), Limits { bytes: 50_000, segments: 7 });
    let none = Limits { bytes: u32::MAX, segments: u32::MAX };
    assert_eq!(limits_of(&[]), none);
    assert_eq!(limits_of(&attribute(IFLA_GSO_MAX_SEGS, &[7])), none, "too short");
    // A length of nothing, and one that leads out of the message.
    assert_eq!(limits_of(&[0, 0, 40, 0, 1, 0, 0, 0]), none);
    assert_eq!(limits_of(&[200, 0, 40, 0, 1, 0, 0, 0]), none);
    for end in 0..attributes.len() {
        limits_of(&attributes[..end]);
    }
}

#[test]
fn the_kernel_tells_limits_and_takes_addresses() {
    in_namespace(|| {
        ip("link add left type veth peer name right");
        ip("link set left gso_max_size 16384 gso_max_segs 4");
        let left = Interface::open("left").expect("it was made above");
        assert_eq!((left.segmentation_max_bytes, left.segmentation_max_segments), (16_384 - 15, 4));
        let right = Interface::open("right").expect("it was made above");
        assert_eq!(right.segmentation_max_bytes, 65_536 - 15);
        for text in ["10.9.0.1", "fd09::1"] {
            add_address(left.index, text.parse().expect("valid"), 24).expect("the interface is there");
            let shown = std::process::Command::new("ip").args(["-o", "address", "show", "dev", "left"]).output();
            let shown = String::from_utf8_lossy(&shown.expect("iproute2 is installed").stdout).into_owned();
            assert!(shown.contains(&format!("{text}/24")), "{shown}");
        }
        let gone = add_address(9_999, [10, 9, 0, 1].into(), 24).expect_err("there is no such interface");
        assert_eq!(gone.raw_os_error(), Some(libc::ENODEV));
        assert_eq!(limits(9_999).expect_err("there is no such interface").raw_os_error(), Some(libc::ENODEV));
    });
}
