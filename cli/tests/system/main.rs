//! System tests: unmodified programs on Ringway over a veth pair, the kernel's stack as the peer.
//!
//! They need root and the programs that `.ci/setup` installs; a missing program fails its test.
//! `make system` builds everything and runs them; docs/testing.md says more.
#![forbid(unsafe_code)]

mod attacks;
mod bench;
mod bulk;
mod capi;
mod config;
mod containers;
mod demo;
mod devices;
mod differential;
mod doctor;
mod documents;
mod firewall;
mod forks;
mod fstack;
mod handover;
mod harness;
mod hostile;
mod http;
mod idle;
mod interfaces;
mod iperf;
mod ipv6;
mod isolation;
mod kill;
mod kills;
mod link;
mod log;
mod machines;
mod memcached;
mod metrics;
mod mtcp;
mod network_namespaces;
mod numbers;
mod options;
mod packaging;
mod pid_namespaces;
mod posix;
mod privileges;
mod probes;
mod programs;
mod prometheus;
mod quotas;
mod reattach;
mod redis;
mod replaced;
mod report;
mod run;
mod see_inside;
mod selftest;
mod sharing;
mod socat;
mod ssh;
mod strict;
mod top;
mod trace;
mod udp;
mod vm;
mod workers;
