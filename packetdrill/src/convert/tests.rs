//! Reading and writing C's structures.

use super::*;

#[test]
fn a_control_message_is_written_where_it_fits() {
    let mut room = [0_u64; 8];
    // SAFETY: all bytes zero is an empty message.
    let mut message: msghdr = unsafe { core::mem::zeroed() };
    message.msg_control = room.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&room);
    // SAFETY: the message's control buffer has that length.
    let header = unsafe {
        put_control(&raw mut message, libc::IPPROTO_TCP, 36, 4_711);
        libc::CMSG_FIRSTHDR(&raw const message)
    };
    // SAFETY: the message has a header now, and its data is an int.
    let (level, kind, value) =
        unsafe { ((*header).cmsg_level, (*header).cmsg_type, libc::CMSG_DATA(header).cast::<i32>().read_unaligned()) };
    assert_eq!((level, kind, value), (libc::IPPROTO_TCP, 36, 4_711));

    message.msg_controllen = 4;
    // SAFETY: as above, and there are more bytes than it says.
    unsafe { put_control(&raw mut message, libc::IPPROTO_TCP, 36, 1) };
    assert_eq!(message.msg_controllen, 0, "nothing is written where it does not fit");
}

#[test]
fn an_address_of_no_family_is_known() {
    // SAFETY: all bytes zero is an address of AF_UNSPEC.
    let mut address: sockaddr = unsafe { core::mem::zeroed() };
    let len = size_of::<sockaddr>() as socklen_t;
    // SAFETY: the address has so many bytes, or is null.
    unsafe {
        assert!(is_unspecified_family(&raw const address, len));
        assert!(!is_unspecified_family(&raw const address, 1));
        assert!(!is_unspecified_family(core::ptr::null(), len));
        address.sa_family = libc::AF_INET as u16;
        assert!(!is_unspecified_family(&raw const address, len));
    }
}
