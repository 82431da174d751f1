//! Measurements between two machines: the client here, the server where `ringway bench agent` runs.
//!
//! Promises: a server runs only while it is measured, so that what another target has at the interface costs it nothing; each wait has a
//! limit; what all machines are is in every row. Does not do: use the clocks of two machines for one figure; all times are the client's.

mod clients;

use std::cell::RefCell;
use std::io::{self, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clients::{Client, shares, together};

use crate::agent::TOKEN;
use crate::agent::call::{Call, PROTOCOL, Reply, put, take};
use crate::bed::layout::{PORT, ServerPlan, role_on};
use crate::bed::{CLIENT_CORE, Counts, Ends, PATIENCE, START, Sample, Setup, check_ports, opening};
use crate::load::order::{Order, Passage, Plan};
use crate::measure::calibration::Calibration;
use crate::measure::cpu::Used;
use crate::measure::machine::{self, Facts};
use crate::options::Options;
use crate::peer;
use crate::point::Setting;
use crate::target::Target;

/// Time limit for reaching the agent, and for each short answer.
const SHORT: Duration = Duration::from_secs(10);
/// Time limit for logging in by ssh, which may ask for a password.
const LOGIN: Duration = Duration::from_secs(60);
/// Questions for the time; the fastest answer counts.
const CLOCK_TURNS: usize = 8;
/// Clocks that differ by more are told of.
const CLOCKS_APART: f64 = 1.0;

/// Where the agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// It listens at HOST:PORT.
    Tcp(String),
    /// ssh starts it: the host, and the command that stands for `ringway` there.
    Ssh(String, Vec<String>),
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        if let Some(words) = text.strip_prefix("ssh:") {
            let mut words = words.split_whitespace().map(str::to_string);
            let host = words.next().filter(|host| !host.starts_with('-')).ok_or("expected ssh:HOST")?;
            let command: Vec<String> = words.collect();
            return Ok(Peer::Ssh(host, if command.is_empty() { vec!["ringway".into()] } else { command }));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Peer::Tcp(text.into())),
            _ => Err("expected HOST:PORT or ssh:HOST".into()),
        }
    }
}

/// A machine where an agent runs.
pub(crate) struct Machine {
    line: RefCell<Line>,
    /// Where servers are to listen.
    address: SocketAddr,
    commit: String,
    cores: usize,
    server: Facts,
    client: Facts,
    /// Seconds by which its clock is ahead.
    ahead: f64,
    /// Machines with further clients.
    clients: Vec<Client>,
}

impl Machine {
    /// Reaches the agent. `address`: where its servers listen; `None`: where the agent itself is reached.
    ///
    /// # Errors
    /// It is not there, of another version, or refuses.
    pub(crate) fn reach(peer: &Peer, address: Option<SocketAddr>) -> io::Result<Machine> {
        let (mut line, reached) = Line::to(peer)?;
        let address = address.or(reached.map(|ip| SocketAddr::new(ip, PORT)));
        let address = address.ok_or_else(|| line.error("its address is not known: say --peer-address"))?;
        let (commit, cores) = greeted(&mut line)?;
        let ahead = line.clock()?;
        let Reply::Facts(server) = line.ask(&Call::Facts(address.ip()), SHORT)? else {
            return Err(line.error("did not say what it is"));
        };
        let client = local_address(address).map(machine::facts)?;
        Ok(Machine { line: RefCell::new(line), address, commit, cores, server, client, ahead, clients: Vec::new() })
    }

    /// The same with clients on these machines too.
    ///
    /// # Errors
    /// One of them is not there, of another version, or refuses.
    pub(crate) fn with_clients(self, peers: &[Peer]) -> io::Result<Machine> {
        let clients = peers.iter().map(|peer| Client::reach(peer, self.address)).collect::<io::Result<_>>()?;
        Ok(Machine { clients, ..self })
    }

    fn ask(&self, call: &Call, limit: Duration) -> io::Result<Reply> {
        self.line.borrow_mut().ask(call, limit)
    }

    fn error(&self, words: &str) -> io::Error {
        self.line.borrow().error(words)
    }

    /// Runs the calibration loop on the servers' core.
    ///
    /// # Errors
    /// The agent is gone.
    pub(crate) fn calibrate(&self) -> io::Result<Calibration> {
        match self.ask(&Call::Calibrate, SHORT)? {
            Reply::Calibrated(calibration) => Ok(calibration),
            _ => Err(self.error("did not calibrate")),
        }
    }

    fn start(&self, server: &ServerPlan) -> io::Result<()> {
        // The agent has a limit of its own, and says what kept the server from starting.
        match self.ask(&Call::Start(server.clone(), self.address), START + SHORT)? {
            Reply::Started => Ok(()),
            _ => Err(self.error("did not start the server")),
        }
    }

