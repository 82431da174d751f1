//! Runs `perf` as a child: records the whole machine while a command runs, and reads the recording.
//!
//! Promises: the recording is removed; a missing or failing perf is an error with its stderr.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::script::{self, Event};

/// A recording on disk.
#[derive(Debug)]
pub(super) struct Recording {
    folder: PathBuf,
    /// Process id of perf, the command's parent.
    pub(super) recorder: i32,
    /// The command's standard output.
    pub(super) output: String,
}

/// Samples per second and core; not a divisor of the timer's rate.
pub(super) const RATE_HZ: u32 = 997;

impl Recording {
    /// Runs a command to its end under perf.
    ///
    /// # Errors
    /// perf is missing or may not record, or the command failed; with their stderr.
    pub(super) fn of(command: &[String]) -> io::Result<Recording> {
        let folder = std::env::temp_dir().join(format!("ringway-cycles-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let mut recording = Recording { folder, recorder: 0, output: String::new() };
        let words = recording.folder.join("words");
        let mut perf = Command::new("perf");
        perf.args([
            "record",
            "--quiet",
            "--all-cpus",
            "--no-buildid-cache",
            "-g",
            "-e",
            "cpu-clock",
            "-F",
            &RATE_HZ.to_string(),
            "-o",
        ]);
        perf.arg(recording.folder.join("data")).arg("--").args(command);
        perf.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&words)?);
        let child = perf.spawn().map_err(|error| missing(&error))?;
        recording.recorder = i32::try_from(child.id()).expect("process ids are small");
        let output = child.wait_with_output()?;
        recording.output = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let words = fs::read_to_string(&words).unwrap_or_default();
            return Err(io::Error::other(format!("perf record ({}): {}", output.status, words.trim())));
        }
        Ok(recording)
    }

    /// Passes all recorded events to `take`.
    ///
    /// # Errors
    /// perf cannot read its own recording.
    pub(super) fn read(&self, take: &mut dyn FnMut(Event)) -> io::Result<()> {
        let words = self.folder.join("words");
        let mut perf = Command::new("perf");
        perf.args(["script", "--no-inline", "--show-task-events", "-F", script::FIELDS, "-i"]).arg(self.folder.join("data"));
        let mut child = perf.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&words)?).spawn()?;
        let text = child.stdout.take().expect("it was asked to be piped");
        script::read(&mut BufReader::new(text), take)?;
        let status = child.wait()?;
        if !status.success() {
            let words = fs::read_to_string(&words).unwrap_or_default();
            return Err(io::Error::other(format!("perf script ({status}): {}", words.trim())));
        }
        Ok(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("ringway bench cycles: {}: {error}", self.folder.display());
        }
    }
}

fn missing(error: &io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => io::Error::other("perf is not installed (Debian: apt-get install linux-perf)"),
        kind => io::Error::new(kind, format!("perf: {error}")),
    }
}
