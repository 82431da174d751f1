//! The configuration: one TOML file, environment overrides, profiles, defaults with reasons.
//!
//! One table ([`keys`]) names every key with its type, range, default and reason; reading,
//! checking, overriding and showing all follow it. Promises: an unknown key or a value out of
//! range is an error that names the place and what was meant. Does not do: change at run time; `reload` does.

mod interface;
pub mod keys;
mod limits;
pub mod profiles;
mod read;
pub mod rules;
mod show;
mod value;

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use ringway_channel::Shape;
use ringway_shm::{ArenaConfig, Duration};
use ringway_stack::{CongestionControl, Ecn, FastOpenConfig, FastOpenKeys, MtuProbing, StackConfig, SynCookies, TcpConfig};

pub use interface::InterfaceConfig;
pub use limits::GroupLimits;
pub use read::{DEFAULT_PATH, Environment, SET};
/// An address with a prefix length, as some keys have it.
pub use ringway_stack::Cidr;
pub use value::Value;

use crate::log::LogChoice;
use limits::region;
use rules::{Rule, Rules};
use value::Values;

/// Which back end carries the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The best that works.
    Auto,
    /// AF_PACKET with vnet headers.
    Packet,
    /// AF_XDP.
    Xdp,
    /// A TAP interface of its own.
    Tap,
}

/// The way to attach AF_XDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpChoice {
    /// In the driver, else above it.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the driver, without a copy.
    ZeroCopy,
    /// Above the driver.
    Generic,
}

/// The meaning of the kernel's rules that packets of Ringway do not obey.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleChoice {
    /// An interface that they could concern is the kernel's.
    #[default]
    Respect,
    /// It is served, with a warning.
    Warn,
    /// They do not matter.
    Ignore,
}

/// The worker threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerChoice {
    /// The time to look for work before sleeping; `None`: by the cost of a wake-up, which the worker measures.
    pub spin: Option<Duration>,
    /// Processor that the first one runs on, each other one on the next; `None`: any.
    pub core: Option<u32>,
    /// The number of workers.
    pub count: u32,
    /// One that is busy for more than this share of its time, percent, hands flow groups over to another one.
    pub balance_percent: u32,
}

/// Programs and ports that are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// True if a thing that cannot be served is an error instead of going to the kernel.
    pub strict: bool,
    /// Members of this group may attach, besides root and the service's own user.
    pub group: String,
    /// Packet filters, and BPF programs of others.
    pub firewall: RuleChoice,
    /// Policy routing.
    pub routing: RuleChoice,
    /// What was an earlier service's and may come back.
    pub adopts: Adopts,
    /// Bulk data of unmodified programs.
    pub bulk: BulkChoice,
    /// Groups that programs join are the stack's to receive, where the kernel shares the interface.
    pub multicast_on_stack: bool,
    /// Bytes in one direction from which on a connection may count as such.
    pub bulk_after: u64,
}

/// What was an earlier service's, is the kernel's, and may come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adopts {
    /// Listeners.
    Listeners,
    /// Listeners, and the connections that they have accepted.
    All,
    /// Nothing.
    Nothing,
}

impl Adopts {
    /// The choice with this name, which the table of keys has checked.
    fn of(word: &str) -> Adopts {
        match word {
            "all" => Adopts::All,
            "none" => Adopts::Nothing,
            _ => Adopts::Listeners,
        }
    }
}

/// The stack that carries bulk data of unmodified programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkChoice {
    /// What was measured here to be faster ([`crate::measured`]); without a measurement, as with `Sent`.
    Auto,
    /// The stack.
    Stack,
    /// The kernel carries on what programs send.
    Sent,
    /// The kernel carries on what programs send or receive.
    Kernel,
}

impl BulkChoice {
    const ALL: [(BulkChoice, &str); 4] =
        [(BulkChoice::Auto, "auto"), (BulkChoice::Stack, "stack"), (BulkChoice::Sent, "sent"), (BulkChoice::Kernel, "kernel")];

    /// The choice with this name.
    pub fn of(word: &str) -> Option<BulkChoice> {
        BulkChoice::ALL.into_iter().find(|(_, name)| *name == word).map(|(choice, _)| choice)
    }

    /// Its name in the configuration.
    pub fn word(self) -> &'static str {
        BulkChoice::ALL[self as usize].1
    }
}

