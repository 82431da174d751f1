//! `ringway bench`: the measurements of `ringway-bench`, on the command line.

pub(crate) use ringway_bench::command::{Arguments, run};
