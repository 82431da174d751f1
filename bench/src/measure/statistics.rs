//! Medians.

/// The median; of an even number of values, the mean of the middle two. `None` without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// The median of the ratios of two series, pair by pair, which compares values of the same round.
pub fn median_ratio(values: &[f64], reference: &[f64]) -> Option<f64> {
    median(values.iter().zip(reference).filter(|(_, reference)| **reference > 0.0).map(|(value, reference)| value / reference))
}

#[cfg(test)]
mod tests;
