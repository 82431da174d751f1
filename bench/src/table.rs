//! Formats rows as a table.

use crate::row::Row;

/// The table's heading.
pub fn heading() -> String {
    format!(
        "{:<34} {:<12}{:>12} {:<14}{:>7}{:>10}{:>10}{:>10}{:>7}{:>10}  {}\n",
        "point", "target", "value", "", "ratio", "p50 us", "p99 us", "server us", "cpu", "client us", "noise"
    )
}

/// One line of the table.
pub fn line(row: &Row) -> String {
    let number = |value: Option<f64>| value.map_or("-".to_string(), digits);
    let times = |ratio: Option<f64>| ratio.map_or("-".to_string(), |ratio| format!("{ratio:.2}x"));
    let lost = match (row.lost_on_path, row.overflowed_on_path) {
        (Some(lost), Some(overflowed)) => format!("  (the path lost {lost} packets, its queue {overflowed})"),
        _ => String::new(),
    };
    let dropped = match row.drops {
        Some(dropped @ 1..) => format!("  (interfaces dropped {dropped} packets)"),
        _ => String::new(),
    };
    let note = if row.note.is_empty() { String::new() } else { format!("  ({})", row.note) };
    format!(
        "{:<34} {:<12}{:>12} {:<14}{:>7}{:>10}{:>10}{:>10}{:>7}{:>10}  {}{lost}{dropped}{note}\n",
        row.point,
        row.target,
        digits(row.value),
        row.unit,
        times(row.ratio),
        number(row.p50_us),
        number(row.p99_us),
        number(row.server_cpu_us_per_request),
        times(row.server_cpu_ratio),
        number(row.client_cpu_us_per_request),
        row.noise
    )
}

fn digits(value: f64) -> String {
    match value.abs() {
        1000.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests;
