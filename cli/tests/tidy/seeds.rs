//! The tests that docs/seeds.md names are there.

use super::{files, read, relative, report, top};

#[test]
fn each_test_that_shows_a_promise_is_one() {
    let sources: Vec<(String, String)> = files(".rs")
        .iter()
        .map(|path| (relative(path), read(path)))
        .filter_map(|(path, text)| path.strip_prefix("cli/tests/system/").map(|inside| (inside.to_owned(), text)))
        .collect();
    let document = read(&top().join("docs/seeds.md"));
    let mut findings = Vec::new();
    for (number, line) in document.lines().enumerate() {
        let quoted = line.split('`').skip(1).step_by(2);
        for name in quoted.filter(|word| word.contains("::") && word.len() > "::".len()) {
            let (module, test) = (name.split("::").next().unwrap_or(""), name.rsplit("::").next().unwrap_or(""));
            let is_there = |(path, text): &(String, String)| {
                path.split(['/', '.']).next() == Some(module)
                    && text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == test)
            };
            if !sources.iter().any(is_there) {
                findings.push(format!("docs/seeds.md:{}: there is no test {name}", number + 1));
            }
        }
    }
    assert!(document.contains("mtcp::every_call_does_what_it_should"), "the document names tests");
    report(findings);
}
