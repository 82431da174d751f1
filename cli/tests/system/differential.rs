//! The same socket calls on Ringway and on the kernel, from a few seeds: `differential` of the simulator's room runs them.

use std::path::Path;

use crate::harness::*;

/// No call answers otherwise than the kernel's, over a wire of this kind.
fn answers_over(link: &str) {
    let net = Net::new();
    let program = Path::new(RINGWAY).with_file_name("differential");
    assert!(program.exists(), "`make build` makes {}", program.display());
    let output = net.output(Server, &[&text(&program), "--seed", "1", "--count", "7", "--link", link, "--ringway", RINGWAY]);
    assert!(output.ends_with(" 0 differ\n"), "{output}");
}

#[test]
fn answers_are_those_of_the_kernel() {
    answers_over("veth");
}

#[test]
fn over_tap_too() {
    answers_over("tap");
}
