//! The table is one: each option of Linux's has one line.

use super::*;

#[test]
fn each_option_of_linux_is_there_once() {
    for (at, known) in LINUX_OPTIONS.iter().enumerate() {
        let same = |other: &&LinuxOption| (other.level, other.name) == (known.level, known.name);
        assert_eq!(LINUX_OPTIONS.iter().filter(same).count(), 1, "line {at}: {known:?}");
    }
}

#[test]
fn numbers_lead_back_to_their_options() {
    for &option in SocketOption::ALL {
        assert_eq!(SocketOption::from_number(option as u16), Some(option));
    }
    assert_eq!(SocketOption::from_number(0), None);
    assert_eq!(SocketOption::from_number(u16::MAX), None);
}

#[test]
fn what_a_worker_hears_of_has_a_number() {
    let heard = |known: &&LinuxOption| known.stream == Worker || known.datagram == Worker;
    assert!(LINUX_OPTIONS.iter().filter(heard).all(|known| known.option.is_some()));
    let address = LINUX_OPTIONS.iter().find(|known| known.option == Some(SocketOption::ReuseAddress)).expect("a line");
    assert_eq!((address.of_stream(), address.of_datagram()), (None, Some(SocketOption::ReuseAddress)));
}
