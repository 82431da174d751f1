//! `make conformance`: runs all `.pkt` scripts below the folders named (by default `conformance/`) and prints a table by
//! mechanism. Each runs over IPv4, over IPv4 with sockets of AF_INET6, and over IPv6, unless it names its family or `--ipv4`,
//! `--mapped` or `--ipv6` is given. Closes with `N passed, N failed`; the exit code says whether all passed.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringway_sim::script::{Family, run_as};

fn main() -> ExitCode {
    let mut named: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let families = families(&mut named);
    let roots = if named.is_empty() { vec![PathBuf::from("conformance")] } else { named };
    let mut scripts = Vec::new();
    for root in &roots {
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

/// Removes the options from the arguments and returns the families to run scripts over.
fn families(named: &mut Vec<PathBuf>) -> Vec<Family> {
    let mut families = Vec::new();
    named.retain(|path| {
        let family = match path.to_str() {
            Some("--ipv4") => Family::Ipv4,
            Some("--mapped") => Family::Mapped,
            Some("--ipv6") => Family::Ipv6,
            _ => return true,
        };
        families.push(family);
        false
    });
    if families.is_empty() { vec![Family::Ipv4, Family::Mapped, Family::Ipv6] } else { families }
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
