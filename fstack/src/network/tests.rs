use super::*;

#[test]
fn traffic_is_that_of_all_interfaces_but_lo() {
    let table = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  900       9    0    0    0     0          0         0      900       9    0    0    0     0       0          0
  eth0: 1000      10    1    0    0     0          0         0     2000      20    0    0    0     0       0          0
  eth1:   11       2    0    0    0     0          0         0       33       4    0    0    0     0       0          0
";
    assert_eq!(traffic(table), Traffic { rx_packets: 12, rx_bytes: 1011, tx_packets: 24, tx_bytes: 2033 });
    assert_eq!(traffic("eth0: 1 2 three"), Traffic::default());
}

#[test]
fn a_port_that_the_file_does_not_have_is_no_device() {
    assert_eq!(interface_of(77), Err(Errno(libc::ENODEV)));
}
