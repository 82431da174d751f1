//! Checkers: what must hold in every run, whatever the seed.

pub mod memory;
pub mod wire;

/// Text of a failure. The seed replays the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Makes a failure with this text.
pub fn failure<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure(text.into()))
}