/// The answer to system calls that the service does not make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCalls {
    /// They fail.
    On,
    /// They are logged.
    Log,
    /// Nothing.
    Off,
}

/// Everything that can be chosen.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[interface]`
    pub interface: InterfaceConfig,
    /// `[worker]`
    pub worker: WorkerChoice,
    /// `[memory]`, the worker's part
    pub arena: ArenaConfig,
    /// `[memory]`, the applications' part
    pub region: Shape,
    /// `[tcp]` and the stack's part of `[limits]`; the seed is not configured
    pub stack: StackConfig,
    /// `[limits]`, the applications' part
    pub limits: GroupLimits,
    /// `[policy]`
    pub policy: Policy,
    /// `[log]`
    pub log: LogChoice,
    /// `[service]`
    pub system_calls: SystemCalls,
    /// Time for connections to end by themselves when the service ends.
    pub drain: Duration,
    /// Time for the others to go home to the kernel.
    pub handover: Duration,
    /// Kernel sockets of programs that sleep are taken out of them.
    pub takes_sockets: bool,
    values: Values,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// `FILE:LINE` or the environment variable.
    pub origin: String,
    /// The mistake, and the right value.
    pub text: String,
}

/// Everything that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub Vec<Problem>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}: {}", problem.origin, problem.text)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads `path`, or [`DEFAULT_PATH`] when that exists, and applies overrides from `environment`.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn load(path: Option<&Path>, environment: Environment) -> Result<Config, ConfigError> {
        let values = read::load(path, environment, None)?;
        Config::from_values(values)
    }

    /// The same, with what `ringway config set` has written (`set`) before both.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn load_with(path: Option<&Path>, environment: Environment, set: &str) -> Result<Config, ConfigError> {
        let values = read::load(path, environment, Some(set))?;
        Config::from_values(values)
    }

    /// Reads `text` as if it were the file `name`.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn parse(name: &str, text: &str, environment: Environment) -> Result<Config, ConfigError> {
        let values = read::parse(name, text, environment, None)?;
        Config::from_values(values)
    }

    /// The configuration as a file that can be read back: every key, its reason, and where its
    /// value comes from if it is not the default.
    pub fn show(&self) -> String {
        show::show(&self.values, |_, origin| origin)
    }

    /// The same with other origins: those of a running service.
    pub fn show_with<'a>(&'a self, origin: impl Fn(&str) -> Option<&'a str>) -> String {
        show::show(&self.values, |key, _| origin(key))
    }

    /// The values alone, as a file that can be read back.
    pub fn effective(&self) -> String {
        show::effective(&self.values)
    }

    /// The keys whose value is not the default: (`section.key`, value).
    pub fn changed(&self) -> Vec<(&'static str, &Value)> {
        self.values.changed()
    }

    /// Which programs, ports and peers are the kernel's.
    pub fn rules(&self) -> &Rules {
        &self.values.rules
    }

    /// The rules as they stand in a file.
    pub fn rules_text(&self) -> String {
        show::rules(&self.values)
    }

    /// All keys with value and origin (`None`: the default).
    pub fn entries(&self) -> impl Iterator<Item = (&'static keys::Key, &Value, Option<&str>)> {
        self.values.iter()
    }

    /// The keys whose values differ in `other`, and `rule` where the rules do.
    pub fn differences(&self, other: &Config) -> Vec<&'static str> {
        let pairs = self.values.iter().zip(other.values.iter());
        let keys = pairs.filter(|((_, value, _), (_, other, _))| value != other).map(|((key, ..), _)| key.path);
        let same_rules = self.rules().iter().map(Rule::to_string).eq(other.rules().iter().map(Rule::to_string));
        keys.chain((!same_rules).then_some(rules::SECTION)).collect()
    }

    /// This configuration with the values of `keys` of another.
    pub(crate) fn with(&self, other: &Config, keys: &[&str]) -> Result<Config, ConfigError> {
        Config::from_values(self.values.with(&other.values, keys))
    }

    fn from_values(values: Values) -> Result<Config, ConfigError> {
        let config = Config {
            interface: InterfaceConfig::new(&values),
            worker: WorkerChoice {
                spin: values.auto_number("worker.spin_us").map(Duration::from_micros),
                core: values.auto_number("worker.core").map(|core| core as u32),
                count: values.u32("worker.count"),
                balance_percent: values.u32("worker.balance_percent"),
            },
            arena: ArenaConfig { large: values.u32("memory.frames_large"), small: values.u32("memory.frames_small") },
            region: region(&values),
            stack: stack(&values),
            limits: GroupLimits::new(&values),
            policy: Policy {
                strict: values.flag("policy.strict"),
                group: values.text("policy.group").to_owned(),
                firewall: rule_choice(values.text("policy.firewall")),
                routing: rule_choice(values.text("policy.routing")),
                adopts: Adopts::of(values.text("policy.adopt")),
                bulk: BulkChoice::of(values.text("policy.bulk")).expect("one of the choices"),
                multicast_on_stack: values.text("policy.multicast") == "stack",
                bulk_after: values.number("policy.bulk_after_mib") << 20,
            },
            log: LogChoice::new(values.text("log.filter"), values.text("log.format")),
            drain: Duration::from_secs(values.number("service.drain_s")),
            handover: Duration::from_secs(values.number("service.handover_s")),
            takes_sockets: values.flag("service.take_sockets"),
            system_calls: match values.text("service.seccomp") {
                "log" => SystemCalls::Log,
                "off" => SystemCalls::Off,
                _ => SystemCalls::On,
            },
            values,
        };
        let problems = config.contradictions();
        if problems.is_empty() { Ok(config) } else { Err(ConfigError(problems)) }
    }

    /// Checks that need more than one key.
    fn contradictions(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut complain = |key: &'static str, text: String| {
            problems.push(Problem { origin: self.values.origin(key).to_owned(), text: format!("{key}: {text}") });
        };
        if let Err(text) = crate::log::check(&self.log.filter) {
            complain("log.filter", text);
        }
        let tcp = &self.stack.tcp;
        if tcp.rto_min > tcp.rto_max {
            complain("tcp.rto_min_ms", "is more than tcp.rto_max_ms".to_owned());
        }
        if tcp.rto_initial < tcp.rto_min || tcp.rto_initial > tcp.rto_max {
            complain("tcp.rto_initial_ms", "is not between tcp.rto_min_ms and tcp.rto_max_ms".to_owned());
        }
        if !self.region.is_valid() {
            complain("memory.slots", "is not a power of two from 128 to 1048576".to_owned());
        }
        if let Some(mib) = self.values.auto_number("limits.memory_per_group_mib").filter(|_| self.region.is_valid()) {
            let bytes = self.region.bytes();
            if bytes as u64 > mib << 20 {
                let least = bytes.div_ceil(1 << 20);
                let text = format!("is less than the {least} MiB that a group takes with memory.slots = {}", self.region.slots);
                complain("limits.memory_per_group_mib", text);
            }
        }
        if tcp.ephemeral_ports.0 > tcp.ephemeral_ports.1 {
            complain("tcp.ephemeral_port_last", "is below tcp.ephemeral_port_first".to_owned());
        }
        if tcp.fast_open.keys.is_none() && !self.values.text("tcp.fast_open_keys").is_empty() {
            let form = "00112233-44556677-8899aabb-ccddeeff";
            complain("tcp.fast_open_keys", format!("is not one key, or two with a comma between them, as {form}"));
        }
        self.interface.contradictions(&self.values, &mut complain);
        problems
    }
}

