//! Measurements: fixed traces through real stacks in virtual time, and `ringway bench` over real wires.
//!
//! Promises: the same trace gives the same packets, so that instruction counts of two versions can be
//! compared; over real wires all targets get the same requests from the same client, in turn, and
//! disturbances are reported. Does not do: judge whether a figure is good.
#![deny(unsafe_code)]

pub mod against_wrk;
mod agent;
pub mod all;
pub mod bed;
pub mod bulk_link;
pub mod command;
mod compare;
pub mod cycles;
pub mod distant;
pub mod figures;
mod handover;
pub mod load;
pub mod measure;
pub mod options;
mod other;
mod pack;
pub mod pair;
pub mod path;
mod pause;
pub mod peer;
pub mod point;
pub mod progress;
mod random;
pub mod report;
pub mod role;
pub mod rounds;
pub mod row;
pub mod runner;
pub mod scenario;
pub mod still;
pub mod table;
pub mod target;
pub mod trace;
pub mod wire;
pub mod wrk;
