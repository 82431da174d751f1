use super::*;

fn figures() -> Figures {
    Figures { compiler: "rustc 1.2.3 (abc)".into(), units: 1_000, counts: vec![("send".into(), 200.0), ("receive".into(), 50.0)] }
}

/// A written file reads back unchanged.
#[test]
fn a_file_comes_back() {
    assert_eq!(Figures::parse(&figures().to_string()), Ok(figures()));
}

/// A file with a missing key or a bad line is refused.
#[test]
fn bad_files_are_refused() {
    for text in
        ["", "compiler = \"x\"", "compiler = \"x\"\nunits = 0", "compiler = \"x\"\nunits = 1\nsend", "units = 1\nsend = x"]
    {
        assert!(Figures::parse(text).is_err(), "{text}");
    }
}

/// Growth by two percent is as before, by more it is worse; a trace without a figure is unknown.
#[test]
fn growth_is_judged() {
    let judge = |count| figures().judge("send", count);
    assert_eq!(judge(204.0), Verdict::AsBefore { figure: 200.0 });
    assert_eq!(judge(204.5), Verdict::Worse { figure: 200.0 });
    assert_eq!(judge(195.0), Verdict::Better { figure: 200.0 });
    assert_eq!(figures().judge("other", 1.0), Verdict::Unknown);
}
