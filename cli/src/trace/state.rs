//! A connection's state as words of ss(8), `name:value`: printed, written to files, and compared with the state before.

use ringway_shm::Instant;
use ringway_shm::capture::Observed;

use crate::ss::{milliseconds, state_name, time_left, timer_name};

/// The first word: comments of files that begin with it are states.
pub(super) const FIRST: &str = "state:";
/// Linux's names of tcpi_ca_state.
const CONGESTION_STATES: [&str; 5] = ["open", "disorder", "cwr", "recovery", "loss"];

/// The words of a connection at this time.
pub(super) fn text(observed: &Observed, now: Instant) -> String {
    let info = &observed.info;
    let mut words = vec![format!("{FIRST}{}", state_name(info.state as u8))];
    let mut add = |name: &str, value: &dyn std::fmt::Display| words.push(format!("{name}:{value}"));
    // Half open and in TIME-WAIT it has no more than a state.
    if info.mss != 0 {
        let ca = CONGESTION_STATES.get(info.congestion_state as usize).copied().unwrap_or("unknown");
        add("ca", &ca);
        add("cwnd", &info.cwnd_segments);
        match info.ssthresh_segments {
            u64::MAX => add("ssthresh", &"-"),
            segments => add("ssthresh", &segments),
        }
        add("unacked", &info.unacked_segments);
        add("sacked", &info.sacked_segments);
        add("lost", &info.lost_segments);
        add("retrans", &format_args!("{}/{}", info.retransmitting_segments, info.retransmitted_segments));
        add("notsent", &info.unsent_bytes);
        add("snd_wnd", &info.send_window);
        add("rcv_wnd", &info.receive_window);
        add("rtt", &format_args!("{}/{}", milliseconds(info.rtt_us), milliseconds(info.rtt_variance_us)));
        add("rto", &milliseconds(info.rto_us));
    }
    add("backoff", &info.backoff);
    match observed.timer {
        Some(timer) => add("timer", &format_args!("{},{}", timer_name(timer), time_left(timer.due.since(now)))),
        None => add("timer", &"off"),
    }
    if observed.probing {
        add("tlp", &"sent");
    }
    add("waits", &observed.waits.word());
    words.join(" ")
}

/// Splits a text into names and values.
pub(super) fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(' ').filter_map(|word| word.split_once(':'))
}

/// Returns the value of a word.
pub(super) fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    words(text).find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// The words that have changed since `before`. Of a timer only its kind counts: its time always changes. What a record
/// without values lacks has not changed.
pub(super) fn changes(before: &str, now: &str) -> String {
    let kind = |name: &str, value: &str| {
        if name == "timer" { value.split(',').next().map(str::to_owned) } else { Some(value.to_owned()) }
    };
    let is_new = |(name, now): &(&str, &str)| value(before, name).and_then(|value| kind(name, value)) != kind(name, now);
    let has_values = value(now, "ca").is_some();
    let gone = words(before).filter(|(name, _)| has_values && value(now, name).is_none()).map(|(name, _)| format!("{name}:-"));
    let new = words(now).filter(is_new).map(|(name, value)| format!("{name}:{value}"));
    new.chain(gone).collect::<Vec<_>>().join(" ")
}
