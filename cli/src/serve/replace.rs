//! `ringway serve --replace`: the service of this name that runs ends, and this one takes its place.
//!
//! Promises: what would keep this one from starting is found before the other is asked to end; the process that is asked is the one that listens at
//! the service's socket, whatever its lock file says. Does not do: ending a service that does not end by itself; it is waited for, until a
//! signal ends the wait.

use std::io;
use std::os::fd::AsFd;

use ringway_channel::attach::process_behind;
use ringway_service::rundir::PRIVATE;
use ringway_service::{Config, RunDirectory, Service};
use rustix::process::{Signal, pidfd_send_signal};

use crate::run::launch::Signals;

/// Waits until no service has this name.
///
/// # Errors
/// This one could not start, the other cannot be asked to end, or a signal has ended the wait.
///
/// # Blocking
/// While the other hands its connections over (service.drain_s, service.handover_s).
pub(super) fn end_other(directory: &RunDirectory, name: &str, config: &Config, signals: &mut Signals) -> Result<(), String> {
    if name.starts_with(PRIVATE) {
        return Err(format!("{name}: the service of a `ringway run` ends with its program, and none takes its place"));
    }
    if !directory.serves_here(name) {
        return Ok(());
    }
    Service::try_start(config).map_err(|error| format!("{name}: the service that runs is not replaced: {error}"))?;
    let asked = |error: io::Error| format!("{name}: the service that runs cannot be asked to end: {error}");
    let other = process_behind(&directory.socket_path(name)).map_err(asked)?;
    pidfd_send_signal(&other.pidfd, Signal::TERM).map_err(|error| asked(error.into()))?;
    let pid = other.number;
    tracing::info!(target: "ringway::service", name, pid, "service {name}: waiting for process {pid}, which hands over what it serves");
    match signals.wait_for(other.pidfd.as_fd()) {
        Ok(false) => Ok(()),
        Ok(true) => Err(format!("{name}: told to end before process {pid} had ended, which has been told to")),
        Err(error) => Err(format!("{name}: cannot wait for process {pid}: {error}")),
    }
}
