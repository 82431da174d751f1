//! The server role: one worker, or one on each of several cores.
//!
//! On the kernel's stack a worker is a process with its own listener on the same port (SO_REUSEPORT); the first one starts
//! the others, which end with the same standard input. On Ringway's stack a worker is a thread with its own share of the
//! same interface and address (`ringway::Nets`). Promises: `ready` is called when all workers listen.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::{RoleArguments, Sockets, stack};
use crate::load::channel_server::ChannelServer;
use crate::load::embedded_server::EmbeddedServer;
use crate::load::foreign_server::{ForeignServer, Fstack, Mtcp};
use crate::load::kernel_server::KernelServer;
use crate::load::order::Answer;
use crate::load::tuning::Tuning;
use crate::load::uring_server::UringServer;
use crate::load::work::Work;
use crate::wire::memory::End;

/// Serves until an error.
///
/// # Errors
/// The address is in use or not local, or a worker has ended.
///
/// # Blocking
/// Until an error.
pub(super) fn serve(arguments: &RoleArguments, ready: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let address = arguments.listen.ok_or_else(|| io::Error::other("a server needs --listen"))?;
    let work = Work::each(Duration::from_micros(arguments.work_us));
    let at = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
    let tuning = &arguments.tuning;
    let others = match (arguments.sockets, &arguments.cores[..]) {
        (Sockets::Ringway, [_, _, ..]) => return seats(arguments, address, work, ready),
        (Sockets::Channel | Sockets::Mtcp | Sockets::Fstack, [_, _, ..]) => {
            return Err(io::Error::other("the server of a service has one worker"));
        }
        (Sockets::Channel | Sockets::Mtcp | Sockets::Fstack, _) if *tuning != Tuning::default() => {
            return Err(io::Error::other("the server with this interface has no socket options"));
        }
        (_, [first, others @ ..]) => {
            bind(*first)?;
            others.iter().map(|core| Other::start(arguments, address, *core)).collect::<io::Result<Vec<Other>>>()?
        }
        (_, []) => Vec::new(),
    };
    match arguments.sockets {
        Sockets::Kernel => {
            let mut server = KernelServer::listen(address, arguments.spin, work, tuning).map_err(at)?;
            ready()?;
            server.serve()?;
        }
        Sockets::Uring => {
            let mut server = UringServer::listen(address, work, tuning).map_err(at)?;
            ready()?;
            server.serve()?;
        }
        Sockets::Ringway => {
            let mut server =
                EmbeddedServer::listen(stack::open(&arguments.stack, End::First)?, address, work, tuning).map_err(at)?;
            ready()?;
            server.serve()?;
        }
        Sockets::Channel => {
            let mut server = ChannelServer::listen(address, work).map_err(at)?;
            ready()?;
            server.serve()?;
        }
        Sockets::Mtcp => {
            let mut server = ForeignServer::<Mtcp>::listen(address, work).map_err(at)?;
            ready()?;
            server.serve()?;
        }
        Sockets::Fstack => {
            let mut server = ForeignServer::<Fstack>::listen(address, work).map_err(at)?;
            ready()?;
            server.serve()?;
        }
    }
    drop(others);
    Ok(())
}

/// Binds the calling thread to a core.
fn bind(core: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(core);
    Ok(sched_setaffinity(None, &only)?)
}

/// A listening worker in another process.
struct Other {
    // Keeps its standard output open.
    _process: Child,
}

impl Other {
    fn start(arguments: &RoleArguments, address: SocketAddr, core: usize) -> io::Result<Other> {
        let sockets = if arguments.sockets == Sockets::Uring { "uring" } else { "kernel" };
        let (address, core, work) = (address.to_string(), core.to_string(), arguments.work_us.to_string());
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "role", "server", "--sockets", sockets, "--listen", &address]);
        command
            .args(["--cores", &core, "--work-us", &work])
            .args(arguments.tuning.arguments())
            .args(arguments.spin.then_some("--spin"));
        let mut process = command.stdin(Stdio::inherit()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().expect("it was asked to be piped")).read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(Answer::Ready) => Ok(Other { _process: process }),
            Ok(Answer::Failed(why)) => Err(io::Error::other(why)),
            _ => Err(io::Error::other(format!("unexpected answer of a worker: {line:?}"))),
        }
    }
}

/// Serves with a worker thread on each core.
fn seats(arguments: &RoleArguments, address: SocketAddr, work: Work, ready: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let (sender, workers) = channel();
    for (seat, core) in stack::seats(&arguments.stack, arguments.cores.len())?.into_iter().zip(arguments.cores.clone()) {
        let (sender, tuning) = (sender.clone(), arguments.tuning);
        let worker = move || {
            let served =
                bind(core).and_then(|()| EmbeddedServer::listen(seat.open()?, address, work, &tuning)).and_then(|mut server| {
                    // The receiver lives as long as the process.
                    sender.send(Ok(())).unwrap_or_default();
                    server.serve()
                });
            sender.send(served).unwrap_or_default();
        };
        std::thread::Builder::new().name(format!("worker {core}")).spawn(worker)?;
    }
    let next = || workers.recv().map_err(|_| io::Error::other("all workers have ended"))?;
    arguments.cores.iter().try_for_each(|_| next())?;
    ready()?;
    next()
}
