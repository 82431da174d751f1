//! Parsers: scripts, netlink answers, configuration, capture files.

use ringway_service::Config;

/// Maximum length of a text, bytes.
const TEXT_MAX: usize = 16 << 10;

/// Checks the `.pkt` language.
pub(crate) fn script(bytes: &[u8]) {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]);
    // Most texts are not scripts; an error is a valid answer.
    drop(ringway_sim::script::check(&text));
}

/// Parses netlink answers and notifications of the kernel.
pub(crate) fn netlink(bytes: &[u8]) {
    assert!(ringway_service::netlink::count_messages(bytes) <= bytes.len() / 16);
}

/// Parses the kernel's listing of its packet filters and evaluates it: more knowledge of a packet must not reverse a
/// verdict, and a rule that accepts at the end of each chain must refuse no packet.
pub(crate) fn firewall(bytes: &[u8]) {
    use ringway_service::firewall::{Beginning, Flow, Judgment, LocalPort, Transport, count_messages, judge_messages};
    assert!(count_messages(bytes) <= bytes.len() / 16);
    let is_refused = |judgment: &Option<Judgment>| matches!(judgment, Some(Judgment::Refuse(_)));
    for (transport, beginning) in
        [(Transport::Tcp, Beginning::Theirs), (Transport::Tcp, Beginning::Ours), (Transport::Udp, Beginning::Theirs)]
    {
        let anybody = Flow { transport, beginning, is_ipv4: true, ip: None, port: LocalPort::Upper, peer: None, peer_port: None };
        let somebody = Flow {
            ip: Some([10, 0, 0, 1].into()),
            port: LocalPort::Is(0x8050),
            peer: Some([10, 0, 0, 2].into()),
            peer_port: Some(80),
            ..anybody
        };
        let [of_all, of_one] = [anybody, somebody].map(|flow| judge_messages(bytes, flow, false));
        assert!(of_all != Some(Judgment::Accept) || of_one == of_all, "{of_all:?}, but {of_one:?}");
        assert!(!is_refused(&of_all) || is_refused(&of_one), "{of_all:?}, but {of_one:?}");
        for flow in [anybody, somebody] {
            let (before, after) = (judge_messages(bytes, flow, false), judge_messages(bytes, flow, true));
            assert!(before != Some(Judgment::Accept) || after == before, "{before:?}, then {after:?}");
        }
    }
}

/// Parses the configuration file: a file that is read must survive being shown and read again.
pub(crate) fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]);
    match Config::parse("fuzz.toml", &text, Vec::new()) {
        Ok(config) => {
            let shown = config.show();
            assert!(Config::parse("shown.toml", &shown, Vec::new()).is_ok(), "{shown}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Reads capture files and applies the checker's rules to them.
pub(crate) fn capture(bytes: &[u8]) {
    let local = vec![[10, 0, 0, 1].into()];
    let options = ringway_trace::Options { local, ..ringway_trace::Options::default() };
    if let Ok(report) = ringway_trace::check(bytes, options) {
        assert!(report.packets <= bytes.len() as u64);
    }
}
