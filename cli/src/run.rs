//! `ringway run`: runs a program on Ringway, unmodified.
//!
//! Promises: attaches to the running service when there is one in this network namespace, else is
//! a service of its own for as long as the program or anything it started is attached; the exit
//! status is the program's own. What cannot be accelerated runs on the kernel and the banner says
//! why; with `-e strict`, or where the library that stands in for libc is missing, it does not run
//! (125). Does not do: look into the program.

mod banner;
pub(crate) mod launch;
mod library;
mod program;

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use clap::{Args, ValueEnum};
use ringway_service::netlink::Snapshot;
use ringway_service::plan::{Machine, firewall_lines, plan};
use ringway_service::{Admission, Config, DEFAULT_NAME, Opening, RunDirectory, Service};
use ringway_shm::channel::Client;
use rustix::rand::{GetRandomFlags, getrandom};

use launch::Signals;
use program::{Program, Unusable};

pub(crate) use banner::served;
pub(crate) use library::find as find_library;

/// Exit status when we fail, not the program (as env(1) and timeout(1)).
const OUR_FAILURE: u8 = 125;
/// What `--workers` stands for.
const WORKERS_VARIABLE: &str = "RINGWAY_WORKER_COUNT";
/// The numbers of this process's own descriptors begin here.
const DESCRIPTORS_FROM: i32 = 3;
/// How long peers of a program that has ended may take to acknowledge what it wrote.
const FINISH_LIMIT: ringway_shm::Duration = ringway_shm::Duration::from_secs(30);

/// Arguments of `ringway run`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Read this configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What happens to what Ringway cannot serve
    #[arg(short, long, value_enum, default_value_t = Enforce::Fallback)]
    pub(crate) enforce: Enforce,
    /// Say what would be accelerated and what not, and do not run
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// No banner
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Use the running service of this name, never a private one
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Workers of a private service (worker.count)
    #[arg(long, value_name = "N", conflicts_with = "name")]
    pub(crate) workers: Option<u32>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// What happens to what Ringway cannot serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Enforce {
    /// It goes to the kernel
    Fallback,
    /// It is an error
    Strict,
}

/// Runs the program; returns its exit status.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let config = match Config::load(arguments.config.as_deref(), environment(arguments.workers)) {
        Ok(config) => config,
        Err(error) => return fail(&error.to_string()),
    };
    let name = arguments.program[0].display();
    let program = match program::find(&arguments.program[0], std::env::var_os("PATH")) {
        Ok(program) => program,
        Err(Unusable::Missing) => return refuse(127, &format!("{name}: no such program")),
        Err(Unusable::NotExecutable(why)) => return refuse(126, &format!("{name}: {why}")),
    };
    if arguments.dry_run {
        return dry_run(arguments, &config, &program);
    }
    if let Some(text) = contradiction(arguments) {
        return fail(&text);
    }
    match Launch::prepare(arguments, &config, program) {
        Ok(launch) => launch.go(),
        Err(text) => fail(&text),
    }
}

/// The environment, and in it what `--workers` says.
pub(crate) fn environment(workers: Option<u32>) -> Vec<(OsString, OsString)> {
    let set = workers.map(|workers| (OsString::from(WORKERS_VARIABLE), workers.to_string().into()));
    let others = std::env::vars_os().filter(|(name, _)| workers.is_none() || name != WORKERS_VARIABLE);
    others.chain(set).collect()
}

/// Why the options cannot be followed.
fn contradiction(arguments: &Arguments) -> Option<String> {
    let option = refused_option(arguments)?;
    let name = arguments.name.as_deref().unwrap_or(DEFAULT_NAME);
    let is_running = RunDirectory::of_this_machine().serves_here(name);
    is_running.then(|| format!("{option} cannot be followed: service {name} is running, with a configuration of its own"))
}

fn refuse(status: u8, text: &str) -> ExitCode {
    eprintln!("ringway run: {text}");
    ExitCode::from(status)
}

fn fail(text: &str) -> ExitCode {
    refuse(OUR_FAILURE, text)
}

/// Who serves the program.
enum Server {
    /// A running service.
    Running {
        socket: PathBuf,
        served: String,
        /// What of this run's settings it does not follow.
        notes: Vec<String>,
        /// The program's group there, which lives as long as this; `None`: nobody wants to know before the program does.
        _group: Option<Box<Client>>,
    },
    /// A service in this process.
    Private(Box<Service>),
    /// Nobody; the program runs on the kernel.
    Nobody,
}

