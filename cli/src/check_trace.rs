//! `ringway check-trace FILE`: checks a capture of any stack against the rules of TCP, IP and UDP.
//!
//! Promises: exit status 0 when no rule is broken, 1 when one is, 2 when the file cannot be read; warnings count only with
//! `--strict`. Does not do: capture (`ringway tcpdump -w FILE`, tcpdump(8)).

use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use ringway_trace::{Finding, FlowReport, Options, Report, Severity};
use serde_json::{Value, json};

/// Arguments of `ringway check-trace`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Capture file, pcap or pcapng; `-` reads standard input
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Address of the host that captured: the order of its packets is exact (may be repeated)
    #[arg(long, value_name = "ADDRESS")]
    local: Vec<IpAddr>,
    /// Shortest accepted time to a retransmission without a sign of loss, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200)]
    min_rto: u32,
    /// Count warnings as findings
    #[arg(long)]
    strict: bool,
}

/// Checks the file and prints the findings.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let report = match read(arguments) {
        Ok(report) => report,
        Err(text) => {
            eprintln!("ringway check-trace: {}: {text}", arguments.file.display());
            return ExitCode::from(2);
        }
    };
    let findings = findings(&report, arguments.strict);
    let printed = if arguments.json {
        writeln!(io::stdout().lock(), "{}", as_json(&report, findings))
    } else {
        print(&mut io::stdout().lock(), &report, findings)
    };
    match printed {
        // A reader that closed the pipe has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("ringway check-trace: {error}");
            ExitCode::from(2)
        }
        _ if findings > 0 => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

fn read(arguments: &Arguments) -> Result<Report, String> {
    let options = Options { local: arguments.local.clone(), least_timeout: u64::from(arguments.min_rto) * NANOS_PER_MILLISECOND };
    let checked = if arguments.file.as_os_str() == "-" {
        ringway_trace::check(io::stdin(), options)
    } else {
        let file = File::open(&arguments.file).map_err(|error| error.to_string())?;
        ringway_trace::check(file, options)
    };
    checked.map_err(|error| error.to_string())
}

fn findings(report: &Report, strict: bool) -> u64 {
    report.errors + if strict { report.warnings } else { 0 }
}

fn print(to: &mut dyn Write, report: &Report, findings: u64) -> io::Result<()> {
    for finding in &report.findings {
        writeln!(to, "{finding}")?;
    }
    let shown = report.findings.len() as u64;
    let all = report.errors + report.warnings;
    if all > shown {
        writeln!(to, "and {} more of the same rules in the same flows", all - shown)?;
    }
    for flow in &report.flows {
        writeln!(to, "{}", flow_line(flow))?;
    }
    for (note, count) in &report.notes {
        writeln!(to, "note: {note}: {count}")?;
    }
    if report.warnings > 0 {
        writeln!(to, "note: warnings: {}", report.warnings)?;
    }
    writeln!(to, "{} packets, {} flows, {findings} findings", report.packets, report.flows.len())
}

/// Formats one line for a flow: `tcp A <> B: 12+10 packets, 1000+20 bytes, …`
fn flow_line(flow: &FlowReport) -> String {
    let pair = |[a, b]: [u64; 2]| format!("{a}+{b}");
    let mut line =
        format!("{} {} <> {}: {} packets, {} bytes", flow.protocol, flow.from, flow.to, pair(flow.packets), pair(flow.bytes));
    let counts = [
        (flow.retransmissions, "retransmissions"),
        (flow.super_segments, "super-segments"),
        (flow.partial_checksums, "partial checksums"),
    ];
    for (count, name) in counts.into_iter().filter(|(count, _)| *count != [0, 0]) {
        line += &format!(", {} {name}", pair(count));
    }
    for (count, name) in [(flow.errors, "findings"), (flow.warnings, "warnings")] {
        if count > 0 {
            line += &format!(", {count} {name}");
        }
    }
    if !flow.from_start {
        line += ", began before the capture";
    }
    if flow.incomplete {
        line += &format!(", capture incomplete ({} findings left out)", flow.excused);
    }
    line
}

fn as_json(report: &Report, findings: u64) -> Value {
    json!({
        "packets": report.packets,
        "findings_total": findings,
        "warnings_total": report.warnings,
        "findings": report.findings.iter().map(finding_json).collect::<Vec<_>>(),
        "flows": report.flows.iter().map(flow_json).collect::<Vec<_>>(),
        "notes": report.notes,
    })
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "packet": finding.packet,
        "time_ns": finding.nanos,
        "from": finding.from.to_string(),
        "to": finding.to.to_string(),
        "rule": finding.rule.id(),
        "document": finding.rule.document(),
        "severity": if finding.severity == Severity::Error { "error" } else { "warning" },
        "text": finding.text,
    })
}

fn flow_json(flow: &FlowReport) -> Value {
    json!({
        "protocol": flow.protocol,
        "from": flow.from.to_string(),
        "to": flow.to.to_string(),
        "packets": flow.packets,
        "bytes": flow.bytes,
        "retransmissions": flow.retransmissions,
        "super_segments": flow.super_segments,
        "partial_checksums": flow.partial_checksums,
        "from_start": flow.from_start,
        "incomplete": flow.incomplete,
        "excused": flow.excused,
        "findings": flow.errors,
        "warnings": flow.warnings,
    })
}

const NANOS_PER_MILLISECOND: u64 = 1_000_000;
