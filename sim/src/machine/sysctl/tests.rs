use super::*;

#[test]
fn settings_are_read_in_the_notations_of_scripts() {
    let mut sysctl = Sysctl::default();
    sysctl.set("net.ipv4.tcp_fastopen", "0x602 \\");
    sysctl.set("/proc/sys/net/ipv4/tcp_notsent_lowat".trim_start_matches("/proc/sys/"), "16384\\");
    sysctl.set("tcp_rto_min_us", "5000");
    let mut tcp = TcpConfig::default();
    sysctl.apply(&mut tcp);
    assert!(tcp.fast_open.server && tcp.fast_open.server_without_cookie && !tcp.fast_open.client);
    assert_eq!(tcp.rto_min, Duration::from_millis(5));
    assert_eq!(sysctl.not_sent_low_water(), 16_384);
    sysctl.set("tcp_notsent_lowat", "4294967295");
    assert_eq!(sysctl.not_sent_low_water(), 0, "no limit");
}

#[test]
fn keys_have_one_length() {
    let keys = |text: &str| {
        let mut sysctl = Sysctl::default();
        sysctl.set("tcp_fastopen_key", text);
        sysctl.fast_open_keys()
    };
    let one = "a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4";
    assert_eq!(keys(one).map(|keys| (keys.primary[15], keys.backup)), Some((0xd4, None)));
    let both = keys(&format!("{one},01010101-02020202-03030303-04040404")).and_then(|keys| keys.backup);
    assert_eq!(both.map(|backup| backup[0]), Some(1));
    for wrong in ["", "a1a1", "a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4,01"] {
        assert_eq!(keys(wrong), None, "{wrong}");
    }
}
