//! Connections that move between stacks while they work: two ends on a virtual wire, one of which moves.

mod hostile;
mod moves;
mod pieces;
mod quiet;
mod world;
