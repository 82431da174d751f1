//! The configuration: mTCP's file and `struct mtcp_conf`.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use libc::c_int;

use crate::context::lock;
use crate::machine::GetNumCPUs;
use ringway_cabi::{Answer, Errno, call};

/// `struct mtcp_conf`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Conf {
    num_cores: c_int,
    max_concurrency: c_int,
    num_ip: c_int,
    max_num_buffers: c_int,
    rcvbuf_size: c_int,
    sndbuf_size: c_int,
    tcp_timewait: c_int,
    tcp_timeout: c_int,
}

/// Keys of the file with no meaning here, and what decides instead.
const IGNORED: [(&str, &str); 11] = [
    ("io", "the service has the devices"),
    ("port", "the service has the interfaces"),
    ("stat_print", "`ringway nstat` counts"),
    ("num_mem_ch", "the service has the memory"),
    ("multiprocess", "processes share the service"),
    ("max_num_buffers", "buffers are sized by need"),
    ("rcvbuf", "buffers are sized by need"),
    ("sndbuf", "buffers are sized by need"),
    ("tcp_timewait", "it is a minute"),
    ("tcp_timeout", "connections may be idle; SO_KEEPALIVE and TCP_USER_TIMEOUT end them"),
    ("cc", "`tcp.congestion` decides"),
];

/// Settings of the process.
struct Settings {
    conf: Conf,
    /// The program has set num_cores before mtcp_init.
    has_cores: bool,
    is_ready: bool,
}

static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);

impl Settings {
    fn new() -> Settings {
        let conf = Conf {
            num_cores: GetNumCPUs(),
            max_concurrency: 100_000,
            num_ip: 1,
            max_num_buffers: 100_000,
            rcvbuf_size: 8192,
            sndbuf_size: 8192,
            tcp_timewait: 0,
            tcp_timeout: 30,
        };
        Settings { conf, has_cores: false, is_ready: false }
    }

    /// Takes one line's key and value. Returns why the key has no effect, if so.
    fn set(&mut self, key: &str, value: &str, cpus: c_int) -> Result<Option<&'static str>, String> {
        let number = || value.parse::<c_int>().map_err(|_| format!("`{key} = {value}`: the value is not a number"));
        let within = |least: c_int, most: c_int| {
            number().and_then(|number| {
                let is_within = (least..=most).contains(&number);
                is_within.then_some(number).ok_or(format!("`{key} = {value}`: the value is not between {least} and {most}"))
            })
        };
        let conf = &mut self.conf;
        match key {
            "num_cores" => {
                let cores = within(1, cpus)?;
                if !self.has_cores {
                    conf.num_cores = cores;
                }
            }
            "max_concurrency" => conf.max_concurrency = within(1, IDS_MAX)?,
            "num_ip" => conf.num_ip = within(1, c_int::MAX)?,
            "max_num_buffers" => conf.max_num_buffers = within(0, c_int::MAX)?,
            "rcvbuf" => conf.rcvbuf_size = within(64, c_int::MAX)?,
            "sndbuf" => conf.sndbuf_size = within(64, c_int::MAX)?,
            "tcp_timewait" => conf.tcp_timewait = number()?,
            "tcp_timeout" => conf.tcp_timeout = number()?,
            _ => {}
        }
        match IGNORED.iter().find(|(name, _)| *name == key) {
            Some((_, why)) => Ok(Some(why)),
            None if ["num_cores", "max_concurrency", "num_ip"].contains(&key) => Ok(None),
            None => Err(format!("`{key}` is no key of mTCP's")),
        }
    }

    /// Reads the text of a file. Returns the keys that have no effect, each with the reason.
    fn read(&mut self, text: &str, cpus: c_int) -> Result<Vec<String>, String> {
        let mut ignored = Vec::new();
        for line in text.lines().map(|line| line.split('#').next().unwrap_or("").trim()).filter(|line| !line.is_empty()) {
            let end = line.find([' ', '\t', '=']).unwrap_or(line.len());
            let (key, rest) = line.split_at(end);
            let value = rest.trim_start_matches([' ', '\t', '=']).split([' ', '\t', '=']).next().unwrap_or("");
            if value.is_empty() {
                return Err(format!("`{line}`: there is no value"));
            }
            if let Some(why) = self.set(key, value, cpus)? {
                let named = format!("{key} ({why})");
                if !ignored.contains(&named) {
                    ignored.push(named);
                }
            }
        }
        Ok(ignored)
    }
}

/// Ids that a context may have: as many as descriptors a process can have.
const IDS_MAX: c_int = 1 << 20;

/// Reads the file and says on stderr what of it has no effect.
pub(crate) fn load(file: Option<&Path>) -> Result<(), String> {
    let text = match file {
        Some(file) => fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?,
        None => String::new(),
    };
    let mut kept = lock(&SETTINGS);
    let settings = kept.get_or_insert_with(Settings::new);
    let name = file.map_or_else(String::new, |file| format!("{}: ", file.display()));
    let ignored = settings.read(&text, GetNumCPUs()).map_err(|text| format!("{name}{text}"))?;
    if !ignored.is_empty() {
        eprintln!("mtcp: {name}without effect here: {}", ignored.join(", "));
    }
    settings.is_ready = true;
    Ok(())
}

/// Contexts cannot be made any more.
pub(crate) fn forget() {
    *lock(&SETTINGS) = None;
}

/// Number of cores, and of ids in a new context; EPERM before mtcp_init.
pub(crate) fn of_contexts() -> Answer<(usize, usize)> {
    let kept = lock(&SETTINGS);
    let settings = kept.as_ref().filter(|settings| settings.is_ready).ok_or(Errno(libc::EPERM))?;
    Ok((settings.conf.num_cores as usize, settings.conf.max_concurrency as usize))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_getconf(conf: *mut Conf) -> c_int {
    if conf.is_null() {
        return -1;
    }
    let mut kept = lock(&SETTINGS);
    call!(conf.write(kept.get_or_insert_with(Settings::new).conf));
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_setconf(conf: *const Conf) -> c_int {
    let Some(new) = call!(conf.as_ref()) else { return -1 };
    if new.max_concurrency > IDS_MAX || new.num_cores > GetNumCPUs() {
        Errno(libc::EINVAL).set();
        return -1;
    }
    let mut kept = lock(&SETTINGS);
    let settings = kept.get_or_insert_with(Settings::new);
    settings.has_cores |= !settings.is_ready && new.num_cores > 0;
    let old = &mut settings.conf;
    for (old, new) in [
        (&mut old.num_cores, new.num_cores),
        (&mut old.max_concurrency, new.max_concurrency),
        (&mut old.num_ip, new.num_ip),
        (&mut old.max_num_buffers, new.max_num_buffers),
        (&mut old.rcvbuf_size, new.rcvbuf_size),
        (&mut old.sndbuf_size, new.sndbuf_size),
        (&mut old.tcp_timewait, new.tcp_timewait),
        (&mut old.tcp_timeout, new.tcp_timeout),
    ] {
        if new > 0 {
            *old = new;
        }
    }
    0
}

#[cfg(test)]
mod tests;