    /// Ends the server; returns how many of `connections` Ringway has accepted.
    fn stop(&self, connections: u64) -> io::Result<Option<u64>> {
        match self.ask(&Call::Stop { connections }, START)? {
            Reply::Stopped { accepted } => Ok(accepted),
            _ => Err(self.error("did not end the server")),
        }
    }

    fn used(&self) -> io::Result<Used> {
        match self.ask(&Call::Used, SHORT)? {
            Reply::Used(used) => Ok(used),
            _ => Err(self.error("did not say what was used")),
        }
    }

    /// Returns true if its kernel has this congestion control.
    pub(crate) fn has_congestion_control(&self, wanted: &str) -> bool {
        let available = self.server.get(machine::CONGESTION_CONTROLS).map_or("", String::as_str);
        available.split_whitespace().any(|name| name == wanted)
    }

    /// Says in the fields that all rows have what both machines are.
    pub(crate) fn describe(&self, setting: &mut Setting) {
        let both = |server: &str, client: &str| match server == client {
            true => server.to_string(),
            false => format!("{server}; client: {client}"),
        };
        let fact = |name: &str| self.server.get(name).map_or("", String::as_str);
        setting.machine = both(fact(machine::PROCESSOR), &setting.machine);
        setting.kernel = both(fact(machine::KERNEL), &setting.kernel);
        setting.commit = both(&self.commit, &setting.commit);
        let mut server = self.server.clone();
        server.insert("clock is ahead by, s".into(), format!("{:.6}", self.ahead));
        setting.ends = [("server".to_string(), server), ("client".to_string(), self.client.clone())].into();
        for (number, client) in (2..).zip(&self.clients) {
            setting.ends.insert(format!("client {number}"), client.facts.clone());
        }
    }

    /// What a user should know before the first figure.
    pub(crate) fn introduction(&self) -> String {
        let mut words = format!(
            "servers on {}: {}, Linux {}",
            self.address.ip(),
            self.server.get(machine::PROCESSOR).map_or("", String::as_str),
            self.server.get(machine::KERNEL).map_or("", String::as_str)
        );
        if self.commit != machine::commit() {
            words.push_str(&format!("; its ringway is of commit {}, this one of {}", self.commit, machine::commit()));
        }
        if self.ahead.abs() > CLOCKS_APART {
            words.push_str(&format!("; its clock is {:.1} s ahead of this one", self.ahead));
        }
        if !self.clients.is_empty() {
            words.push_str(&format!("; {} clients share each load", 1 + self.clients.len()));
        }
        if let Some(other) = self.clients.iter().find(|client| client.commit != machine::commit()) {
            words.push_str(&format!(", one of commit {}", other.commit));
        }
        words
    }
}

fn token() -> io::Result<String> {
    std::env::var(TOKEN).map_err(|_| io::Error::other(format!("{TOKEN} is not set; it has the token that the agent has printed")))
}

/// Shows the agent the token, and hears its commit and the number of cores of its machine.
fn greeted(line: &mut Line) -> io::Result<(String, usize)> {
    let token = if line.needs_token { token()? } else { String::new() };
    let limit = if line.needs_token { SHORT } else { LOGIN };
    match line.ask(&Call::Hello { protocol: PROTOCOL, token }, limit)? {
        Reply::Welcome { commit, cores } => Ok((commit, cores)),
        _ => Err(line.error("did not say Welcome")),
    }
}

/// The address from which this machine sends to another one.
pub(crate) fn local_address(to: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    // Nothing is sent.
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}

/// The connection to an agent.
struct Line {
    name: String,
    needs_token: bool,
    out: Option<Box<dyn Write>>,
    replies: Receiver<io::Result<Reply>>,
    /// The ssh program.
    login: Option<Child>,
}

impl Line {
    /// Reaches an agent; returns the address that this took, where it is known.
    fn to(peer: &Peer) -> io::Result<(Line, Option<IpAddr>)> {
        match peer {
            Peer::Tcp(at) => Line::connect(at),
            Peer::Ssh(host, command) => Line::log_in(host, command),
        }
    }

