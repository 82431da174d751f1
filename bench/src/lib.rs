//! Measurements: fixed traces through real stacks in virtual time.
//!
//! Promises: the same trace gives the same packets, so that counted instructions can be compared
//! from one change to the next. Does not do: a machine's clock; rates over real wires are measured
//! by `ringway demo`.
#![forbid(unsafe_code)]

pub mod pair;
pub mod trace;
