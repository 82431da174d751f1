use super::matches;

/// Patterns work as in nstat: whole names, `*` anywhere, ignoring case.
#[test]
fn patterns_match_whole_names() {
    for (pattern, name, expected) in [
        ("TcpInSegs", "TcpInSegs", true),
        ("tcpinsegs", "TcpInSegs", true),
        ("TcpIn", "TcpInSegs", false),
        ("TcpIn*", "TcpInSegs", true),
        ("*Segs", "TcpInSegs", true),
        ("*Segs", "TcpInSegsX", false),
        ("Tcp*Segs", "TcpInSegs", true),
        ("Udp*", "TcpInSegs", false),
        ("*", "TcpInSegs", true),
    ] {
        assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
    }
}
