//! The commands that documents name, and how they are split. The unit tests of the arguments and the system tests use it.

use std::fs;
use std::path::{Path, PathBuf};

/// A command, and where it stands.
pub(crate) struct Named {
    pub(crate) place: String,
    pub(crate) words: Vec<String>,
    /// In the middle of a sentence a command may lack its arguments.
    pub(crate) is_whole: bool,
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate stands in the workspace").to_path_buf()
}

/// All that a reader may open.
pub(crate) fn documents() -> Vec<PathBuf> {
    let inside =
        |folder: PathBuf| fs::read_dir(folder).expect("a folder of the workspace").map(|entry| entry.expect("an entry").path());
    let folders = [top(), top().join("docs"), top().join("packaging")];
    let mut found: Vec<PathBuf> = folders.into_iter().flat_map(inside).collect();
    found.retain(|path| path.extension().is_some_and(|kind| kind == "md" || kind == "7" || kind == "8"));
    found
}

/// Splits as a shell does, up to a comment, a pipe or two spaces behind which an explanation stands.
pub(crate) fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (letter, Some(end)) if letter == end => quote = None,
            ('#' | '|' | '>' | ';' | '&', None) => break,
            (' ', None) => {
                words.extend(word.take());
                if letters.peek() == Some(&' ') {
                    break;
                }
            }
            // What may be left out, or stand several times.
            ('[' | ']' | '…', None) => {}
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words.retain(|word| !word.is_empty());
    words
}

/// The commands of a document: a line of code that begins with one, what stands in backquotes, and bold lines of a manual page.
pub(crate) fn named(path: &Path) -> Vec<Named> {
    let text = fs::read_to_string(path).expect("a document");
    named_in(&path.display().to_string(), &text)
}

/// The same of a text.
pub(crate) fn named_in(document: &str, text: &str) -> Vec<Named> {
    let mut found = Vec::new();
    let mut take = |number: usize, command: &str, is_whole| {
        let command = command.trim_start().strip_prefix("target/release/").unwrap_or(command.trim_start());
        if command.starts_with("ringway ") && !command.contains("->") {
            let place = format!("{document}:{}: {command}", number + 1);
            found.push(Named { place, words: split(command), is_whole });
        }
    };
    let mut is_code = false;
    for (number, line) in text.lines().enumerate() {
        if let Some(bold) = line.strip_prefix(".B ") {
            take(number, &bold.replace("\\-", "-").replace("\\fI", "").replace("\\fR", ""), false);
        } else if line.starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            take(number, line, true);
        } else {
            line.split('`').skip(1).step_by(2).for_each(|quoted| take(number, quoted, false));
        }
    }
    found
}
