//! Reads files of rows, one JSON object per line.
//!
//! Promises: a line that is not a row is an error with file and line; empty lines are skipped; when a
//! point was measured more than once, the last row counts, and the number of replaced rows is reported.
//! Does not do: judge the values.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use crate::row::{Parameter, Row};

/// Rows of all files, in the order of their first appearance.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// One row per point, target, wire and client of a scenario.
    pub(crate) rows: Vec<Row>,
    /// Number of rows replaced by a later measurement of the same point.
    pub(crate) replaced: usize,
    places: BTreeMap<String, usize>,
}

/// Error of reading rows.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The file could not be read.
    File(PathBuf, io::Error),
    /// A line is not a row.
    Line { file: PathBuf, line: usize, why: String },
    /// There are more rows than any run produces.
    TooMany(PathBuf),
}

/// Longest accepted line; a row has about a kilobyte.
const LINE_BYTES_MAX: u64 = 64 * 1024;
const ROWS_MAX: usize = 100_000;

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::File(file, error) => write!(out, "{}: {error}", file.display()),
            ReadError::Line { file, line, why } => {
                write!(out, "{}:{line}: not a row of `ringway bench --json`: {why}", file.display())
            }
            ReadError::TooMany(file) => write!(out, "{}: more than {ROWS_MAX} rows", file.display()),
        }
    }
}

impl std::error::Error for ReadError {}

impl Rows {
    /// Reads one file and adds its rows; `-` is standard input.
    ///
    /// # Errors
    /// The file cannot be read, or a line is not a row.
    pub(crate) fn read(&mut self, path: &Path) -> Result<(), ReadError> {
        if path == Path::new("-") {
            return self.read_lines(Path::new("standard input"), &mut io::stdin().lock());
        }
        let file = File::open(path).map_err(|error| ReadError::File(path.to_path_buf(), error))?;
        self.read_lines(path, &mut BufReader::new(file))
    }

    /// Reads rows from an open file; `name` is for errors.
    pub(crate) fn read_lines(&mut self, name: &Path, input: &mut dyn BufRead) -> Result<(), ReadError> {
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let taken = (&mut *input).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let length = taken.map_err(|error| ReadError::File(name.to_path_buf(), error))?;
            if length == 0 {
                break;
            }
            let wrong = |why: String| ReadError::Line { file: name.to_path_buf(), line: number, why };
            if length as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
                return Err(wrong(format!("longer than {LINE_BYTES_MAX} bytes")));
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let row: Row = serde_json::from_slice(&line).map_err(|error| wrong(error.to_string()))?;
            check(&row).map_err(wrong)?;
            self.add(row);
            if self.rows.len() > ROWS_MAX {
                return Err(ReadError::TooMany(name.to_path_buf()));
            }
        }
        Ok(())
    }

    fn add(&mut self, row: Row) {
        match self.places.get(&identity(&row)) {
            Some(&place) => {
                self.rows[place] = row;
                self.replaced += 1;
            }
            None => {
                self.places.insert(identity(&row), self.rows.len());
                self.rows.push(row);
            }
        }
    }
}

/// Checks what the JSON types do not: that names are not empty.
fn check(row: &Row) -> Result<(), String> {
    for (name, value) in [("scenario", &row.scenario), ("target", &row.target), ("unit", &row.unit)] {
        if value.is_empty() {
            return Err(format!("`{name}` is empty"));
        }
    }
    Ok(())
}

/// Key of a row's point; a later row with the same key replaces it.
pub(crate) fn identity(row: &Row) -> String {
    format!("{}\n{}\n{}\n{}\n{}\n{}", row.scenario, row.point, row.target, row.wire, row.client, parameters(row))
}

fn parameters(row: &Row) -> String {
    let text = |parameter: &Parameter| match parameter {
        Parameter::Number(number) => number.to_string(),
        Parameter::Text(text) => text.clone(),
    };
    row.parameters.iter().map(|(name, value)| format!("{name}={} ", text(value))).collect()
}

#[cfg(test)]
mod tests;
