//! `ringway serve`: the system service, in the foreground.
//!
//! Promises: prints one line and sends READY=1 to systemd when programs can attach; sends WATCHDOG=1 while every worker
//! makes progress; reads its configuration again on SIGHUP; ends on SIGTERM, SIGINT and SIGQUIT, after the kernel has taken over
//! what programs have open (service.handover_s), and leaves nothing behind. Does not do: fork.

mod followed;
mod replace;

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ringway_service::{Admission, Config, DEFAULT_NAME, Opening, RunDirectory, Service};

use crate::run::launch::{Signals, Told};

use followed::{Followed, Source};

/// Arguments of `ringway serve`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Name of the service and of its files in /run/ringway; `ringway run` uses "default"
    #[arg(long, default_value = DEFAULT_NAME)]
    pub(crate) name: String,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Take the place of the service of this name that runs: it hands its connections over to the kernel and ends, then this one starts. Where this one
    /// could not start, the other goes on
    #[arg(long)]
    pub(crate) replace: bool,
    /// Number of workers (worker.count)
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<u32>,
}

/// Serves until a signal ends it.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let served = serve(arguments);
    ringway_service::log::flush();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("ringway serve: {text}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &Arguments) -> Result<(), String> {
    let source = Source { file: arguments.config.clone(), workers: arguments.workers };
    let config = source.load("")?;
    ringway_service::log::start(&config.log);
    let mut signals = Signals::take().map_err(|error| format!("cannot install signal handlers: {error}"))?;
    let admission = Admission::of_group(&config.policy.group);
    let directory = RunDirectory::of_this_machine();
    if arguments.replace {
        replace::end_other(&directory, &arguments.name, &config, &mut signals)?;
    }
    let mut service = Service::start(&config, &arguments.name, &directory, admission, Opening::AtStart)
        .map_err(|error| format!("{}: {error}", arguments.name))?;
    if let Err(error) = ringway_service::raise_descriptor_limit() {
        tracing::warn!(target: "ringway::service", "cannot raise the descriptor limit, which limits connections: {error}");
    }
    if let Some(interval) = watchdog_interval() {
        let watched = service.watch_workers(interval, || {
            // On an error the supervisor gets no sign of life and ends the service.
            tell_supervisor("WATCHDOG=1").ok();
        });
        watched.map_err(|error| format!("WATCHDOG_USEC: {error}"))?;
    }
    service.confine_process(&config).map_err(|error| format!("the service cannot drop its privileges: {error}"))?;
    let notes: String = service.notes().iter().map(|note| format!("; {note}")).collect();
    let (name, served) = (service.name(), crate::run::served(service.served()));
    tracing::info!(target: "ringway::service", name, "service {name} ready: TCP on {served}{notes}");
    let mut followed = Followed::new(config, source, &service, &directory);
    tell_supervisor("READY=1").map_err(|error| format!("NOTIFY_SOCKET: {error}"))?;
    let ended = until_told(&service, &mut signals, || reload(&mut followed, &service));
    tell_supervisor("STOPPING=1").map_err(|error| format!("NOTIFY_SOCKET: {error}"))?;
    if ended.is_ok() && followed.config.handover > ringway_shm::Duration::ZERO {
        send_home(&service, &followed.config, &mut signals)
            .map_err(|error| format!("connections cannot be handed over: {error}"))?;
    }
    let stopped = service.stop();
    // A worker's own error says more than that it has ended.
    stopped.and(ended).map_err(|error| error.to_string())
}

/// Reads the configuration again, and tells the supervisor before and after.
fn reload(followed: &mut Followed, service: &Service) -> io::Result<()> {
    // systemd.service(5), Type=notify-reload.
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now_us = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    tell_supervisor(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"))?;
    followed.reload(service)?;
    tell_supervisor("READY=1")
}

/// Waits for a signal to end, or for the end of a worker, which is an error.
fn until_told(service: &Service, signals: &mut Signals, mut reload: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    while !service.has_failed() {
        match signals.wait_for_told(service.idle_fd())? {
            Some(Told::End) => return Ok(()),
            Some(Told::Reload) => reload()?,
            None => service.hush(),
        }
    }
    Err(io::Error::other("a worker has ended"))
}

/// Lets the kernel go on with what programs have open. A second signal ends the wait.
fn send_home(service: &Service, config: &Config, signals: &mut Signals) -> io::Result<()> {
    let handing_over = service.hand_over(config)?;
    if signals.wait_for(handing_over.done_fd())? {
        return Ok(());
    }
    match handing_over.finish() {
        0 => {}
        stay => {
            tracing::warn!(target: "ringway::handover", stay, "{stay} connections were not handed over to the kernel and are reset");
        }
    }
    Ok(())
}

/// Half the supervisor's watchdog time (sd_watchdog_enabled(3)); `None` when it does not watch this process.
fn watchdog_interval() -> Option<Duration> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let for_us = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let limit = number("WATCHDOG_USEC").filter(|limit| *limit > 0 && for_us)?;
    Some(Duration::from_micros(limit / 2))
}

/// Sends one datagram to the socket that systemd names (sd_notify(3)); a name with `@` is abstract.
fn tell_supervisor(state: &str) -> io::Result<()> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Ok(()) };
    let socket = UnixDatagram::unbound()?;
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(&name)?,
    };
    socket.send_to_addr(state.as_bytes(), &address).map(|_| ())
}
