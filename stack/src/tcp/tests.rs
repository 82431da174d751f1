//! TCP as its peer sees it: a stack on one side, segments written by hand on the other.

mod accurate;
mod close;
mod coalesce;
mod data;
mod dctcp;
mod defence;
mod ecn;
mod fast_open;
mod flood;
mod handshake;
mod hostile;
mod loopback;
mod mtu_probe;
mod offload;
mod options;
mod pacing;
mod rack;
mod receive_tuning;
mod recovery;
mod rig;
mod rules;
mod short_way;
mod tally;
mod timers;
mod undo;
mod urgent;