/// A program about to be started.
struct Launch<'a> {
    arguments: &'a Arguments,
    config: &'a Config,
    program: Program,
    server: Server,
    token: [u8; 16],
    library: PathBuf,
    strict: bool,
    signals: Signals,
}

impl<'a> Launch<'a> {
    fn prepare(arguments: &'a Arguments, config: &'a Config, mut program: Program) -> Result<Launch<'a>, String> {
        let strict = arguments.enforce == Enforce::Strict || config.policy.strict;
        let signals = Signals::take().map_err(|error| format!("signals cannot be taken: {error}"))?;
        let mut token = [0; 16];
        getrandom(&mut token, GetRandomFlags::empty()).map_err(|error| format!("no random numbers: {error}"))?;
        // Without the library nothing can ever be accelerated: the installation is broken, which is no reason of the program's.
        let library = library::find()?;
        let mut server = Server::Nobody;
        if program.obstacles.is_empty() {
            match find_server(arguments, config, token, strict) {
                Ok(found) => server = found,
                Err(text) => program.obstacles.push(text),
            }
        }
        if strict && !program.obstacles.is_empty() {
            return Err(program.obstacles.join("; "));
        }
        Ok(Launch { arguments, config, program, server, token, library, strict, signals })
    }

    fn go(mut self) -> ExitCode {
        let mut child = match self.command().spawn() {
            Ok(child) => child,
            Err(error) => return refuse(126, &format!("{}: {error}", self.program.path.display())),
        };
        if !self.arguments.quiet {
            // In one write: the program runs already and may have something to say of its own.
            let line = self.banner(child.id()) + "\n";
            eprint!("{line}");
        }
        if let Err(error) = ringway_service::raise_descriptor_limit() {
            eprintln!("ringway run: few descriptors are left for connections: {error}");
        }
        // Only now: the program inherits nothing of it.
        if let Server::Private(service) = &self.server
            && let Err(error) = service.confine_process(self.config)
        {
            eprintln!("ringway run: the service cannot give up its rights: {error}");
        }
        let status = match self.signals.accompany(&mut child) {
            Ok(status) => status,
            Err(error) => return fail(&format!("the program cannot be waited for: {error}")),
        };
        if let Server::Private(service) = self.server
            && let Err(error) = finish(*service, &mut self.signals)
        {
            eprintln!("ringway run: {error}");
        }
        end_as(status)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program.path);
        command.arg0(&self.arguments.program[0]).args(&self.arguments.program[1..]);
        let socket = match &self.server {
            Server::Running { socket, .. } => socket.clone(),
            Server::Private(service) => service.socket_path(),
            Server::Nobody => return command,
        };
        command.env("LD_PRELOAD", library::preload(&self.library, std::env::var_os("LD_PRELOAD")));
        command.env("RINGWAY_SOCKET", socket).env("RINGWAY_GROUP", library::hexadecimal(&self.token));
        if self.strict {
            command.env("RINGWAY_STRICT", "1");
        }
        if self.arguments.quiet {
            command.env("RINGWAY_QUIET", "1");
        }
        command
    }

    fn banner(&self, pid: u32) -> String {
        let name = Path::new(&self.arguments.program[0]).file_name().unwrap_or(&self.arguments.program[0]).to_string_lossy();
        let (served, notes) = match &self.server {
            Server::Running { served, notes, .. } => (served.clone(), &notes[..]),
            Server::Private(service) => (banner::served(service.served()), service.notes()),
            Server::Nobody => (String::new(), &[][..]),
        };
        banner::line(&name, pid, &served, notes, &self.program.obstacles)
    }
}

/// The running service that the arguments name or that everybody uses, else a private one.
fn find_server(arguments: &Arguments, config: &Config, token: [u8; 16], strict: bool) -> Result<Server, String> {
    let directory = RunDirectory::of_this_machine();
    let name = arguments.name.as_deref().unwrap_or(DEFAULT_NAME);
    if directory.serves_here(name) {
        let socket = directory.socket_path(name);
        // What the banner says, and what strict promises, the service has agreed to.
        let group = if strict || !arguments.quiet {
            let client = Client::attach(&socket, token, DESCRIPTORS_FROM);
            Some(Box::new(client.map_err(|error| format!("service {name}: {error}"))?))
        } else {
            None
        };
        let served = describe_running(&directory, name);
        return Ok(Server::Running { socket, served, notes: not_followed(config, name), _group: group });
    }
    if let Some(name) = &arguments.name {
        return Err(format!("no service {name} is running in this network namespace"));
    }
    let name = format!("private-{}", std::process::id());
    // What strict promises, the devices have to keep before the program starts.
    let opening = if strict { Opening::AtStart } else { Opening::AtFirstProgram };
    let service = Service::start(config, &name, &directory, Admission::Private(token), opening);
    let service = service.map_err(|error| error.to_string())?;
    Ok(Server::Private(Box::new(service)))
}

