//! Checks of the interfaces: what each supports, which device Ringway would use and why; speed of the devices.

use ringway_device::interface::{Abilities, Queues};
use ringway_device::probe::{Candidate, Finding, Probe, measure as measure_candidate, probe};
use ringway_service::Config;
use ringway_service::cgroups::{Described, describe_caller};
use ringway_service::firewall::blindness;
use ringway_service::netlink::Snapshot;
use ringway_service::plan::{Backend, Machine, Planned, firewall_lines, plan};
use serde_json::{Value, json};

use super::report::{Report, Status};

/// Packets per measurement: enough to outlast a scheduler tick.
const PACKETS: usize = 200_000;
const SMALL_BYTES: usize = 60;
const LARGE_BYTES: usize = 1_514;

/// Probes each interface that would be served, and reports the others and the firewall's effect on ports.
pub(super) fn examine(config: &Config, kernel: &Snapshot, report: &mut Report) {
    let machine = Machine::now(config, kernel);
    let plan = &plan(config, kernel, &machine);
    for planned in &plan.served {
        match planned.backend {
            Backend::Tap => report.ok(&planned.name, "would be created: a tap interface of Ringway's own".to_owned()),
            Backend::Packet | Backend::Xdp => examine_interface(planned, report),
        }
        for warning in &planned.warnings {
            report.warn(
                "rules",
                warning.clone(),
                "policy.firewall and policy.routing = \"respect\" leave such an interface to the kernel",
            );
        }
    }
    for skipped in &plan.skipped {
        let status = if skipped.was_named || skipped.guard.is_some() { Status::Warn } else { Status::Ok };
        report.add(status, &skipped.name, format!("stays with the kernel: {}", skipped.reason), "");
    }
    for line in firewall_lines(config, &machine, plan) {
        report.ok("firewall", line);
    }
    if let Some(line) = blindness(config) {
        report.note("firewall", line.to_owned());
    }
    let Described { line, remedy } = describe_caller(config);
    match remedy {
        None => report.ok("cgroup", line),
        Some(remedy) => report.warn("cgroup", line, remedy),
    }
    if plan.served.is_empty() {
        report.fail(
            "interfaces",
            "no interface to serve".to_owned(),
            "ip address add ADDRESS/24 dev INTERFACE; ip link set INTERFACE up",
        );
    }
}

fn examine_interface(planned: &Planned, report: &mut Report) {
    let found = match probe(&planned.name) {
        Ok(found) => found,
        Err(error) => return report.fail(&planned.name, format!("cannot probe it: {error}"), ""),
    };
    let interface = &found.interface;
    let addresses: Vec<String> = planned.addresses.iter().map(|cidr| format!("{}/{}", cidr.ip, cidr.prefix_len)).collect();
    let driver = if interface.driver.is_empty() { "unknown" } else { &interface.driver };
    let what =
        format!("{}, driver {driver}, {} receive queue(s), MTU {}", addresses.join(" "), interface.receive_queues, interface.mtu);
    report.ok(&planned.name, what);
    // `Err`: it has gone meanwhile.
    let abilities = Abilities::of(&planned.name).unwrap_or_default();
    describe(&planned.name, &abilities, report);
    for Finding { candidate, outcome } in &found.findings {
        match outcome {
            Ok(text) if *candidate == Candidate::XdpGeneric => report.note(&planned.name, format!("{candidate}: {text}")),
            Ok(text) => report.ok(&planned.name, format!("{candidate}: {text}")),
            Err(text) => report.warn(&planned.name, format!("{candidate}: {text}"), ""),
        }
    }
    report.note(
        &planned.name,
        format!("{}: not tried: attaching it may change the offloads of the card (--self-test)", Candidate::XdpNative),
    );
    choose(planned, &found, report);
    report.detail("interfaces", details(planned, &found, &abilities));
}

/// Reports the offloads and queues of the card, and what its driver does for XDP.
fn describe(name: &str, abilities: &Abilities, report: &mut Report) {
    let (on, off): (Vec<_>, Vec<_>) = abilities.offloads.iter().partition(|(_, is_on)| *is_on);
    let words = |some: Vec<(&str, bool)>| some.into_iter().map(|(word, _)| word).collect::<Vec<_>>().join(" ");
    let text = match (words(on), words(off)) {
        (on, off) if on.is_empty() && off.is_empty() => "offloads: none, or its driver does not say".to_owned(),
        (on, off) if off.is_empty() => format!("offloads: {on}"),
        (on, off) if on.is_empty() => format!("offloads: none; off: {off}"),
        (on, off) => format!("offloads: {on}; off: {off}"),
    };
    report.ok(name, text);
    if abilities.is_on("large-receive-offload") {
        report.note(name, "large-receive-offload is on: a program of XDP at this card switches it off".to_owned());
    }
    let queues = abilities.queues.map_or_else(|| "queues: its driver does not say".to_owned(), |queues| queues.to_string());
    let xdp = abilities.xdp.map_or_else(|| "this kernel does not say (before 6.3)".to_owned(), |xdp| xdp.to_string());
    report.ok(name, format!("{queues}; XDP in its driver: {xdp}"));
}

