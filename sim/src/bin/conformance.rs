//! `make conformance`: runs all `.pkt` scripts below the folders named (by default `conformance/`) and prints a table by
//! mechanism; `--ipv6` and `--mapped` choose the family where a script does not. Closes with `N passed, N failed`; the exit code says whether all passed.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringway_sim::script::{Family, run_as};

fn main() -> ExitCode {
    let mut named: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let asked = |named: &mut Vec<PathBuf>, option: &str| {
        let before = named.len();
        named.retain(|path| path.as_os_str() != option);
        named.len() < before
    };
    let family = match (asked(&mut named, "--ipv6"), asked(&mut named, "--mapped")) {
        (true, _) => Family::Ipv6,
        (_, true) => Family::Mapped,
        _ => Family::Ipv4,
    };
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
        let result = std::fs::read_to_string(script).map_err(|error| error.to_string()).and_then(|text| run_as(&text, family));
        let row = table.entry(mechanism).or_default();
        match result {
            Ok(()) => row.0 += 1,
            Err(what) => {
                row.1 += 1;
                println!("FAILED {}:{what}", script.display());
            }
        }
    }
    print_table(&table)
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