/// What of this run's environment the running service `name` does not follow.
fn not_followed(config: &Config, name: &str) -> Vec<String> {
    let ours = config.changed().into_iter().filter(|(path, _)| *path != "policy.strict");
    let variables = ours.map(|(path, _)| format!("RINGWAY_{}", path.replace('.', "_").to_ascii_uppercase()));
    let set = variables.filter(|variable| std::env::var_os(variable).is_some());
    set.map(|variable| format!("{variable} has no effect, service {name} has a configuration of its own")).collect()
}

/// The option that a running service does not follow, if there is one.
fn refused_option(arguments: &Arguments) -> Option<&'static str> {
    match (&arguments.config, arguments.workers) {
        (Some(_), _) => Some("--config"),
        (None, Some(_)) => Some("--workers"),
        (None, None) => None,
    }
}

/// What a running service serves, from its statistics and the kernel's addresses.
fn describe_running(directory: &RunDirectory, name: &str) -> String {
    let Ok(stats) = ringway_shm::stats::StatsReader::open(&directory.stats_path(name)) else { return format!("service {name}") };
    let kernel = Snapshot::read().unwrap_or_default();
    let describe = |interface: &str| {
        let link = kernel.link_named(interface).map_or(0, |link| link.index);
        let addresses: Vec<String> =
            kernel.addresses_of(link).iter().filter(|cidr| cidr.ip.is_ipv4()).map(|cidr| cidr.ip.to_string()).collect();
        format!("{interface} {}", addresses.join(" ")).trim_end().to_owned()
    };
    let interfaces: Vec<String> = stats.interfaces().iter().map(|(_, interface)| describe(&interface.name)).collect();
    format!("{} (service {name})", interfaces.join(", "))
}

/// Goes on serving what the program has left behind, until nobody is attached and what was written has arrived:
/// the kernel would send it after the program's end, too.
fn finish(service: Service, signals: &mut Signals) -> std::io::Result<()> {
    while service.status().is_busy() && !service.has_failed() {
        if signals.wait_for(service.idle_fd())? {
            return service.stop();
        }
        service.hush();
    }
    // A signal means at once, the end of the worker that all is done.
    signals.wait_for(service.finish(FINISH_LIMIT))?;
    service.stop()
}

fn end_as(status: ExitStatus) -> ExitCode {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(code as u8),
        (None, Some(signal)) => launch::die_by(signal),
        (None, None) => ExitCode::from(OUR_FAILURE),
    }
}

/// Says what would be done; 0 when the program would be accelerated, 1 when not.
fn dry_run(arguments: &Arguments, config: &Config, program: &Program) -> ExitCode {
    let mut obstacles = program.obstacles.clone();
    obstacles.extend(library::find().err());
    println!("program: {}", program.path.display());
    let directory = RunDirectory::of_this_machine();
    let name = arguments.name.as_deref().unwrap_or(DEFAULT_NAME);
    if directory.serves_here(name) {
        println!("service: {name}, running; serves {}", describe_running(&directory, name));
    } else if arguments.name.is_some() {
        obstacles.push(format!("no service {name} is running in this network namespace"));
    } else {
        obstacles.extend(ringway_service::missing_rights());
        describe_private(config, &mut obstacles);
    }
    println!("stays with the kernel: loopback, multicast, and interfaces not listed");
    for obstacle in &obstacles {
        println!("not accelerated: {obstacle}");
    }
    ExitCode::from(u8::from(!obstacles.is_empty()))
}

fn describe_private(config: &Config, obstacles: &mut Vec<String>) {
    let kernel = match Snapshot::read() {
        Ok(kernel) => kernel,
        Err(error) => return obstacles.push(format!("the kernel's addresses cannot be read: {error}")),
    };
    let machine = Machine::now(config);
    let found = plan(config, &kernel, &machine);
    println!("service: a private one");
    for planned in &found.served {
        println!("interface: {}; {}", banner::served(std::slice::from_ref(planned)), planned.reason);
        for warning in &planned.warnings {
            println!("warning: {warning}");
        }
    }
    for skipped in &found.skipped {
        println!("interface: {} {}", skipped.name, skipped.reason);
    }
    for line in firewall_lines(config, &machine, &found) {
        println!("firewall: {line}");
    }
    if found.served.is_empty() {
        obstacles.push("there is no interface to serve".to_owned());
    }
}
