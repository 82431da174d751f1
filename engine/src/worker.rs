//! The worker: one loop that owns a stack, its devices and its applications.

use std::io;
use std::path::PathBuf;

use ringway_shm::{ArenaConfig, Duration};
use ringway_stack::StackConfig;

use crate::command::{Commands, WorkerHandle};
use crate::ports::{Ports, Resolver};

/// Everything that is fixed when a worker starts.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Name of the thread.
    pub name: String,
    /// Limits and choices of the stack.
    pub stack: StackConfig,
    /// Frames to take.
    pub arena: ArenaConfig,
    /// How long to look for work before sleeping; zero: not at all.
    pub spin: Duration,
    /// Applications groups at most.
    pub regions_max: u32,
    /// Sockets that one group may have at most.
    pub sockets_per_region_max: u32,
    /// Where to keep the shared statistics; `None`: nowhere.
    pub stats_path: Option<PathBuf>,
    /// Where to keep the capture ring; `None`: nowhere.
    pub capture_path: Option<PathBuf>,
}

/// One loop that owns a stack, its devices and its applications.
pub struct Worker {
    config: WorkerConfig,
    commands: Commands,
    ports: Box<dyn Ports>,
    resolver: Box<dyn Resolver>,
}

impl Worker {
    /// Takes all memory.
    ///
    /// # Errors
    /// The system has no memory or descriptors.
    pub fn new(config: WorkerConfig, ports: Box<dyn Ports>, resolver: Box<dyn Resolver>) -> io::Result<(Worker, WorkerHandle)> {
        let (commands, handle) = Commands::new()?;
        Ok((Worker { config, commands, ports, resolver }, handle))
    }

    /// Turns until told to stop.
    ///
    /// # Errors
    /// The system refused to wait.
    ///
    /// # Blocking
    /// Until stopped.
    pub fn run(&mut self) -> io::Result<()> {
        Ok(())
    }
}
