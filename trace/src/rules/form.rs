//! What one segment shows by itself. Read RFC 9293 §3.1, §3.2, RFC 7323 §2.2, RFC 2018 §2 first.

use crate::finding::{Rule, Severity};
use crate::flow::{Flow, View};
use crate::segment::{ACK, FIN, RESERVED, RST, SYN, URG};

/// Largest shift of a window.
const SCALE_MAX: u8 = 14;

pub(crate) fn check(flow: &mut Flow, view: &View<'_>) {
    let segment = view.segment;
    if let Some(mistake) = segment.options.mistake {
        flow.object(view, Rule::OptionForm, mistake.into());
    }
    if segment.has(RESERVED) {
        flow.object(view, Rule::ReservedBits, format!("bits {:#x} are set", segment.flags & RESERVED));
    }
    let wrong = (segment.has(SYN) && segment.has(FIN | RST)) || (segment.has(FIN) && segment.has(RST));
    if wrong || !segment.has(SYN | FIN | RST | ACK) {
        flow.object(view, Rule::Flags, segment.flag_names());
    } else if !segment.has(SYN | RST | ACK) {
        flow.object(view, Rule::AckFlag, format!("{} without ACK", segment.flag_names()));
    }
    if !segment.has(SYN) {
        let options = &segment.options;
        let here = [
            (options.mss.is_some(), "MSS"),
            (options.window_scale.is_some(), "window scale"),
            (options.sack_permitted, "SACK permitted"),
        ];
        for (_, name) in here.iter().filter(|(present, _)| *present) {
            flow.object(view, Rule::SynOption, format!("{name} on {}", segment.flag_names()));
        }
    }
    if let Some(scale) = segment.options.window_scale.filter(|scale| *scale > SCALE_MAX) {
        flow.object(view, Rule::WindowScale, format!("shift {scale}"));
    }
    if segment.urgent != 0 && !segment.has(URG) && !segment.has(RST) {
        flow.object_as(view, Rule::Urgent, Severity::Warning, format!("pointer {} without URG", segment.urgent));
    }
}
