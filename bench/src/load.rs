//! The load: messages, their times and connections, and the measured latencies.

pub mod channel_server;
pub mod embedded_client;
pub mod embedded_server;
pub mod exchange;
pub(crate) mod foreign_server;
pub mod http;
pub mod kernel_client;
pub mod kernel_server;
pub mod latency;
pub mod log;
pub mod message;
pub mod order;
pub mod schedule;
pub mod tuning;
pub mod uring_server;
pub mod work;
