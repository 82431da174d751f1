//! `hostile --socket PATH --rounds N [--seed N] [--form region|requests|attach|all] [--peer ADDRESS]`: processes that attach
//! to a service and misbehave.
//!
//! A round is a process of its own, which works for a few milliseconds and then ends or is killed. It has one of three
//! forms: `region` writes random words over its shared memory, `requests` sends random requests in the contract's format,
//! `attach` lies in the control messages and in the descriptors they carry. A round that the service refuses counts as
//! refused. The tool prints the number of rounds by result; the caller must check whether the service and its other users
//! were affected. The seed and the number of a round decide what it does; the machine decides when a kill takes effect.
#![forbid(unsafe_code)]

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use ringway_sim::hostile::{Form, Round};
use ringway_sim::random::Random;

const USAGE: &str = "usage: --socket PATH --rounds N [--seed N] [--form region|requests|attach|all] [--peer ADDRESS]";
/// Latest time at which a round is killed, microseconds; most have ended by then.
const KILL_MICROS: u64 = 20_000;
/// Exit code of a round that the service has refused.
const REFUSED: u8 = 3;

struct Arguments {
    socket: PathBuf,
    rounds: u64,
    seed: u64,
    /// `None`: each in turn.
    form: Option<Form>,
    /// Destination of requests, beside random addresses.
    peer: IpAddr,
    /// Number of the round that this process runs; `None`: it starts the others.
    round: Option<u64>,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (mut socket, mut rounds, mut seed, mut form, mut round) = (None, None, 1, None, None);
    let mut peer = IpAddr::from([192, 0, 2, 1]);
    while let Some(word) = words.next() {
        let text = words.next().ok_or(format!("{word} needs a value; {USAGE}"))?;
        let number = || text.parse::<u64>().map_err(|_| format!("{word}: expected a number, got {text}"));
        match word.as_str() {
            "--socket" => socket = Some(PathBuf::from(&text)),
            "--rounds" => rounds = Some(number()?),
            "--seed" => seed = number()?,
            "--form" if text == "all" => form = None,
            "--form" => {
                let named = Form::ALL.into_iter().find(|form| form.name() == text);
                form = Some(named.ok_or(format!("{text}: unknown; {USAGE}"))?);
            }
            "--peer" => peer = text.parse().map_err(|_| format!("{word}: expected an address, got {text}"))?,
            "--round" => round = Some(number()?),
            _ => return Err(format!("{word}: unknown; {USAGE}")),
        }
    }
    let (Some(socket), Some(rounds)) = (socket, rounds) else { return Err(USAGE.to_owned()) };
    Ok(Arguments { socket, rounds, seed, form, peer, round })
}

/// Runs one round in this process.
fn play(arguments: &Arguments, number: u64) -> ExitCode {
    let random = Random::new(arguments.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let form = arguments.form.unwrap_or(Form::ALL[(number % 3) as usize]);
    let attached = Round::new(&arguments.socket, arguments.peer, random).play(form);
    match attached {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hostile: round {number} ({}): {error}", form.name());
            ExitCode::from(REFUSED)
        }
    }
}

/// Runs every round as a process; half of them are killed at a random instant.
fn run(arguments: &Arguments, program: &Path) -> std::io::Result<ExitCode> {
    let (mut done, mut refused, mut killed) = (0, 0, 0);
    let mut random = Random::new(arguments.seed);
    for number in 0..arguments.rounds {
        let mut command = Command::new(program);
        command.arg("--socket").arg(&arguments.socket).args(["--rounds", "1"]);
        command.args(["--seed", &arguments.seed.to_string(), "--round", &number.to_string()]);
        command.args(["--peer", &arguments.peer.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(form) = arguments.form {
            command.args(["--form", form.name()]);
        }
        let mut child = command.spawn()?;
        if random.number().is_multiple_of(2) {
            std::thread::sleep(Duration::from_micros(random.number() % KILL_MICROS));
            child.kill()?;
        }
        match child.wait()?.code() {
            Some(0) => done += 1,
            Some(_) => refused += 1,
            None => killed += 1,
        }
    }
    println!("{} rounds: {done} done, {killed} killed, {refused} refused", arguments.rounds);
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    let outcome = parse(std::env::args().skip(1)).and_then(|arguments| match arguments.round {
        Some(number) => Ok(play(&arguments, number)),
        None => {
            let program = std::env::current_exe().map_err(|error| error.to_string())?;
            run(&arguments, &program).map_err(|error| error.to_string())
        }
    });
    outcome.unwrap_or_else(|error| {
        eprintln!("hostile: {error}");
        ExitCode::from(2)
    })
}