    fn connect(at: &str) -> io::Result<(Line, Option<IpAddr>)> {
        let name = |error: io::Error| io::Error::new(error.kind(), format!("the agent at {at}: {error}"));
        let mut failure = io::Error::other("the name has no address");
        for address in at.to_socket_addrs().map_err(name)? {
            match TcpStream::connect_timeout(&address, SHORT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let replies = listen(stream.try_clone()?);
                    let line = Line { name: at.into(), needs_token: true, out: Some(Box::new(stream)), replies, login: None };
                    return Ok((line, Some(address.ip())));
                }
                Err(error) => failure = error,
            }
        }
        Err(name(failure))
    }

    /// What ssh itself says goes to standard error, where it may ask for a password too.
    fn log_in(host: &str, command: &[String]) -> io::Result<(Line, Option<IpAddr>)> {
        let mut ssh = Command::new("ssh");
        ssh.args(["-T", host]).args(command).args(["bench", "agent"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut login = ssh.spawn().map_err(|error| io::Error::new(error.kind(), format!("ssh: {error}")))?;
        let out = login.stdin.take().expect("it was asked to be piped");
        let replies = listen(login.stdout.take().expect("it was asked to be piped"));
        let name = host.rsplit('@').next().unwrap_or(host);
        let address = (name, PORT).to_socket_addrs().ok().and_then(|mut all| all.next()).map(|address| address.ip());
        let line = Line { name: host.into(), needs_token: false, out: Some(Box::new(out)), replies, login: Some(login) };
        Ok((line, address))
    }

    fn error(&self, words: &str) -> io::Error {
        io::Error::other(format!("the agent at {}: {words}", self.name))
    }

    fn ask(&mut self, call: &Call, limit: Duration) -> io::Result<Reply> {
        self.tell(call)?;
        self.hear(limit)
    }

    /// Sends a call, whose reply [`hear`](Line::hear) waits for.
    fn tell(&mut self, call: &Call) -> io::Result<()> {
        let out = self.out.as_mut().expect("it is taken only by drop");
        // Where it is gone, what it has said last says why.
        if put(out, call).is_ok() { Ok(()) } else { self.hear(Duration::ZERO).and(Err(self.error("has ended"))) }
    }

    fn hear(&mut self, limit: Duration) -> io::Result<Reply> {
        match self.replies.recv_timeout(limit) {
            Ok(Ok(Reply::Failed(why))) => Err(self.error(&why)),
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(self.error(&error.to_string())),
            Err(RecvTimeoutError::Timeout) if !limit.is_zero() => Err(self.error(&format!("has not answered within {limit:?}"))),
            Err(_) => Err(self.error("has ended")),
        }
    }

    /// Seconds by which the other clock is ahead, to half the time of the fastest answer.
    fn clock(&mut self) -> io::Result<f64> {
        let mut best = (Duration::MAX, 0.0);
        for _ in 0..CLOCK_TURNS {
            let (asked, began) = (SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(), Instant::now());
            let Reply::Clock(theirs_ns) = self.ask(&Call::Clock, SHORT)? else {
                return Err(self.error("did not say the time"));
            };
            let took = began.elapsed();
            if took < best.0 {
                best = (took, theirs_ns as f64 / 1e9 - (asked + took / 2).as_secs_f64());
            }
        }
        Ok(best.1)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The agent ends its server when it sees the end.
        self.out = None;
        if let Some(login) = &mut self.login
            && let Err(error) = login.wait()
        {
            eprintln!("ringway bench: ssh: {error}");
        }
    }
}

/// Reads replies in a thread that ends with them.
fn listen(from: impl io::Read + Send + 'static) -> Receiver<io::Result<Reply>> {
    let (sender, replies) = channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        while let Some(reply) = take(&mut from).transpose() {
            let is_last = reply.is_err();
            if sender.send(reply).is_err() || is_last {
                return;
            }
        }
    });
    replies
}

/// Starts a client on the kernel's stack.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start_client(label: &str) -> io::Result<peer::Peer> {
    let mut command = role_on(Command::new("taskset"), &[CLIENT_CORE], &[])?;
    command.arg("client");
    let mut client = peer::Peer::start(label, command)?;
    client.wait_ready(START)?;
    Ok(client)
}

/// A target whose server is on another machine.
pub(crate) struct Distant {
    machine: Rc<Machine>,
    server: ServerPlan,
    client: peer::Peer,
    load: Option<Plan>,
    /// Connections of the client since `prepare`, and of these those that Ringway has accepted.
    connections: u64,
    accepted: Option<u64>,
}

