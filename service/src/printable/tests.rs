use super::*;

#[test]
fn names_do_nothing_to_a_terminal() {
    assert_eq!(printable("\x1b[2Jrm\x07 \n\u{fffd}"), "?[2Jrm? ?\u{fffd}");
    assert_eq!(printable("ngin\u{e9}\u{9b}"), "ngin\u{e9}?");
}