/// Reads `10.0.0.2/24`.
pub fn parse_cidr(text: &str) -> Option<Cidr> {
    let (ip, prefix_len) = text.split_once('/')?;
    let ip: IpAddr = ip.parse().ok()?;
    let prefix_len: u8 = prefix_len.parse().ok()?;
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    (prefix_len <= longest).then_some(Cidr { ip, prefix_len })
}

/// Reads one key or two as net.ipv4.tcp_fastopen_key writes them: the words of a key are little-endian.
fn parse_fast_open_keys(text: &str) -> Option<FastOpenKeys> {
    let key = |text: &str| -> Option<[u8; 16]> {
        let words: Vec<&str> = text.trim().split('-').collect();
        let words: [&str; 4] = words.try_into().ok()?;
        let mut key = [0; 16];
        for (bytes, word) in key.chunks_exact_mut(4).zip(words) {
            let digits = word.len() == 8 && word.bytes().all(|digit| digit.is_ascii_hexdigit());
            let word = u32::from_str_radix(word, 16).ok().filter(|_| digits)?;
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Some(key)
    };
    match text.split_once(',') {
        None => Some(FastOpenKeys { primary: key(text)?, backup: None }),
        Some((primary, backup)) => Some(FastOpenKeys { primary: key(primary)?, backup: Some(key(backup)?) }),
    }
}

fn rule_choice(choice: &str) -> RuleChoice {
    match choice {
        "warn" => RuleChoice::Warn,
        "ignore" => RuleChoice::Ignore,
        _ => RuleChoice::Respect,
    }
}

fn ecn(choice: &str) -> Ecn {
    match choice {
        "off" => Ecn::Off,
        "request" => Ecn::Request,
        "accurate_request" => Ecn::AccurateRequest,
        "accurate_passive_request" => Ecn::AccuratePassiveRequest,
        "accurate_passive" => Ecn::AccuratePassive,
        _ => Ecn::Passive,
    }
}

fn stack(values: &Values) -> StackConfig {
    StackConfig {
        seed: 0,
        connections_max: values.u32("limits.connections"),
        listeners_max: values.u32("limits.listeners"),
        syn_queue_max: values.u32("limits.syn_queue"),
        half_open_per_owner_max: values.u32("limits.half_open_per_user"),
        time_wait_max: values.u32("limits.time_wait"),
        neighbors_max: values.u32("limits.neighbors"),
        neighbor_queue_max: values.u32("limits.neighbor_queue"),
        replies_per_second: values.u32("limits.replies_per_second"),
        tcp: tcp(values),
        ..StackConfig::default()
    }
}

fn tcp(values: &Values) -> TcpConfig {
    TcpConfig {
        congestion_control: match values.text("tcp.congestion_control") {
            "newreno" => CongestionControl::NewReno,
            "bbr" => CongestionControl::Bbr,
            "dctcp" => CongestionControl::Dctcp,
            _ => CongestionControl::Cubic,
        },
        pacing: values.flag("tcp.pacing"),
        send_buffer_bytes: values.u32("tcp.send_buffer_bytes"),
        send_buffer_initial_bytes: values.u32("tcp.send_buffer_initial_bytes"),
        receive_buffer_bytes: values.u32("tcp.receive_buffer_bytes"),
        rto_min: values.millis("tcp.rto_min_ms"),
        rto_max: values.millis("tcp.rto_max_ms"),
        rto_initial: values.millis("tcp.rto_initial_ms"),
        delayed_ack: values.millis("tcp.delayed_ack_ms"),
        retries: values.u8("tcp.retries"),
        syn_retries: values.u8("tcp.syn_retries"),
        synack_retries: values.u8("tcp.synack_retries"),
        fast_open: FastOpenConfig {
            keys: parse_fast_open_keys(values.text("tcp.fast_open_keys")),
            ..FastOpenConfig::from_bits(values.u32("tcp.fast_open"))
        },
        syn_cookies: match values.text("tcp.syn_cookies") {
            "off" => SynCookies::Off,
            "always" => SynCookies::Always,
            _ => SynCookies::WhenFull,
        },
        time_wait: values.millis("tcp.time_wait_ms"),
        fin_timeout: values.millis("tcp.fin_timeout_ms"),
        keepalive_idle: values.millis("tcp.keepalive_idle_ms"),
        keepalive_interval: values.millis("tcp.keepalive_interval_ms"),
        keepalive_probes: values.u8("tcp.keepalive_probes"),
        ephemeral_ports: (values.u16("tcp.ephemeral_port_first"), values.u16("tcp.ephemeral_port_last")),
        timestamps: values.flag("tcp.timestamps"),
        window_scaling: values.flag("tcp.window_scaling"),
        sack: values.flag("tcp.sack"),
        ecn: ecn(values.text("tcp.ecn")),
        rack: values.flag("tcp.rack"),
        tail_loss_probe: values.flag("tcp.tail_loss_probe"),
        f_rto: values.flag("tcp.f_rto"),
        mtu_probing: match values.text("tcp.mtu_probing") {
            "off" => MtuProbing::Off,
            "always" => MtuProbing::Always,
            _ => MtuProbing::BlackHole,
        },
        mtu_base_mss: values.u16("tcp.mtu_base_mss"),
        initial_window: values.u8("tcp.initial_window"),
        ..TcpConfig::default()
    }
}

#[cfg(test)]
mod tests;
