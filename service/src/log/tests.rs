use super::queue::tests::{folder, written};
use super::*;

/// What is written of the events of `work`: standard error and the record.
fn logged(filter: &str, format: &str, name: &str, work: impl FnOnce(&reload::Handle<Targets, Registry>)) -> (String, String) {
    let queue = Queue::new();
    let (subscriber, handle) = subscriber(&LogChoice::new(filter, format), &queue);
    tracing::subscriber::with_default(subscriber, || work(&handle));
    let folder = folder(name);
    let written = written(&queue, &folder);
    std::fs::remove_dir_all(folder).expect("a folder of ours");
    written
}

fn attach() {
    tracing::info!(target: "ringway::attach", pid = 7, "nginx[7]\n\u{1b}[31m attaches");
}

#[test]
fn each_format_has_one_line_for_an_event_and_no_control_character() {
    for (format, start, end) in [
        ("plain", "ringway: nginx[7]?", "attaches\n"),
        ("auto", "ringway: nginx[7]?", "attaches\n"),
        ("journald", "<6>nginx[7]?", "attaches\n"),
        ("text", "20", "attaches pid=7\n"),
        ("json", "{\"timestamp\":\"20", "\"pid\":7,\"target\":\"ringway::attach\"}\n"),
    ] {
        let (errors, record) = logged("info", format, format, |_| attach());
        assert!(errors.starts_with(start) && errors.ends_with(end), "{format}: {errors}");
        for text in [errors, record] {
            assert_eq!(text.chars().filter(|letter| letter.is_control()).count(), 1, "{format}: {text:?}");
        }
    }
}

#[test]
fn the_filter_holds_for_standard_error_and_can_change() {
    let (errors, record) = logged("warn,ringway::quota=debug", "plain", "filter", |handle| {
        attach();
        tracing::debug!(target: "ringway::quota", "a quota");
        tracing::debug!(target: "elsewhere", "not ours");
        handle.modify(|filter| *filter = LogChoice::new("info", "plain").targets()).expect("it is there");
        tracing::info!(target: "ringway::attach", "later");
    });
    assert_eq!(errors, "ringway: a quota\nringway: later\n");
    assert_eq!(record.lines().count(), 3, "{record}");
}

#[test]
fn quiet_lets_warnings_through_and_nothing_that_the_filter_does_not() {
    let passes = |filter: &str, level| LogChoice::new(filter, "plain").quiet().targets().would_enable("ringway::attach", level);
    for (filter, warns) in
        [("info", true), ("ringway::attach=trace", true), ("error", false), ("info,ringway::attach=off", false)]
    {
        assert_eq!((passes(filter, &tracing::Level::WARN), passes(filter, &tracing::Level::INFO)), (warns, false), "{filter}");
    }
}

#[test]
fn filters_are_checked() {
    for good in ["info", "off", "warn,ringway::attach=debug", "ringway::quota=trace, error"] {
        assert_eq!(check(good), Ok(()), "{good}");
    }
    for (bad, word) in
        [("infoo", "no level"), ("", "no level"), ("nginx=debug", "no part of the log"), ("ringway::attach=loud", "no level")]
    {
        assert!(check(bad).is_err_and(|text| text.contains(word)), "{bad}");
    }
}
