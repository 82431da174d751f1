use std::io;

use super::{Classifiers, listed, unread};

/// As read on a machine where a program of others is at link 2.
fn with_program() -> Classifiers {
    Classifiers { links: [(2, "tcx program 7".to_owned())].into(), ..Classifiers::default() }
}

#[test]
fn programs_at_a_link_concern_that_link_and_those_of_the_namespace_all() {
    assert!(!Classifiers::default().object());
    assert_eq!(with_program().objection(2).as_deref(), Some("tcx program 7"));
    assert_eq!(with_program().objection(3), None);
    let both = Classifiers { namespace: Some("1 sk_lookup program(s)".to_owned()), ..with_program() };
    assert_eq!(both.objection(2).as_deref(), Some("tcx program 7, 1 sk_lookup program(s)"));
    assert_eq!(both.objection(3).as_deref(), Some("1 sk_lookup program(s)"));
    assert!(both.object());
}

#[test]
fn an_xdp_program_is_obeyed_and_named() {
    let obeyed = Classifiers { obeyed: [(2, 9)].into(), ..Classifiers::default() };
    assert_eq!(obeyed.objection(2), None);
    assert!(obeyed.note(2, "eth0").expect("it is named").contains("XDP program 9"));
    assert_eq!(obeyed.note(3, "eth1"), None);
}

#[test]
fn what_may_not_be_asked_names_the_capability() {
    let refused = unread("tcx programs", &io::Error::from_raw_os_error(libc::EPERM));
    assert!(refused.starts_with("tcx programs cannot be read") && refused.contains("CAP_NET_ADMIN"), "{refused}");
    assert!(!unread("tcx programs", &io::Error::from_raw_os_error(libc::ENOMEM)).contains("CAP_"));
}

#[test]
fn a_hook_full_of_programs_takes_one_line() {
    let programs = |count: u32| (1..=count).map(|number| format!("tcx program {number}")).collect::<Vec<_>>();
    assert_eq!(listed(&programs(2)), "tcx program 1, tcx program 2");
    assert_eq!(listed(&programs(4)), programs(4).join(", "));
    assert_eq!(listed(&programs(63)), format!("{} and 59 more", programs(4).join(", ")));
}
