//! Formats tallies as a table and as rows.

use crate::measure::machine;
use crate::row::{Parameter, QUIET, Row};
use crate::target::WireKind;

use super::classes::CLASSES;
use super::sample_counts::{Core, UNMAPPED};
use super::{Load, Seen};

/// Share of other processes' samples above which a core's row is marked noisy, percent of the core.
const FOREIGN_MAX: f64 = 5.0;

/// Formats a table with a line for each class and a column for each core and target.
pub(super) fn text(load: Load, wire: WireKind, all: &[Seen]) -> String {
    let groups = groups(all);
    let mut out = format!("\n{} over {}, percent of the busy samples ({} Hz)\n", load.name(), wire.name(), super::perf::RATE_HZ);
    let line = |name: &str, cell: &dyn Fn(&Core) -> String| {
        let cells: String =
            groups.iter().flat_map(|(_, columns)| columns).map(|(_, core)| format!("{:>14}", cell(core))).collect();
        format!("{name:<22}{}\n", cells)
    };
    let wide = |name: &str, columns: usize| format!("{name:>width$}", width = 14 * columns);
    out.push_str(&format!("{:<22}{}\n", "", groups.iter().map(|(name, columns)| wide(name, columns.len())).collect::<String>()));
    let names: String = groups.iter().flat_map(|(_, columns)| columns).map(|(name, _)| format!("{name:>14}")).collect();
    out.push_str(&format!("{:<22}{names}\n", ""));
    for class in CLASSES {
        out.push_str(&line(class.name(), &|core| format!("{:.1}", core.share(class))));
    }
    out.push_str(&line(UNMAPPED, &|core| format!("{:.1}", core.unmapped_share())));
    out.push_str(&line("busy, % of the core", &|core| format!("{:.0}", core.utilization())));
    out.push_str(&line("others, % of the core", &|core| format!("{:.0}", core.foreign_share())));
    out
}

/// Formats a row for each class, core and target, for `ringway report`.
pub(super) fn rows(load: Load, wire: WireKind, all: &[Seen]) -> String {
    let mut out = String::new();
    for (place, columns) in groups(all) {
        let group = format!("{}, {place}", load.name());
        for (target, core) in columns {
            let shares =
                CLASSES.iter().map(|class| (class.name(), core.share(*class))).chain([(UNMAPPED, core.unmapped_share())]);
            for (class, share) in shares {
                out.push_str(&row(&group, (class, share), &target, &core, wire).to_json());
                out.push('\n');
            }
        }
    }
    out
}

fn row(group: &str, (class, share): (&str, f64), target: &str, core: &Core, wire: WireKind) -> Row {
    let text = |text: &str| Parameter::Text(text.to_string());
    let noise = match core.foreign_share() {
        foreign if foreign > FOREIGN_MAX => format!("noisy: other processes used {foreign:.0} % of the core"),
        _ => QUIET.to_string(),
    };
    Row {
        scenario: "cycles".into(),
        point: format!("{group}: {class}"),
        parameters: [("group".to_string(), text(group)), ("class".to_string(), text(class))].into(),
        target: target.to_string(),
        wire: wire.name(),
        client: wire.usual_client().name(),
        value: (share * 100.0).round() / 100.0,
        unit: "% of busy CPU".into(),
        noise,
        rounds: 1,
        machine: machine::processor(),
        kernel: machine::kernel(),
        commit: machine::commit().to_string(),
        ..Row::default()
    }
}

/// The samples of each core by target: (name, [(target, samples)]).
fn groups(all: &[Seen]) -> Vec<(String, Vec<(String, Core)>)> {
    let mut cores: Vec<u32> = all.iter().flat_map(|seen| seen.counts.cores.keys().copied()).collect();
    cores.sort_unstable();
    cores.dedup();
    let of = |core: u32| {
        let columns = all.iter().map(|seen| (seen.target.name(), seen.counts.cores.get(&core).cloned().unwrap_or_default()));
        (place(core), columns.collect())
    };
    let whole = all.iter().map(|seen| (seen.target.name(), seen.counts.whole())).collect();
    cores.into_iter().map(of).chain([("all cores".to_string(), whole)]).collect()
}

/// Name of a core. Beds bind the client to the first core and the server to the second.
fn place(core: u32) -> String {
    match core {
        0 => "client's core".into(),
        1 => "server's core".into(),
        core => format!("core {core}"),
    }
}

#[cfg(test)]
mod tests;
