//! `ringway bench pack`: rows, their report, and what the machine was, in one file that others can look into and repeat.
//!
//! Promises: the same rows on the same machine give the same bytes; no secret is in it (the kernel's key of TCP Fast Open). Does not do:
//! compressing and archiving, which tar(1) does.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;

use crate::measure::machine;
use crate::options::NETWORK;
use crate::report::{self, Form, reading::Rows};

/// Arguments of `ringway bench pack`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Files with the output of `ringway bench --json`
    #[arg(required = true, value_name = "ROWS.jsonl")]
    rows: Vec<PathBuf>,
    /// The bundle
    #[arg(short, long, value_name = "FILE", default_value = "ringway-bench.tar.gz")]
    out: PathBuf,
}

const ROWS: &str = "rows.jsonl";
const ENDINGS: [&str; 2] = [".tar.gz", ".tgz"];

/// Writes the bundle.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match pack(arguments) {
        Ok(words) => {
            eprintln!("ringway bench pack: {words}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ringway bench pack: {error}");
            ExitCode::FAILURE
        }
    }
}

fn pack(arguments: &Arguments) -> Result<String, Box<dyn std::error::Error>> {
    if !is_bundle(&arguments.out) {
        return Err(format!("{}: the name of a bundle ends with .tar.gz", arguments.out.display()).into());
    }
    let folder = Folder::new()?;
    let mut rows = Rows::default();
    for file in &arguments.rows {
        rows.read(file)?;
    }
    let lines: String = rows.rows.iter().map(|row| row.to_json() + "\n").collect();
    let path = folder.0.join(ROWS);
    fs::write(&path, lines)?;
    report::write(&[path], &folder.0, Form::Page)?;
    fs::write(folder.0.join("machine.txt"), describe(Path::new("/")))?;
    fs::write(folder.0.join("README"), repeat(&rows))?;
    archive(&folder.0, &arguments.out)?;
    Ok(format!("{} rows: {}", rows.rows.len(), arguments.out.display()))
}

/// A folder that ends with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Folder> {
        let path = std::env::temp_dir().join(format!("ringway-bench-pack-{}", std::process::id()));
        // One that is there already is not ours.
        fs::create_dir(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("ringway bench pack: {}: {error}", self.0.display());
        }
    }
}

/// How to measure the rows again.
fn repeat(rows: &Rows) -> String {
    let mut commands: Vec<String> = Vec::new();
    for row in &rows.rows {
        let mut words = format!("ringway bench {}", row.scenario.replacen("host-", "host ", 1));
        match row.wire.as_str() {
            "" | "veth" | "path" => {}
            NETWORK => {
                words.push_str(" --peer MACHINE");
                row.ends.keys().filter(|end| end.starts_with("client ")).for_each(|_| words.push_str(" --clients MACHINE"));
            }
            wire => write!(words, " --wire {wire}").expect("a String takes everything"),
        }
        if row.rounds > 1 {
            write!(words, " --rounds {}", row.rounds).expect("a String takes everything");
        }
        words.push_str(" --json");
        if !commands.contains(&words) {
            commands.push(words);
        }
    }
    format!(
        "Rows of `ringway bench`, commit {}. report.html shows them, machine.txt says where they were measured.\n\n\
         To measure again on a quiet machine, as root:\n{}\nTo compare:\n  ringway bench compare THIS.tar.gz rows.jsonl\n",
        machine::commit(),
        commands.iter().map(|command| format!("  {command} >> rows.jsonl\n")).collect::<String>()
    )
}

/// What of the machine may change a figure; files below `root`.
fn describe(root: &Path) -> String {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let mut text = format!("processor: {}\nkernel: {}\ncommit: {}\n", machine::processor(), machine::kernel(), machine::commit());
    let mut put = |name: &str, value: String| {
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        if !value.is_empty() {
            writeln!(text, "{name}: {value}").expect("a String takes everything");
        }
    };
    let system = read("etc/os-release").lines().find_map(|line| line.strip_prefix("PRETTY_NAME=").map(str::to_string));
    put("system", system.unwrap_or_default().replace('"', ""));
    put("kernel's command line", read("proc/cmdline"));
    put("memory", read("proc/meminfo").lines().next().unwrap_or_default().replace("MemTotal:", ""));
    put("processors online", read("sys/devices/system/cpu/online"));
    put("threads of a core", read("sys/devices/system/cpu/smt/active"));
    put("frequency governor", read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    put("clock", read("sys/devices/system/clocksource/clocksource0/current_clocksource"));
    put("huge pages", read("sys/kernel/mm/transparent_hugepage/enabled"));
    for (folder, prefix) in
        [("sys/devices/system/cpu/vulnerabilities", ""), ("proc/sys/net/core", ""), ("proc/sys/net/ipv4", "tcp_")]
    {
        for name in names(&root.join(folder), prefix) {
            put(&format!("{}/{name}", folder.rsplit("sys/").next().unwrap_or(folder)), read(&format!("{folder}/{name}")));
        }
    }
    text
}

/// The names of a folder's files, in their order, without those that may hold secrets.
fn names(folder: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.starts_with(prefix) && !name.contains("key"));
    names.sort();
    names
}

fn archive(folder: &Path, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let words = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"];
    let mut tar = Command::new("tar");
    tar.args(words).arg("--use-compress-program=gzip -n").arg("-cf").arg(out).arg("-C").arg(folder).arg(".");
    match tar.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("tar: {status}").into()),
        Err(error) => Err(format!("tar: {error}").into()),
    }
}

/// Returns true for the name of a bundle.
pub(crate) fn is_bundle(path: &Path) -> bool {
    let name = path.to_string_lossy();
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The text of a bundle's rows.
///
/// # Errors
/// It cannot be read, or has none.
pub(crate) fn rows_of(bundle: &Path) -> Result<Vec<u8>, String> {
    let mut tar = Command::new("tar");
    tar.arg("-xOf").arg(bundle).arg(format!("./{ROWS}")).stdin(Stdio::null());
    let output = tar.output().map_err(|error| format!("tar: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{}: {}", bundle.display(), String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[cfg(test)]
mod tests;
