//! The expected figures: instructions per unit of each trace, and the compiler they were measured with.
//!
//! The file is a subset of TOML: `key = value` lines, text in quotes, comments.

use std::fmt::{self, Display, Formatter};

/// Largest accepted growth of a figure, percent.
pub const TOLERANCE_PERCENT: u64 = 2;

const HEAD: &str = "\
# Instructions per unit of each trace (`make bench-instructions`), counted by callgrind: the same for the same program on
# every run and machine. `make test` fails when one grows by more than 2 %. To write them anew:
# cargo run --release -p ringway-bench --bin instructions -- --update
";

/// The content of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Output of `rustc -V`.
    pub compiler: String,
    /// N of the measurement.
    pub units: u64,
    /// Instructions per unit, by trace name.
    pub counts: Vec<(String, f64)>,
}

/// Comparison of a count with its figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Within the tolerance.
    AsBefore {
        /// The figure.
        figure: f64,
    },
    /// Smaller by more than the tolerance.
    Better {
        /// The figure.
        figure: f64,
    },
    /// Larger by more than the tolerance.
    Worse {
        /// The figure.
        figure: f64,
    },
    /// There is no figure.
    Unknown,
}

impl Figures {
    /// Parses the text that [`Display`] writes.
    ///
    /// # Errors
    /// The line that cannot be parsed, or the missing key.
    pub fn parse(text: &str) -> Result<Figures, String> {
        let (mut compiler, mut units, mut counts) = (None, None, Vec::new());
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let bad = || format!("cannot parse the line: {line}");
            let (key, value) = line.split_once('=').map(|(key, value)| (key.trim(), value.trim())).ok_or_else(bad)?;
            match key {
                "compiler" => compiler = Some(value.trim_matches('"').to_owned()),
                "units" => units = Some(value.parse().ok().filter(|units| *units > 0).ok_or_else(bad)?),
                _ => counts.push((key.to_owned(), value.parse().map_err(|_| bad())?)),
            }
        }
        Ok(Figures { compiler: compiler.ok_or("compiler is missing")?, units: units.ok_or("units is missing")?, counts })
    }

    /// Compares `count` with the figure of a trace.
    pub fn judge(&self, name: &str, count: f64) -> Verdict {
        let Some(&(_, figure)) = self.counts.iter().find(|(known, _)| known == name) else { return Verdict::Unknown };
        let tolerance = figure * TOLERANCE_PERCENT as f64 / 100.0;
        if count > figure + tolerance {
            Verdict::Worse { figure }
        } else if count < figure - tolerance {
            Verdict::Better { figure }
        } else {
            Verdict::AsBefore { figure }
        }
    }
}

impl Display for Figures {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{HEAD}compiler = \"{}\"\nunits = {}\n", self.compiler, self.units)?;
        self.counts.iter().try_for_each(|(name, count)| writeln!(out, "{name} = {count:.0}"))
    }
}

impl Display for Verdict {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::AsBefore { figure } => write!(out, "as before ({figure:.0})"),
            Verdict::Better { figure } => write!(out, "better than {figure:.0}: update it with --update"),
            Verdict::Worse { figure } => write!(out, "WORSE than {figure:.0}"),
            Verdict::Unknown => write!(out, "has no figure"),
        }
    }
}

#[cfg(test)]
mod tests;
