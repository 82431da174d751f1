use super::*;

fn text(examine: impl FnOnce(&mut Report)) -> String {
    let mut report = Report::default();
    examine(&mut report);
    report.text()
}

#[test]
fn a_run_directory_that_all_may_write_is_a_failure() {
    let path = std::env::temp_dir().join(format!("ringway-doctor-{}", std::process::id()));
    assert!(text(|report| run_directory(&path, report)).starts_with("NOTE"));
    fs::create_dir(&path).expect("a temporary folder");
    for (mode, start) in [(0o755, "OK"), (0o777, "FAIL"), (0o1777, "OK")] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        let line = text(|report| run_directory(&path, report));
        assert!(line.starts_with(start), "{mode:o}: {line}");
    }
    fs::remove_dir(&path).expect("it is empty");
    fs::write(&path, "").expect("a temporary file");
    assert!(text(|report| run_directory(&path, report)).contains("is no directory"));
    fs::remove_file(&path).expect("it is ours");
}

#[test]
fn the_word_in_brackets_holds() {
    for (words, start) in [("always [madvise] never\n", "OK"), ("[always] madvise never\n", "OK"), ("", "NOTE")] {
        assert!(text(|report| huge_pages(words, report)).starts_with(start), "{words}");
    }
    let never = text(|report| huge_pages("always madvise [never]\n", report));
    assert!(never.starts_with("NOTE") && never.contains("fix: echo madvise > "), "{never}");
}
