//! Measurements of the machine: CPU time of both ends, cycles, disturbances.

pub mod calibration;
pub mod cpu;
pub mod machine;
pub mod noise;
pub mod rest;
pub mod statistics;
