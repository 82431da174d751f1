//! Profiles: named sets of settings for a purpose, each setting with its reason. `service.profile` chooses one.
//!
//! A setting of a profile stands where the default would: what the file or the environment says goes before it.

use super::keys::KEYS;
use super::value::Values;

/// The key that chooses.
const CHOICE: &str = "service.profile";

/// A set of settings.
#[derive(Debug)]
pub struct Profile {
    /// The value of `service.profile`.
    pub name: &'static str,
    /// Its purpose and its price.
    pub about: &'static str,
    /// What it sets.
    pub settings: &'static [Setting],
}

/// A setting of a profile.
#[derive(Debug)]
pub struct Setting {
    /// `section.key`.
    pub key: &'static str,
    /// As in an environment variable.
    pub value: &'static str,
    /// The reason.
    pub why: &'static str,
}

const fn setting(key: &'static str, value: &'static str, why: &'static str) -> Setting {
    Setting { key, value, why }
}

/// All profiles.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "latency",
        about: "Small requests whose reply is waited for. The price is the time of a processor while connections are busy.",
        settings: &[
            setting("worker.spin_us", "1000", "a worker that looks for work answers without a wake-up of tens of microseconds"),
            setting("tcp.delayed_ack_ms", "10", "a peer that waits for an acknowledgment before it sends on waits less"),
            setting(
                "tcp.send_buffer_initial_bytes",
                "65536",
                "data waits in the program, which can still change it, and not in a queue",
            ),
        ],
    },
    Profile {
        name: "throughput",
        about: "Large transfers over fast or long paths. The price is memory: up to 64 MiB for a connection in each direction.",
        settings: &[
            setting("tcp.send_buffer_bytes", "67108864", "64 MiB fill 10 Gb/s at 50 ms"),
            setting("tcp.send_buffer_initial_bytes", "1048576", "a program that writes much waits less often at the beginning"),
            setting("tcp.receive_buffer_bytes", "67108864", "the same for what arrives"),
            setting("memory.frames_large", "131072", "256 MiB for unacknowledged and received data of all connections"),
            setting("memory.chunks_large", "16384", "more may be under way between programs and worker"),
            setting("memory.chunks_bulk", "4096", "128 MiB that programs send without a copy by the worker"),
        ],
    },
    Profile {
        name: "many_connections",
        about: "Hundreds of thousands of connections that are mostly idle. The price is room for tables, and less of it for each connection.",
        settings: &[
            setting("memory.slots", "1048576", "each socket of an application takes a slot of the memory that it shares"),
            setting("memory.frames_small", "524288", "acknowledgments and small messages of many of them at once"),
            setting("limits.connections", "1048576", "a table of a million connections"),
            setting("limits.sockets_per_group", "1048576", "one server may have all of them"),
            setting("limits.syn_queue", "65536", "clients that come at the same time, as after a restart"),
            setting("limits.time_wait", "262144", "short connections leave this many behind in a minute"),
            setting("tcp.send_buffer_initial_bytes", "65536", "no connection takes more before it has shown a use for it"),
            setting("tcp.receive_buffer_bytes", "1048576", "a million peers cannot each fill 16 MiB"),
        ],
    },
    Profile {
        name: "memory",
        about: "A small machine or container. The price is speed at large transfers, and room for 16,384 connections.",
        settings: &[
            setting("memory.frames_large", "4096", "8 MiB for unacknowledged and received data"),
            setting("memory.frames_small", "8192", "2 MiB for acknowledgments and small messages"),
            setting("memory.slots", "16384", "4 MiB for the sockets of an application"),
            setting("memory.chunks_large", "1024", "2 MiB in each direction between an application and the worker"),
            setting("memory.chunks_small", "1024", "the same in small pieces"),
            setting("memory.chunks_bulk", "128", "4 MiB for large writes"),
            setting("limits.connections", "16384", "the table of connections"),
            setting("limits.syn_queue", "1024", "handshakes that are not complete"),
            setting("limits.time_wait", "4096", "connections that are over and remembered"),
            setting("tcp.send_buffer_bytes", "1048576", "one connection cannot take all the memory"),
            setting("tcp.send_buffer_initial_bytes", "65536", "the same before it has shown a use for more"),
            setting("tcp.receive_buffer_bytes", "1048576", "the same for what arrives"),
        ],
    },
];

/// Puts the settings of the chosen profile where `values` have their defaults.
pub(super) fn apply(values: &mut Values) {
    let chosen = values.text(CHOICE);
    let Some(profile) = PROFILES.iter().find(|profile| profile.name == chosen) else { return };
    for Setting { key, value, .. } in profile.settings {
        let index = KEYS.iter().position(|known| known.path == *key).expect("profiles name keys of the table");
        let value = KEYS[index].read(value).expect("profiles have values that may stand there");
        values.set_default(index, value, format!("profile {}", profile.name));
    }
}
