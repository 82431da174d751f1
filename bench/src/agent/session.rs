//! One measurement at an agent: its server, and what its machine has counted.

use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringway_shm::stats::StatsReader;

use super::call::{Call, Reply};
use crate::bed::layout::{ServerPlan, role_on};
use crate::bed::{CLIENT_CORE, Counts, PATIENCE, START, check_ports, opening, server_core, server_cores, services, services_of};
use crate::distant::{local_address, start_client};
use crate::load::order::{Answer, Order};
use crate::measure::calibration::Calibration;
use crate::measure::cpu::{self, Used};
use crate::measure::machine;
use crate::peer::Peer;

/// Services write their counters so often at least.
const COUNTERS: Duration = Duration::from_millis(1500);
const STEP: Duration = Duration::from_millis(20);
/// No run is waited for longer.
const RUN_MAX: Duration = Duration::from_secs(24 * 3600);

#[derive(Default)]
pub(super) struct Session {
    server: Option<Server>,
    client: Option<Client>,
    /// What the services of servers that have ended had counted.
    ended: Counts,
}

/// A server that serves.
struct Server {
    role: Peer,
    /// Services and, of each, whether it is the machine's and not the server's.
    services: Vec<(StatsReader, bool)>,
    /// What they had counted before.
    before: Counts,
    accepted_before: u64,
}

impl Session {
    pub(super) fn answer(&mut self, call: Call) -> Reply {
        self.obey(call).unwrap_or_else(|error| Reply::Failed(error.to_string()))
    }

    fn obey(&mut self, call: Call) -> io::Result<Reply> {
        Ok(match call {
            Call::Hello { .. } => return Err(io::Error::other("Hello was said")),
            Call::Facts(address) => Reply::Facts(machine::facts(address)),
            Call::Clock => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Reply::Clock(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
            }
            Call::Calibrate => Reply::Calibrated(Calibration::of_core(server_core())?),
            Call::Start(..) if self.server.is_some() => return Err(io::Error::other("a server runs already")),
            Call::Start(plan, address) => {
                if plan.workers == 0 || plan.workers > machine::cores() {
                    return Err(io::Error::other(format!("{} workers on {} cores", plan.workers, machine::cores())));
                }
                let mut command = role_on(Command::new("taskset"), &server_cores(plan.workers), plan.launcher())?;
                plan.finish(&mut command, address);
                self.server = Some(Server::start(&plan, command)?);
                Reply::Started
            }
            Call::Client(_) if self.client.is_some() => return Err(io::Error::other("a client runs already")),
            Call::Client(server) => {
                let client = Client::start(server)?;
                self.client = Some(client);
                Reply::Facts(machine::facts(local_address(server)?))
            }
            Call::Order(order) => Reply::Answer(self.client.as_mut().ok_or_else(no_client)?.obey(order)?),
            Call::Used => Reply::Used(match (&self.server, &self.client) {
                (None, Some(client)) => Used::by(client.role.pid(), CLIENT_CORE)?,
                _ => self.server()?.used()?,
            }),
            Call::Counts => Reply::Counted(self.counts()?),
            Call::Stop { connections } => {
                let server = self.server.take().ok_or_else(none)?;
                let accepted = server.wait_accepted(connections);
                self.ended = self.ended.plus(server.counts());
                Reply::Stopped { accepted }
            }
        })
    }

    fn server(&self) -> io::Result<&Server> {
        self.server.as_ref().ok_or_else(none)
    }

    fn counts(&self) -> io::Result<Counts> {
        let running = self.server.as_ref().map(Server::counts).unwrap_or_default();
        Ok(Counts::of_kernel()?.plus(self.ended).plus(running))
    }
}

fn none() -> io::Error {
    io::Error::other("no server runs")
}

fn no_client() -> io::Error {
    io::Error::other("no client runs")
}

/// A client of one server.
struct Client {
    role: Peer,
    server: SocketAddr,
}

impl Client {
    fn start(server: SocketAddr) -> io::Result<Client> {
        Ok(Client { role: start_client("client")?, server })
    }

    fn obey(&mut self, order: Order) -> io::Result<Answer> {
        let limit = match &order {
            Order::Prepare(plan) if plan.server != self.server => {
                return Err(io::Error::other(format!("this is a client of {}", self.server)));
            }
            Order::Prepare(plan) => check_ports(plan).map(|()| opening(plan))?,
            Order::Release => START,
            Order::Count => return Err(io::Error::other("a client counts no packets")),
            Order::Run { warmup_us, measure_us, .. } => {
                let lasts = Duration::from_micros(warmup_us.saturating_add(*measure_us)).min(RUN_MAX);
                return self.role.run(&order, lasts + PATIENCE).map(Answer::Done);
            }
        };
        self.role.order(&order, limit).map(|()| Answer::Ready)
    }
}

impl Server {
    fn start(plan: &ServerPlan, command: Command) -> io::Result<Server> {
        let mut role = Peer::start(&format!("{} server", plan.target.name()), command)?;
        role.wait_ready(START)?;
        let has_service = !plan.launcher().is_empty();
        let own = services_of(role.pid()).into_iter().map(|(_, stats)| (stats, false)).collect::<Vec<_>>();
        let services = match own.is_empty() && has_service {
            // `ringway run` has found a service on this machine.
            true => services(|_| true).into_iter().map(|(_, stats)| (stats, true)).collect(),
            false => own,
        };
        let mut server = Server { role, services, before: Counts::default(), accepted_before: 0 };
        (server.before, server.accepted_before) = (server.counts(), server.accepted());
        Ok(server)
    }

    /// CPU time of its side so far.
    fn used(&self) -> io::Result<Used> {
        let mut used = Used::by(self.role.pid(), server_core())?;
        let others = self.services.iter().filter(|(_, is_the_machines)| *is_the_machines);
        used.processes_ns += others.map(|(stats, _)| cpu::tree_ns(stats.pid())).sum::<u64>();
        Ok(used)
    }

    fn counts(&self) -> Counts {
        let all = self.services.iter().map(|(stats, _)| Counts::of(stats));
        all.fold(Counts::default(), Counts::plus).since(self.before)
    }

    fn accepted(&self) -> u64 {
        let counters = self.services.iter().flat_map(|(stats, _)| stats.counters());
        let opens = counters.filter(|(name, _)| name == "TcpPassiveOpens").map(|(_, value)| value);
        opens.sum::<u64>().saturating_sub(self.accepted_before)
    }

    /// Connections that services have accepted, `connections` if these become so many. `None`: there is no service.
    fn wait_accepted(&self, connections: u64) -> Option<u64> {
        let begun = Instant::now();
        while self.accepted() < connections && begun.elapsed() < COUNTERS && !self.services.is_empty() {
            sleep(STEP);
        }
        (!self.services.is_empty()).then(|| self.accepted())
    }
}
