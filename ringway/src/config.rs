//! Settings of a `Net`.

use std::path::PathBuf;
use std::time::Duration;

use ringway_engine::WorkerConfig;
use ringway_shm::ArenaConfig;
use ringway_stack::StackConfig;

/// Settings that are fixed when a [`Net`](crate::Net) starts.
///
/// ```
/// use ringway::{Net, NetConfig};
///
/// # fn main() -> std::io::Result<()> {
/// let mut config = NetConfig::default();
/// config.stack.connections_max = 1_000;
/// let net = Net::new(config)?;
/// # drop(net); Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NetConfig {
    /// Name that the tools show.
    pub name: String,
    /// Limits and options of the stack.
    pub stack: StackConfig,
    /// Number of frames to allocate.
    pub arena: ArenaConfig,
    /// Longest time to look for work before a sleep, while that pays; zero: none. `None`: twice the cost of a wake-up
    /// here, which is measured.
    pub spin: Option<Duration>,
    /// Where to keep the shared statistics; `None`: nowhere.
    pub stats_path: Option<PathBuf>,
    /// File of the capture ring; `None`: none.
    pub capture_path: Option<PathBuf>,
}

impl Default for NetConfig {
    fn default() -> NetConfig {
        let WorkerConfig { name, stack, arena, spin, stats_path, capture_path, .. } = WorkerConfig::default();
        NetConfig { name, stack, arena, spin: spin.map(Duration::from), stats_path, capture_path }
    }
}

impl From<NetConfig> for WorkerConfig {
    fn from(config: NetConfig) -> WorkerConfig {
        let NetConfig { name, stack, arena, spin, stats_path, capture_path } = config;
        let spin = spin.map(Into::into);
        WorkerConfig { name, stack, arena, spin, stats_path, capture_path, ..WorkerConfig::default() }
    }
}
