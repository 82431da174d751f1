//! The roles of a measurement, each in its own process: `ringway bench role server`, `client` and `wire`.
//!
//! Orders arrive as lines of JSON on standard input, answers leave on standard output, errors on
//! standard error. Promises: a role ends when its standard input does, at any time. Does not do:
//! anything that `ringway bench` has not ordered.

use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::load::embedded_client::EmbeddedClient;
use crate::load::kernel_client::KernelClient;
use crate::load::order::{Answer, Order, Outcome, Plan};
use crate::load::tuning::Tuning;
use crate::path::Path;
use crate::wire::memory::End;

mod server;
mod stack;
pub mod wire;

use stack::StackArguments;
use wire::PathWire;

/// Arguments of a role.
#[derive(Args, Clone, Debug)]
pub struct RoleArguments {
    /// Role to play
    kind: Kind,
    /// Sockets to use
    #[arg(long, value_enum, default_value_t = Sockets::Kernel)]
    sockets: Sockets,
    /// Address on which the server listens
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Poll for events without sleeping
    #[arg(long)]
    spin: bool,
    /// CPU time that a request costs the application, in microseconds
    #[arg(long, default_value_t = 0)]
    work_us: u64,
    /// Cores of the server, one worker on each; default: one worker on the present cores
    #[arg(long, value_delimiter = ',')]
    cores: Vec<usize>,
    #[command(flatten)]
    tuning: Tuning,
    /// Path that the wire emulates, as JSON
    #[arg(long, value_parser = parse_path)]
    path: Option<Path>,
    #[command(flatten)]
    stack: StackArguments,
}

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Answers requests
    Server,
    /// Sends requests
    Client,
    /// Carries packets between two namespaces
    Wire,
}

/// The sockets of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sockets {
    /// libc's: the kernel's, or Ringway's under `ringway run`
    Kernel,
    /// The kernel's, through io_uring
    Uring,
    /// Its own stack, through the native API
    Ringway,
    /// A service's, through the native API and a channel
    Channel,
    /// libc's, through mTCP's interface
    Mtcp,
    /// libc's, through F-Stack's interface
    Fstack,
}

/// Plays the role until standard input ends.
pub fn run(arguments: &RoleArguments) -> ExitCode {
    match play(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard output may be closed; the exit status also reports the failure.
            answer(&Answer::Failed(error.to_string())).unwrap_or_default();
            eprintln!("ringway bench role: {error}");
            ExitCode::FAILURE
        }
    }
}

fn play(arguments: &RoleArguments) -> io::Result<()> {
    raise_descriptor_limit()?;
    match (arguments.kind, arguments.sockets) {
        (Kind::Server, _) => server::serve(arguments, || {
            drop(orders(|| {})?);
            answer(&Answer::Ready)
        }),
        (Kind::Wire, _) => {
            let path = arguments.path.ok_or_else(|| io::Error::other("a wire needs --path"))?;
            let mut wire = PathWire::open(&path, WIRE_SEED)?;
            let wake_fd = wire.wake_fd()?;
            let orders = orders(move || wire::ring(&wake_fd))?;
            answer(&Answer::Ready)?;
            wire.run(&orders, &mut |counted| answer(&counted))
        }
        (Kind::Client, Sockets::Channel | Sockets::Uring | Sockets::Mtcp | Sockets::Fstack) => {
            Err(io::Error::other("a client needs --sockets kernel or ringway"))
        }
        (Kind::Client, Sockets::Kernel) => {
            answer(&Answer::Ready)?;
            obey(&orders(|| {})?, &mut Kernel(None))
        }
        (Kind::Client, Sockets::Ringway) => {
            let net = stack::open(&arguments.stack, End::Second)?;
            let handle = net.handle();
            answer(&Answer::Ready)?;
            // The stack wakes, so that it sees the order.
            obey(&orders(move || handle.wake())?, &mut EmbeddedClient::new(net))
        }
    }
}

