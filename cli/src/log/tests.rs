use std::fs;
use std::io::Write;

use super::*;

fn add(path: &Path, text: &str) {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path).expect("a folder of ours");
    file.write_all(text.as_bytes()).expect("a disk with room");
}

#[test]
fn a_record_is_followed_into_the_next_file() {
    let folder = std::env::temp_dir().join(format!("ringway-tail-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder of ours");
    let path = folder.join("x.log");
    let mut tail = Tail::new(path.clone());
    assert_eq!(tail.start().map_err(|error| error.kind()), Err(ErrorKind::NotFound));
    add(&record_before(&path), "1\n2\ncut o");
    add(&path, "3\nha");
    tail.start().expect("there is one");
    assert_eq!(tail.read().expect("it can be read"), ["1", "2", "3"]);
    add(&path, "lf\n");
    assert_eq!(tail.read().expect("it can be read"), ["half"]);
    // The next file begins between two looks.
    add(&path, "last\n");
    fs::rename(&path, record_before(&path)).expect("a folder of ours");
    assert_eq!(tail.read().expect("it can be read"), ["last"]);
    add(&path, "first\n");
    assert_eq!(tail.read().expect("it can be read"), ["first"]);
    assert!(tail.read().expect("it can be read").is_empty());
    fs::remove_dir_all(folder).expect("a folder of ours");
}

#[test]
fn lines_are_chosen_and_shown() {
    let arguments = |words: &[&str]| {
        use clap::Parser;
        let parsed = crate::args::Arguments::try_parse_from(["ringway", "log"].iter().chain(words)).expect("they are right");
        let crate::args::Command::Log(arguments) = parsed.command else { panic!("another command") };
        arguments
    };
    let text = r#"{"timestamp":"2026-01-02T03:04:05Z","level":"WARN","message":"a\u001b[31m port","target":"ringway::steering"}"#;
    let line = Line::read("web", text.to_owned());
    let all = arguments(&[]);
    assert_eq!(line.show(&all, false), "2026-01-02T03:04:05Z WARN  steering: a?[31m port\n");
    assert_eq!(line.show(&all, true), "2026-01-02T03:04:05Z web WARN  steering: a?[31m port\n");
    assert_eq!(line.show(&arguments(&["-j"]), true), format!("{text}\n"));
    for (words, wanted) in [
        (&["-l", "warn"][..], true),
        (&["-l", "error"], false),
        (&["-t", "quota"], false),
        (&["-t", "quota", "-t", "steering"], true),
    ] {
        assert_eq!(line.is_wanted(&arguments(words)), wanted, "{words:?}");
    }
    // What is no line of a record is not hidden.
    let torn = Line::read("web", "{\u{7}".to_owned());
    assert_eq!((torn.is_wanted(&arguments(&["-l", "error"])), torn.show(&all, false)), (true, "{?\n".to_owned()));
}
