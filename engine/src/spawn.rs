//! A worker in a thread of its own.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};

use crate::command::WorkerHandle;
use crate::ports::{Host, Ports};
use crate::worker::{Worker, WorkerConfig};

/// A running worker. Dropping this does not stop it; see [`WorkerHandle::stop`].
pub struct WorkerThread {
    /// Sends commands to the worker.
    pub handle: WorkerHandle,
    thread: JoinHandle<io::Result<()>>,
}

impl WorkerThread {
    /// Waits for the end of the worker.
    ///
    /// # Errors
    /// The error that ended it, other than `stop`.
    ///
    /// # Blocking
    /// Until the worker has stopped.
    pub fn join(self) -> io::Result<()> {
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the worker panicked")))
    }

    /// Returns true if the worker has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Starts a worker in a thread named after `config.name`.
///
/// # Errors
/// The system has no thread, memory or files for it.
///
/// # Blocking
/// Until the worker is ready for commands.
pub fn spawn(config: WorkerConfig, ports: Box<dyn Ports>, host: Box<dyn Host>) -> io::Result<WorkerThread> {
    let (ready, started) = sync_channel(1);
    let thread = Builder::new().name(config.name.clone()).spawn(move || {
        let (mut worker, handle) = match Worker::new(config, ports, host) {
            Ok(pair) => pair,
            Err(error) => return ready.send(Err(error)).map_err(|_| io::ErrorKind::BrokenPipe.into()),
        };
        ready.send(Ok(handle)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        worker.run()
    })?;
    let handle = started.recv().map_err(|_| io::Error::other("the worker did not start"))??;
    Ok(WorkerThread { handle, thread })
}