impl Distant {
    /// Starts the client's end, and the server for a moment: what keeps it from serving is known before the first round.
    ///
    /// # Errors
    /// The setup needs a wire of its own, there are too few cores, or client or server cannot be started.
    pub(crate) fn start(target: Target, options: &Options, setup: &Setup, machine: &Rc<Machine>) -> io::Result<Distant> {
        let server = ServerPlan::new(target, options, setup.tuning);
        if setup.needs_own_wire() {
            return Err(io::Error::other("this point needs a wire of its own: measure it without --peer"));
        }
        if server.workers > 1 && !target.has_workers() {
            return Err(io::Error::other(format!("{} has one worker here", target.name())));
        }
        if server.workers > machine.cores {
            return Err(io::Error::other(format!("{} workers on {} cores", server.workers, machine.cores)));
        }
        machine.start(&server)?;
        machine.stop(0)?;
        let client = start_client(&format!("client of {}", target.name()))?;
        Ok(Distant { machine: Rc::clone(machine), server, client, load: None, connections: 0, accepted: None })
    }

    /// CPU time of all clients.
    fn client_used(&self) -> io::Result<Used> {
        let here = Used::by(self.client.pid(), CLIENT_CORE)?;
        let elsewhere = self.machine.clients.iter().map(Client::used).collect::<io::Result<Vec<_>>>()?;
        Ok(clients::sum(elsewhere.into_iter().chain([here])))
    }
}

impl Ends for Distant {
    fn target(&self) -> Target {
        self.server.target
    }

    /// It runs only in `run`.
    fn pause(&mut self) {}

    fn resume(&mut self) {}

    /// Connections are opened in `run`, when there is a server.
    fn prepare(&mut self, plan: &Plan) -> io::Result<()> {
        shares(plan, 1 + self.machine.clients.len())?.iter().try_for_each(check_ports)?;
        self.load = Some(Plan { server: self.machine.address, sources: Vec::new(), tuning: self.server.tuning, ..plan.clone() });
        (self.connections, self.accepted) = (0, None);
        Ok(())
    }

    fn release(&mut self) -> io::Result<()> {
        self.load = None;
        Ok(())
    }

    fn run(&mut self, warmup: Duration, measure: Duration, seed: u64) -> io::Result<Sample> {
        let plan = self.load.clone().ok_or_else(|| io::Error::other("a run without a plan"))?;
        let (limit, opened_first) = (opening(&plan), u64::from(plan.connections));
        let machine = Rc::clone(&self.machine);
        let mut all = shares(&plan, 1 + machine.clients.len())?.into_iter();
        let (own, others) = (all.next().expect("one for each client"), all.zip(&machine.clients).collect::<Vec<_>>());
        machine.start(&self.server)?;
        others.iter().try_for_each(|(share, client)| client.order(Order::Prepare(share.clone())))?;
        self.client.order(&Order::Prepare(own.clone()), limit)?;
        others.iter().try_for_each(|(_, client)| client.wait_ready(limit))?;
        let before = (machine.used()?, self.client_used()?);
        for (number, (_, client)) in (1..).zip(&others) {
            client.order(Order::run(warmup, measure, seed.wrapping_add(number)))?;
        }
        let lasts = warmup + measure + PATIENCE;
        let mut outcome = self.client.run(&Order::run(warmup, measure, seed), lasts)?;
        if !others.is_empty() {
            let mut parts = vec![(own, outcome)];
            for (share, client) in &others {
                parts.push((share.clone(), client.outcome(lasts)?));
            }
            outcome = together(parts);
        }
        let after = (machine.used()?, self.client_used()?);
        others.iter().try_for_each(|(_, client)| client.order(Order::Release))?;
        self.client.order(&Order::Release, START)?;
        others.iter().try_for_each(|(_, client)| client.wait_ready(START))?;
        let connections = opened_first.max(outcome.opened);
        let accepted = self.machine.stop(connections)?;
        self.connections += connections;
        self.accepted = accepted.map(|accepted| self.accepted.unwrap_or(0) + accepted);
        let (server, client) = (after.0.since(&before.0), after.1.since(&before.1));
        Ok(Sample { outcome, server, client, path_ns: 0, passage: Passage::default() })
    }

    fn calibrate(&mut self) -> io::Result<Calibration> {
        self.machine.calibrate()
    }

    fn counts(&mut self) -> io::Result<Counts> {
        let Reply::Counted(server) = self.machine.ask(&Call::Counts, SHORT)? else {
            return Err(self.machine.error("did not say what was counted"));
        };
        let clients = self.machine.clients.iter().map(Client::counts).collect::<io::Result<Vec<_>>>()?;
        Ok(clients.into_iter().fold(server.plus(Counts::of_kernel()?), Counts::plus))
    }

    fn remark(&mut self) -> io::Result<String> {
        let accepted = self.accepted.unwrap_or(0);
        let is_ringways = !self.server.launcher().is_empty();
        Ok(match is_ringways && accepted < self.connections {
            true => format!("{accepted} of {} connections were Ringway's", self.connections),
            false => String::new(),
        })
    }
}

#[cfg(test)]
mod tests;
