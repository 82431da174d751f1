//! A call can be read without its function: few arguments, and no `true` or `false` that has no name.
//!
//! Clippy counts the arguments; this holds its configuration. A truth value has a name where it is the field of a struct, the
//! variant of an enum, or the value of a setter. Only literals are found: a variable has its own name.

use super::{files, is_word, read, relative, report, sources, words};

/// Functions whose truth value is plain: those of std and of dependencies, and the default value of a switch.
const PLAIN: &[&str] = &[
    "Err",
    "Ok",
    "Some",
    "append",
    "compare_exchange",
    "create",
    "create_new",
    "flag",
    "fold",
    "insert",
    "map_or",
    "new",
    "no_binary_name",
    "push",
    "read",
    "replace",
    "set",
    "store",
    "swap",
    "truncate",
    "unwrap_or",
    "write",
];

/// The call that has the word at `at` as one of its arguments: the function's name, and where its arguments begin.
fn call_around(code: &str, at: usize) -> Option<(&str, usize)> {
    let bytes = code.as_bytes();
    let mut depth = 0_usize;
    for open in (0..at).rev() {
        match bytes[open] {
            b')' | b']' | b'}' => depth += 1,
            b'(' if depth == 0 => {
                let name = bytes[..open].iter().rev().take_while(|byte| is_word(**byte)).count();
                return (name > 0).then(|| (&code[open - name..open], open + 1));
            }
            b'[' | b'{' | b';' if depth == 0 => return None,
            b'(' | b'[' | b'{' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The calls of a file with an unnamed truth value: where it is, and the function's name.
fn unnamed(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for word in ["true", "false"] {
        for at in words(code, word) {
            let before = code[..at].trim_end();
            let after = code[at + word.len()..].trim_start();
            if !before.ends_with(['(', ',']) || !after.starts_with([')', ',']) {
                continue;
            }
            let Some((name, arguments)) = call_around(code, at) else { continue };
            let is_last = after.starts_with(')');
            let is_only = is_last && before.len() == arguments;
            let is_keyword = matches!(name, "if" | "in" | "let" | "match" | "return");
            let is_variant = is_only && name.starts_with(char::is_uppercase);
            let is_setter = is_last && name.starts_with("set_");
            if !is_keyword && !is_variant && !is_setter && !PLAIN.contains(&name) {
                found.push((at, name));
            }
        }
    }
    found
}

#[test]
fn no_truth_value_is_without_a_name() {
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test) {
        let found = unnamed(&source.code).into_iter();
        findings.extend(found.map(|(at, name)| source.at(at, &format!("{name}: name the truth value, or make it an enum"))));
    }
    report(findings);
}

#[test]
fn clippy_counts_arguments_in_every_crate() {
    let mut findings = Vec::new();
    let configurations = files("clippy.toml");
    assert!(configurations.iter().any(|path| relative(path) == "clippy.toml"), "the workspace has one");
    // Clippy reads a crate's own instead of the workspace's.
    for path in configurations {
        if !read(&path).lines().any(|line| line == "too-many-arguments-threshold = 5") {
            findings.push(format!("{}:1: must say too-many-arguments-threshold = 5", relative(&path)));
        }
    }
    report(findings);
}

#[test]
fn truth_values_are_found_in_calls() {
    let found = |code| unnamed(code).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
    assert_eq!(found("close(slot, true, core); a.open(\n    false,\n    2,\n)"), ["close", "open"]);
    assert_eq!(found("f(g(1), [2], false)"), ["f"]);
    assert!(
        found("set_nodelay(fd, true); x.store(true, Relaxed); Some(true); f(A { b: true }); (1, true); f((a, true))").is_empty()
    );
    assert!(found("f(|x| true, 1); f(x == true); f({ true }); [false, true]").is_empty());
}
