//! Readers: scripts, netlink answers, configuration, capture files.

use ringway_service::Config;

/// Longest text that is read.
const TEXT_MAX: usize = 16 << 10;

/// The `.pkt` language.
pub(crate) fn script(bytes: &[u8]) {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]);
    // Most texts are no scripts: that is an answer.
    drop(ringway_sim::script::check(&text));
}

/// What the kernel answers and tells by netlink.
pub(crate) fn netlink(bytes: &[u8]) {
    assert!(ringway_service::netlink::count_messages(bytes) <= bytes.len() / 16);
}

/// What the kernel answers who lists the rules of its packet filters.
pub(crate) fn firewall(bytes: &[u8]) {
    assert!(ringway_service::firewall::count_messages(bytes) <= bytes.len() / 16);
}

/// The configuration file: what is read can be shown and read again.
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

/// Capture files and the rules that are held against them.
pub(crate) fn capture(bytes: &[u8]) {
    let local = vec![[10, 0, 0, 1].into()];
    let options = ringway_trace::Options { local, ..ringway_trace::Options::default() };
    if let Ok(report) = ringway_trace::check(bytes, options) {
        assert!(report.packets <= bytes.len() as u64);
    }
}
