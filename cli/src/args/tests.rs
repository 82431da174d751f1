use clap::{CommandFactory, Parser};

use super::{Arguments, Command};

#[test]
fn the_command_line_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn arguments_after_two_dashes_belong_to_the_program() {
    let parsed = Arguments::try_parse_from(["ringway", "run", "-q", "--", "nginx", "-g", "daemon off;", "--help"]);
    let Ok(Arguments { command: Command::Run(run) }) = parsed else { panic!("did not parse") };
    assert!(run.quiet);
    assert_eq!(run.program, ["nginx", "-g", "daemon off;", "--help"]);
}

/// What looks like an option is none of the program's names, unless it stands behind two dashes.
#[test]
fn a_mistyped_option_is_no_program() {
    let wrong = Arguments::try_parse_from(["ringway", "run", "--worker", "2", "--", "nginx"]).expect_err("it is no option");
    assert!(wrong.to_string().contains("--workers"), "{wrong}");
    let parsed = Arguments::try_parse_from(["ringway", "run", "nginx", "--worker", "2"]);
    let Ok(Arguments { command: Command::Run(run) }) = parsed else { panic!("did not parse") };
    assert_eq!(run.program, ["nginx", "--worker", "2"]);
    let parsed = Arguments::try_parse_from(["ringway", "run", "--", "--worker"]);
    let Ok(Arguments { command: Command::Run(run) }) = parsed else { panic!("did not parse") };
    assert_eq!(run.program, ["--worker"]);
}

#[test]
fn the_program_may_stand_without_dashes() {
    let parsed = Arguments::try_parse_from(["ringway", "run", "-e", "strict", "curl", "-v", "http://10.0.0.1/"]);
    let Ok(Arguments { command: Command::Run(run) }) = parsed else { panic!("did not parse") };
    assert_eq!(run.program, ["curl", "-v", "http://10.0.0.1/"]);
}
