//! The `ringway` command.
#![forbid(unsafe_code)]
fn main() {}
