use super::*;
use crate::config::Config;

/// A folder of the test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = Folder(std::env::temp_dir().join(format!("ringway-measured-{}-{name}", std::process::id())));
        fs::create_dir_all(&folder.0).expect("a folder");
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn what_is_written_is_read_with_this_kernel_and_version_only() {
    let folder = Folder::new("read");
    let path = folder.0.join("below").join(FILE);
    assert_eq!(Measured::read(&path), None, "there is no file yet");
    for bulk in [BulkChoice::Stack, BulkChoice::Sent, BulkChoice::Kernel] {
        Measured { bulk }.write(&path).expect("a folder of ours");
        assert_eq!(Measured::read(&path), Some(Measured { bulk }));
    }
    let text = fs::read_to_string(&path).expect("it was written");
    for (from, to) in [
        (kernel::release().as_str(), "6.1.0"),
        (env!("CARGO_PKG_VERSION"), "0.0.7"),
        ("\"kernel\"", "\"auto\""),
        ("\"kernel\"", "\"fast\""),
        ("bulk =", "bulk"),
        ("bulk =", "bulk = 7 #"),
    ] {
        fs::write(&path, text.replace(from, to)).expect("a folder of ours");
        assert_eq!(Measured::read(&path), None, "{from} is {to}");
    }
    fs::write(&path, text + &"#".repeat(10_000)).expect("a folder of ours");
    assert_eq!(Measured::read(&path), Some(Measured { bulk: BulkChoice::Kernel }), "a long comment is cut");
}

#[test]
fn a_choice_in_the_configuration_goes_before_what_was_measured() {
    let policy = |text: &str| Config::parse("file", text, Vec::new()).expect("a valid file").policy;
    assert_eq!(policy("").bulk, BulkChoice::Auto);
    assert_eq!(bulk(&policy("[policy]\nbulk = \"stack\"")), None);
    let sent = bulk(&policy("[policy]\nbulk = \"sent\"\nbulk_after_mib = 3"));
    assert_eq!(sent, Some(BulkPolicy { after: 3 << 20, received: false }));
    let both = bulk(&policy("[policy]\nbulk = \"kernel\""));
    assert_eq!(both, Some(BulkPolicy { after: 8 << 20, received: true }));
}

#[test]
fn auto_follows_what_was_measured_and_else_hands_over_what_programs_send() {
    let folder = Folder::new("auto");
    let path = folder.0.join(FILE);
    let policy = Config::parse("file", "", Vec::new()).expect("a valid file").policy;
    let sent = Some(BulkPolicy { after: 8 << 20, received: false });
    assert_eq!(bulk_by(&policy, &path), sent);
    for (choice, expected) in [
        (BulkChoice::Stack, None),
        (BulkChoice::Sent, sent),
        (BulkChoice::Kernel, Some(BulkPolicy { after: 8 << 20, received: true })),
    ] {
        Measured { bulk: choice }.write(&path).expect("a folder of ours");
        assert_eq!(bulk_by(&policy, &path), expected, "{}", choice.word());
    }
    fs::write(&path, "kernel = ").expect("a folder of ours");
    assert_eq!(bulk_by(&policy, &path), sent, "a file that cannot be read is no measurement");
}
