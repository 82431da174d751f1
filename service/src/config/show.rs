//! Writes the configuration as a file that can be read back.

use std::fmt::Write;

use super::value::Values;
use crate::reload::is_live;

const WIDTH: usize = 96;

/// Every key with its reason, what may stand there, and where its value comes from.
pub(super) fn show<'a>(values: &'a Values, from: impl Fn(&str, Option<&'a str>) -> Option<&'a str>) -> String {
    let mut text = String::from("# Every key of ringway.toml. An environment variable RINGWAY_SECTION_KEY overrides each.\n");
    let mut section = "";
    for (key, value, origin) in values.iter() {
        if key.section() != section {
            section = key.section();
            line(&mut text, format_args!("\n[{section}]"));
        }
        for words in wrap(key.why) {
            line(&mut text, format_args!("# {words}"));
        }
        line(&mut text, format_args!("# {}; default {}", key.expected(), key.default_value()));
        if is_live(key.path) {
            line(&mut text, format_args!("# changes while the service runs"));
        }
        match from(key.path, origin) {
            None => line(&mut text, format_args!("{} = {value}", key.name())),
            Some(origin) => line(&mut text, format_args!("{} = {value}  # from {origin}", key.name())),
        }
    }
    text += &rules(values);
    text
}

/// Every key and its value, nothing else.
pub(super) fn effective(values: &Values) -> String {
    let mut text = String::new();
    let mut section = "";
    for (key, value, _) in values.iter() {
        if key.section() != section {
            section = key.section();
            line(&mut text, format_args!("[{section}]"));
        }
        line(&mut text, format_args!("{} = {value}", key.name()));
    }
    text += &rules(values);
    text
}

/// The rules, each key on its line.
pub(super) fn rules(values: &Values) -> String {
    let mut text = String::new();
    for rule in values.rules.iter() {
        line(&mut text, format_args!("\n[[rule]]  # from {}", rule.origin));
        for (name, value) in rule.settings() {
            line(&mut text, format_args!("{name} = {value}"));
        }
    }
    text
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("a String takes everything");
}

/// Breaks `text` into lines of at most [`WIDTH`] letters, where words allow it.
fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("one line is there from the start");
        if last.is_empty() {
            last.push_str(word);
        } else if last.len() + 1 + word.len() <= WIDTH {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
