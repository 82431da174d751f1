use super::ignored_signals;

#[test]
fn ignored_signals_are_read_from_status() {
    let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000440\n";
    let ignored = ignored_signals(status);
    assert_ne!(ignored & (1 << (1 - 1)), 0, "SIGHUP");
    assert_ne!(ignored & (1 << (13 - 1)), 0, "SIGPIPE");
    assert_eq!(ignored & (1 << (15 - 1)), 0, "SIGTERM");
    assert_eq!(ignored_signals("nothing of that kind"), 0);
}
