//! The machine of a measurement.

use std::fs;

/// Processor and number of cores.
pub fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    let model = model.unwrap_or(std::env::consts::ARCH);
    format!("{model}, {} cores", cores())
}

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Release of the kernel.
pub fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// The commit that this binary was built from; `unknown` outside a repository.
pub fn commit() -> &'static str {
    option_env!("RINGWAY_COMMIT").unwrap_or("unknown")
}