/// Some drivers alter AF_XDP packets (docs/testing.md, Cards).
const XDP_REMEDY: &str = "a service tests it when it starts, towards a neighbor; `ringway doctor --self-test` does so now";

/// Reports whether the configured device works, and which one would work instead.
fn choose(planned: &Planned, found: &Probe, report: &mut Report) {
    let works = |candidate| found.findings.iter().any(|finding| finding.candidate == candidate && finding.outcome.is_ok());
    let (device, usable) = match planned.backend {
        Backend::Packet => ("packet", works(Candidate::Packet)),
        Backend::Xdp => ("xdp", works(Candidate::XdpGeneric) || works(Candidate::XdpNative)),
        Backend::Tap => ("tap", works(Candidate::Tap)),
    };
    let (status, fix) = match (usable, found.choice()) {
        (true, _) if planned.backend == Backend::Xdp => (Status::Warn, XDP_REMEDY.to_owned()),
        (true, _) => (Status::Ok, String::new()),
        (false, Some((other, why))) => (Status::Warn, format!("interface.device = {:?} works here: {why}", word(other))),
        (false, None) => (Status::Fail, "none of the devices works here; see the lines above".to_owned()),
    };
    let verb = match (usable, planned.backend) {
        (true, Backend::Xdp) => "would be chosen, but no packet was sent through it on this card",
        (true, _) => "would be chosen",
        (false, _) => "would be chosen, but does not work",
    };
    report.add(status, &planned.name, format!("{device} {verb}: {}", planned.reason), &fix);
}

/// The value of `interface.device` for a candidate.
fn word(candidate: Candidate) -> &'static str {
    match candidate {
        Candidate::Packet => "packet",
        Candidate::XdpNative | Candidate::XdpGeneric => "xdp",
        Candidate::Tap => "tap",
    }
}

fn details(planned: &Planned, found: &Probe, abilities: &Abilities) -> Value {
    let candidate = |finding: &Finding| match &finding.outcome {
        Ok(text) => {
            let tried_here = finding.candidate != Candidate::XdpGeneric;
            json!({"device": finding.candidate.to_string(), "works": true, "tried_here": tried_here, "text": text})
        }
        Err(text) => json!({"device": finding.candidate.to_string(), "works": false, "text": text}),
    };
    let addresses: Vec<String> = planned.addresses.iter().map(|cidr| cidr.ip.to_string()).collect();
    json!({
        "name": planned.name,
        "addresses": addresses,
        "driver": found.interface.driver,
        "receive_queues": found.interface.receive_queues,
        "queues": abilities.queues.map(|Queues { now, most }| {
            json!({"receive": now[0], "transmit": now[1], "combined": now[2],
                   "receive_max": most[0], "transmit_max": most[1], "combined_max": most[2]})
        }),
        "offloads": abilities.offloads.iter().map(|(word, on)| ((*word).to_owned(), json!(on))).collect::<serde_json::Map<_, _>>(),
        "xdp_in_driver": abilities.xdp.map(|xdp| xdp.to_string()),
        "mtu": found.interface.mtu,
        "candidates": found.findings.iter().map(candidate).collect::<Vec<Value>>(),
        "chosen": planned.backend.word(),
        "reason": planned.reason,
    })
}

/// Measures each candidate's packet rate in a namespace of its own.
pub(super) fn measure(report: &mut Report) {
    for candidate in [Candidate::Packet, Candidate::XdpNative, Candidate::XdpGeneric, Candidate::Tap] {
        let name = format!("measured {candidate}");
        let run = |bytes| measure_candidate(candidate, bytes, PACKETS, ringway_engine::clock::now);
        match run(SMALL_BYTES).and_then(|small| Ok((small, run(LARGE_BYTES)?))) {
            Ok((small, large)) => {
                let (packets, bits) = (small.packets_per_second, large.bytes_per_second * 8.0);
                report.ok(
                    &name,
                    format!(
                        "{:.2} M packets/s of 60 B, {:.1} Gb/s in packets of 1514 B, one core, veth or tap",
                        packets / 1e6,
                        bits / 1e9
                    ),
                );
                let value = json!({"device": candidate.to_string(), "packets_per_s": packets, "bits_per_s": bits});
                report.detail("measurements", value);
            }
            Err(error) => report.warn(&name, error.to_string(), ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(offloads: &[(&'static str, bool)]) -> String {
        let queues = Some(Queues { now: [0, 0, 2], most: [0, 0, 8] });
        let mut report = Report::default();
        describe("eth7", &Abilities { offloads: offloads.to_vec(), queues, xdp: None }, &mut report);
        report.text()
    }

    #[test]
    fn offloads_and_queues_of_a_card_are_named() {
        let text = described(&[("rx-checksumming", true), ("large-receive-offload", false)]);
        assert!(text.contains("offloads: rx-checksumming; off: large-receive-offload"), "{text}");
        assert!(text.contains("2 of 8 combined queue(s); XDP in its driver: this kernel does not say"), "{text}");
        assert!(!text.contains("switches it off"), "{text}");
        let text = described(&[("large-receive-offload", true)]);
        assert!(text.contains("NOTE") && text.contains("switches it off"), "{text}");
        assert!(described(&[]).contains("offloads: none, or its driver does not say"));
    }
}
