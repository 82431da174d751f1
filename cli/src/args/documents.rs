//! Commands that the documents name: the table of arguments knows them.

mod named;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::Arguments;
use named::{Named, documents, named, named_in, split};

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

/// The examples that `--help` of a command and of those below it prints.
fn examples(command: &clap::Command) -> Vec<Named> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines: Vec<&str> = help.lines().filter(|line| line.starts_with("  ringway ")).collect();
    let own = named_in(&format!("help of {}", command.get_name()), &format!("```\n{}\n", lines.join("\n")));
    own.into_iter().chain(command.get_subcommands().flat_map(examples)).collect()
}

#[test]
fn each_command_of_the_documents_is_one() {
    let named: Vec<Named> = documents().iter().flat_map(|path| named(path)).chain(examples(&Arguments::command())).collect();
    assert!(named.len() > 150, "{} commands", named.len());
    let mut wrong = Vec::new();
    for Named { place, words, is_whole } in named {
        let place_of =
            |word: &String| PLACES.iter().find(|(place, _)| place == word).map_or(word.clone(), |(_, value)| (*value).to_owned());
        let Err(error) = Arguments::try_parse_from(words.iter().map(place_of)) else { continue };
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
    assert_eq!(split("ringway config set KEY=VALUE…"), ["ringway", "config", "set", "KEY=VALUE"]);
    assert_eq!(split("ringway check-trace FILE [--json] | head"), ["ringway", "check-trace", "FILE", "--json"]);
}
