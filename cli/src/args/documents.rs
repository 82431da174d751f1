//! Commands that the documents name: the table of arguments knows them.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::Arguments;

/// Words that stand for a reader's own, and values for them.
const PLACES: [(&str, &str); 16] = [
    ("N", "2"),
    ("PID", "4711"),
    ("END", ":443"),
    ("KEY", "tcp.retries"),
    ("KEY=VALUE", "tcp.retries=9"),
    ("SCENARIO", "conns"),
    ("EXPERIMENT", "single"),
    ("NAME", "latency"),
    ("ADDRESS", "192.0.2.1"),
    ("ROWS.jsonl", "rows.jsonl"),
    ("FILE", "file"),
    ("FILE.tar.gz", "file.tar.gz"),
    ("BEFORE", "before.jsonl"),
    ("AFTER", "after.jsonl"),
    ("PERCENT", "5"),
    ("DIR", "folder"),
];

/// A command, and where it stands.
struct Named {
    place: String,
    words: Vec<String>,
    /// In the middle of a sentence a command may lack its arguments.
    is_whole: bool,
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate stands in the workspace").to_path_buf()
}

fn documents() -> Vec<PathBuf> {
    let inside =
        |folder: PathBuf| fs::read_dir(folder).expect("a folder of the workspace").map(|entry| entry.expect("an entry").path());
    let folders = [top(), top().join("docs"), top().join("packaging")];
    let mut found: Vec<PathBuf> = folders.into_iter().flat_map(inside).collect();
    found.retain(|path| path.extension().is_some_and(|kind| kind == "md" || kind == "7" || kind == "8"));
    found
}

/// The examples that `--help` of a command and of those below it prints.
fn examples(command: &clap::Command) -> Vec<Named> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines: Vec<&str> = help.lines().filter(|line| line.starts_with("  ringway ")).collect();
    let own = named_in(&format!("help of {}", command.get_name()), &format!("```\n{}\n", lines.join("\n")));
    own.into_iter().chain(command.get_subcommands().flat_map(examples)).collect()
}

/// Splits as a shell does, up to a comment, a pipe or two spaces behind which an explanation stands.
fn split(text: &str) -> Vec<String> {
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
    let place = |word: String| PLACES.iter().find(|(place, _)| *place == word).map_or(word, |(_, value)| (*value).to_owned());
    words.into_iter().map(place).filter(|word| !word.is_empty()).collect()
}

/// The commands of a document: a line of code that begins with one, what stands in backquotes, and bold lines of a manual page.
fn named(path: &Path) -> Vec<Named> {
    let text = fs::read_to_string(path).expect("a document");
    named_in(&path.display().to_string(), &text)
}

fn named_in(document: &str, text: &str) -> Vec<Named> {
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

#[test]
fn each_command_of_the_documents_is_one() {
    let named: Vec<Named> = documents().iter().flat_map(|path| named(path)).chain(examples(&Arguments::command())).collect();
    assert!(named.len() > 150, "{} commands", named.len());
    let mut wrong = Vec::new();
    for Named { place, words, is_whole } in named {
        let Err(error) = Arguments::try_parse_from(&words) else { continue };
        let is_short = matches!(
            error.kind(),
            ErrorKind::MissingRequiredArgument
                | ErrorKind::MissingSubcommand
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        );
        let asks = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        if !(asks || is_short && !is_whole) {
            wrong.push(format!("{place}\n    {}", error.to_string().lines().next().unwrap_or_default()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_are_split_as_a_shell_does() {
    assert_eq!(
        split("ringway run -- nginx -g 'daemon off;' # a comment"),
        ["ringway", "run", "--", "nginx", "-g", "daemon off;"]
    );
    assert_eq!(split("ringway bench list     what there is"), ["ringway", "bench", "list"]);
    assert_eq!(split("ringway config set KEY=VALUE…"), ["ringway", "config", "set", "tcp.retries=9"]);
    assert_eq!(split("ringway check-trace FILE [--json] | head"), ["ringway", "check-trace", "file", "--json"]);
}
