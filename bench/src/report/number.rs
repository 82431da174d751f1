//! Formats numbers with three significant digits and a unit prefix.

/// Formats a measured value: `1.52 M`, `340 k`, `17.0`, `0.98`.
pub(super) fn value(number: f64) -> String {
    let (scaled, letter) = match number.abs() {
        size if size >= 999.5e6 => (number / 1e9, " G"),
        size if size >= 999.5e3 => (number / 1e6, " M"),
        size if size >= 9_999.5 => (number / 1e3, " k"),
        _ => (number, ""),
    };
    let digits = match scaled.abs() {
        size if size >= 99.95 || size == 0.0 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.095 => 2,
        _ => 4,
    };
    format!("{scaled:.digits$}{letter}")
}

/// Formats a position on an axis: as a value, without trailing zeros.
pub(super) fn tick(number: f64) -> String {
    let text = value(number);
    let (digits, letter) = text.split_at(text.find(' ').unwrap_or(text.len()));
    let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    format!("{digits}{letter}")
}

/// Formats a parameter: multiples of powers of 1024 as `64 Ki`, round thousands as `10 k`, others unchanged.
pub(super) fn amount(number: f64) -> String {
    let whole = number as u64;
    if number.fract() != 0.0 || number < 0.0 || whole as f64 != number {
        return number.to_string();
    }
    for (unit, letter) in [(1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")] {
        if whole >= 2 * unit && whole.is_multiple_of(unit) || whole == unit && unit > 1 << 10 {
            return format!("{} {letter}", whole / unit);
        }
    }
    match whole {
        0 => "0".to_string(),
        whole if whole.is_multiple_of(1_000_000) => format!("{} M", whole / 1_000_000),
        whole if whole.is_multiple_of(1_000) && whole >= 10_000 => format!("{} k", whole / 1_000),
        whole => whole.to_string(),
    }
}

/// Formats a number of bytes: `64 B`, `4000 B`, `64 KiB`, `2 MiB`.
pub(super) fn bytes(number: f64) -> String {
    match amount(number) {
        text if text.ends_with('i') => text + "B",
        _ => format!("{number} B"),
    }
}

/// A unit as the page writes it.
pub(super) fn unit(unit: &str) -> String {
    match unit {
        "us" => "µs".to_string(),
        unit => unit.to_string(),
    }
}

/// Formats a ratio: `0.53`, `1.20`, `13.4`.
pub(super) fn ratio(number: f64) -> String {
    if number.abs() < 9.995 { format!("{number:.2}") } else { format!("{number:.1}") }
}

#[cfg(test)]
mod tests;
