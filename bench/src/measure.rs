//! What a measurement says about the machine: CPU of both ends, cycles, and whether something disturbed it.

pub mod calibration;
pub mod cpu;
pub mod machine;
pub mod noise;
pub mod rest;
pub mod statistics;
