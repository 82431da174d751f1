//! `ringway bench all`: runs every scenario in a short form, one after the other, and reports their rows.
//!
//! Each scenario runs in its own process, so that a failure does not affect the others; the failed ones are listed at the
//! end. Promises: a scenario added to the list is measured here too; `rows.jsonl` gets each row as soon as it is known; a
//! signal ends the running measurement and removes its wires. Does not do: many rounds; for a precise figure, run its
//! scenario alone.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

mod parts;

use crate::report;
use parts::{Form, Part};

/// Arguments of `ringway bench all`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Output folder for rows.jsonl, report.html, report.md and figures/
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Measure everything in less than five minutes instead of thirty
    #[arg(long)]
    quick: bool,
    /// Measure only these scenarios
    #[arg(long, value_delimiter = ',', value_name = "SCENARIO,…")]
    only: Vec<String>,
    /// List the measurements and their expected times, without running them
    #[arg(long)]
    list: bool,
    /// Print no progress on standard error
    #[arg(short, long)]
    quiet: bool,
}

/// Exit status for wrong arguments.
const WRONG: u8 = 2;

/// Measures all scenarios and writes the report; fails when one could not be measured.
pub fn run(arguments: &Arguments) -> ExitCode {
    let form = if arguments.quick { Form::QUICK } else { Form::SHORT };
    let parts = match parts::only(parts::all(form), &arguments.only) {
        Ok(parts) => parts,
        Err(text) => {
            eprintln!("ringway bench all: {text}");
            return ExitCode::from(WRONG);
        }
    };
    if arguments.list {
        parts.iter().for_each(|part| eprintln!("{:>4} s  {}", part.expected.as_secs(), part.words.join(" ")));
        return ExitCode::SUCCESS;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("ringway bench all: making network interfaces needs root");
        return ExitCode::FAILURE;
    }
    match measure(arguments, &parts) {
        Ok(failed) if failed.is_empty() => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("ringway bench all: not measured: {}", failed.join("; "));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("ringway bench all: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures the parts; returns those that failed.
fn measure(arguments: &Arguments, parts: &[Part]) -> io::Result<Vec<String>> {
    let out = &arguments.out;
    let named = |path: &Path, error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    fs::create_dir_all(out).map_err(|error| named(out, error))?;
    let path = out.join("rows.jsonl");
    File::create(&path).map_err(|error| named(&path, error))?;
    let rows = File::options().append(true).open(&path)?;
    let running = Running::watch()?;
    let (begun, mut failed) = (Instant::now(), Vec::new());
    for (number, part) in parts.iter().enumerate() {
        if !arguments.quiet {
            let left = parts::remaining(&parts[..number], &parts[number..], begun.elapsed());
            let so_far = format!("{} s so far, about {} s left", begun.elapsed().as_secs(), left.as_secs());
            eprintln!("ringway bench all: {} ({} of {}); {so_far}", part.words.join(" "), number + 1, parts.len());
        }
        let status = running.run(part.command()?.stdout(rows.try_clone()?).args(arguments.quiet.then_some("--quiet")))?;
        if !status.success() {
            failed.push(part.words.join(" "));
        }
    }
    let told = report::write(&[path], out, report::Form::Page).map_err(|error| io::Error::other(error.to_string()))?;
    eprintln!("ringway bench all: {told}");
    Ok(failed)
}

impl Part {
    fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("bench").args(&self.words).arg("--json").stdin(Stdio::null());
        Ok(command)
    }
}

/// The measuring process; a signal to this process ends it, too.
#[derive(Clone)]
struct Running(Arc<Mutex<Option<Child>>>);

impl Running {
    fn watch() -> io::Result<Running> {
        let running = Running(Arc::default());
        let (mut signals, theirs) = (Signals::new([SIGINT, SIGTERM, SIGHUP])?, running.clone());
        let watch = move || {
            let Some(signal) = signals.forever().next() else { return };
            // Holds the lock to the end, so that no other process starts.
            let mut child = theirs.child();
            if let Some(child) = child.as_mut() {
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                // It may end by itself meanwhile: Ctrl-C reaches it, too.
                pid.map_or(Ok(()), |pid| kill_process(pid, Signal::TERM)).unwrap_or_default();
                child.wait().map_or_else(|error| eprintln!("ringway bench all: {error}"), drop);
            }
            std::process::exit(128 + signal);
        };
        std::thread::Builder::new().name("signals".into()).spawn(watch)?;
        Ok(running)
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command to its end.
    fn run(&self, command: &mut Command) -> io::Result<ExitStatus> {
        {
            let mut child = self.child();
            *child = Some(command.spawn()?);
        }
        loop {
            let status = self.child().as_mut().map_or(Ok(None), Child::try_wait)?;
            if let Some(status) = status {
                *self.child() = None;
                return Ok(status);
            }
            sleep(STEP);
        }
    }
}

/// Polling interval.
const STEP: Duration = Duration::from_millis(20);
