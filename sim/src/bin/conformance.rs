//! `make conformance`: runs all `.pkt` scripts below the folders named (by default `conformance/`) and prints a table by
//! mechanism. Each runs over IPv4, over IPv4 with sockets of AF_INET6, and over IPv6, unless it names its family or `--ipv4`,
//! `--mapped` or `--ipv6` is given. Closes with `N passed, N failed`; the exit code says whether all passed.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use ringway_sim::script::{Family, run_as};

/// Runs packetdrill scripts on the stack and prints a table by mechanism.
#[derive(Parser)]
struct Arguments {
    /// Runs scripts over IPv4; without an option, scripts run over each family.
    #[arg(long)]
    ipv4: bool,
    /// Runs scripts over IPv4 with sockets of AF_INET6.
    #[arg(long)]
    mapped: bool,
    /// Runs scripts over IPv6.
    #[arg(long)]
    ipv6: bool,
    /// Scripts, or folders of scripts.
    #[arg(default_value = "conformance")]
    roots: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let families = families(&arguments);
    let mut scripts = Vec::new();
    for root in &arguments.roots {
        if let Err(error) = collect(root, &mut scripts) {
            eprintln!("{}: {error}", root.display());
            return ExitCode::FAILURE;
        }
    }
    scripts.sort();
    let mut table: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for script in &scripts {
        let mechanism = script.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let text = match std::fs::read_to_string(script) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("{}: {error}", script.display());
                return ExitCode::FAILURE;
            }
        };
        // A script that names its family runs once.
        let families = if text.contains("--ip_version") { &families[..1] } else { &families[..] };
        let row = table.entry(mechanism).or_default();
        for family in families {
            match run_as(&text, *family) {
                Ok(()) => row.0 += 1,
                Err(what) => {
                    row.1 += 1;
                    println!("FAILED {family:?} {}:{what}", script.display());
                }
            }
        }
    }
    print_table(&table)
}

/// Returns the families to run scripts over.
fn families(arguments: &Arguments) -> Vec<Family> {
    let asked = [(arguments.ipv4, Family::Ipv4), (arguments.mapped, Family::Mapped), (arguments.ipv6, Family::Ipv6)];
    let all = asked.iter().all(|(asked, _)| !asked);
    asked.into_iter().filter(|(asked, _)| *asked || all).map(|(_, family)| family).collect()
}

fn print_table(table: &BTreeMap<String, (u32, u32)>) -> ExitCode {
    println!("{:<24} {:>6} {:>6}", "mechanism", "passed", "failed");
    for (mechanism, (passed, failed)) in table {
        println!("{mechanism:<24} {passed:>6} {failed:>6}");
    }
    let (passed, failed) = table.values().fold((0, 0), |all, row| (all.0 + row.0, all.1 + row.1));
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Adds all scripts at or below `path`.
fn collect(path: &Path, scripts: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        scripts.push(path.to_path_buf());
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        if path.is_dir() || path.extension().is_some_and(|ending| ending == "pkt") {
            collect(&path, scripts)?;
        }
    }
    Ok(())
}
