use super::*;

fn item(level: i32, kind: i32, payload: &[i32]) -> Vec<u8> {
    let len = HEADER + payload.len() * 4;
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(level.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload.iter().flat_map(|fd| fd.to_ne_bytes()));
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

#[test]
fn descriptors_of_all_rights_items_are_found_in_order() {
    let mut control = item(libc::SOL_SOCKET, libc::SCM_RIGHTS, &[7, 8, 9]);
    control.extend(item(libc::SOL_SOCKET, libc::SCM_CREDENTIALS, &[1, 2, 3]));
    control.extend(item(libc::SOL_SOCKET, libc::SCM_RIGHTS, &[4]));
    assert_eq!(ancillary_descriptors(&control), [7, 8, 9, 4]);
}

#[test]
fn a_length_that_lies_ends_the_walk() {
    let mut control = item(libc::SOL_SOCKET, libc::SCM_RIGHTS, &[7, 8]);
    for lie in [0usize, 15, 25, usize::MAX] {
        control[..8].copy_from_slice(&lie.to_ne_bytes());
        assert_eq!(ancillary_descriptors(&control), []);
    }
    assert_eq!(ancillary_descriptors(&control[..12]), []);
}
