use super::*;
use crate::plan::Skipped;

#[test]
fn what_stays_with_the_kernel_because_of_rules_is_noted_and_the_rest_is_not() {
    let path = std::env::temp_dir().join(format!("ringway-kept-{}", std::process::id()));
    let skipped = |name: &str, guard: Option<&'static str>| {
        let (name, reason) = (name.to_owned(), format!("has\ta \u{1b}reason {name}"));
        Skipped { name, reason, was_named: false, guard }
    };
    let plan = |skipped: &[Skipped]| Plan { served: Vec::new(), skipped: skipped.to_vec() };
    note(&path, &plan(&[skipped("lo", None), skipped("eth0", Some("interface-bpf")), skipped("eth1", Some("routing"))]))
        .expect("room");
    let kept = |interface: &str, word: &str| Kept {
        interface: interface.to_owned(),
        word: word.to_owned(),
        why: format!("has?a ?reason {interface}"),
    };
    assert_eq!(read(&path), [kept("eth0", "interface-bpf"), kept("eth1", "routing")]);
    note(&path, &plan(&[skipped("lo", None)])).expect("ours");
    assert!(!path.exists() && read(&path).is_empty());
    note(&path, &plan(&[])).expect("nothing to do");
    std::fs::write(&path, b"torn\tline\n\xff\n").expect("ours");
    assert_eq!(read(&path), []);
    std::fs::remove_file(&path).expect("ours");
}