fn parse_path(text: &str) -> Result<Path, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// A client that runs orders.
trait Client {
    /// Waits for an order; `None` when no more will arrive.
    fn next(&mut self, orders: &Receiver<Order>) -> io::Result<Option<Order>>;
    fn prepare(&mut self, plan: Plan) -> io::Result<()>;
    fn run(&mut self, warmup: Duration, measure: Duration, seed: u64) -> io::Result<Outcome>;
    fn release(&mut self) -> io::Result<()>;
}

struct Kernel(Option<KernelClient>);

impl Client for Kernel {
    fn next(&mut self, orders: &Receiver<Order>) -> io::Result<Option<Order>> {
        Ok(orders.recv().ok())
    }

    fn prepare(&mut self, plan: Plan) -> io::Result<()> {
        self.0 = None;
        self.0 = Some(KernelClient::open(plan)?);
        Ok(())
    }

    fn run(&mut self, warmup: Duration, measure: Duration, seed: u64) -> io::Result<Outcome> {
        let client = self.0.as_mut().ok_or_else(|| io::Error::other("a run without a plan"))?;
        client.run(warmup, measure, seed)
    }

    fn release(&mut self) -> io::Result<()> {
        self.0 = None;
        Ok(())
    }
}

impl Client for EmbeddedClient {
    fn next(&mut self, orders: &Receiver<Order>) -> io::Result<Option<Order>> {
        self.idle(orders)
    }

    fn prepare(&mut self, plan: Plan) -> io::Result<()> {
        EmbeddedClient::prepare(self, plan)
    }

    fn run(&mut self, warmup: Duration, measure: Duration, seed: u64) -> io::Result<Outcome> {
        EmbeddedClient::run(self, warmup, measure, seed)
    }

    fn release(&mut self) -> io::Result<()> {
        EmbeddedClient::release(self)
    }
}

fn obey(orders: &Receiver<Order>, client: &mut dyn Client) -> io::Result<()> {
    while let Some(order) = client.next(orders)? {
        let reply = match order {
            Order::Prepare(plan) => client.prepare(plan).map(|()| Answer::Ready)?,
            Order::Run { warmup_us, measure_us, seed } => {
                let (warmup, measure) = (Duration::from_micros(warmup_us), Duration::from_micros(measure_us));
                Answer::Done(client.run(warmup, measure, seed)?)
            }
            Order::Count => return Err(io::Error::other("a client counts no packets")),
            Order::Release => client.release().map(|()| Answer::Ready)?,
        };
        answer(&reply)?;
    }
    Ok(())
}

/// Reads orders in a new thread, which calls `wake` after each and ends the process at the end of standard input.
fn orders(wake: impl Fn() + Send + 'static) -> io::Result<Receiver<Order>> {
    let (sender, receiver) = channel();
    let read = move || {
        for line in io::stdin().lock().lines() {
            let order = line.and_then(|line| serde_json::from_str(&line).map_err(io::Error::from));
            match order {
                // A server ignores orders; only the end of standard input matters to it.
                Ok(order) => drop(sender.send(order)),
                Err(error) => {
                    eprintln!("ringway bench role: invalid order: {error}");
                    std::process::exit(1);
                }
            }
            wake();
        }
        std::process::exit(0);
    };
    std::thread::Builder::new().name("orders".into()).spawn(read)?;
    Ok(receiver)
}

fn answer(answer: &Answer) -> io::Result<()> {
    let line = serde_json::to_string(answer).expect("answers have text keys and plain values");
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Raises the descriptor limit as far as this process may.
fn raise_descriptor_limit() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    // Root may exceed the hard limit; when that is refused, use the hard limit.
    let most = Rlimit { current: Some(DESCRIPTORS), maximum: Some(limit.maximum.unwrap_or(DESCRIPTORS).max(DESCRIPTORS)) };
    if setrlimit(Resource::Nofile, most).is_ok() {
        return Ok(());
    }
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?)
}

/// Seed of the losses: every run loses the same packets.
const WIRE_SEED: u64 = 1;
/// Descriptors for the largest number of connections that a client opens on the kernel's stack.
const DESCRIPTORS: u64 = 262_144;
