//! `ringway run`: runs an unmodified program on Ringway.
//!
//! Promises: the program uses the running service of this network namespace; when there is none, this process is
//! a private service while the program or a process it started is attached. The exit status is the program's. A
//! program that cannot be accelerated runs on the kernel and the banner says why; with `-e strict`, or when the
//! preload library is missing, it does not run (125). Does not do: change the program.

mod banner;
mod detach;
pub(crate) mod launch;
pub(crate) mod library;
pub(crate) mod program;

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use clap::{Args, ValueEnum};
use ringway_channel::Client;
use ringway_channel::attach::{AttachError, ProgramFile};
use ringway_service::cgroups::describe_caller;
use ringway_service::config::profiles::PROFILES;
use ringway_service::netlink::Snapshot;
use ringway_service::plan::{Machine, firewall_lines, plan};
use ringway_service::rundir::PRIVATE;
use ringway_service::{Admission, Config, DEFAULT_NAME, Opening, RunDirectory, Service};
use rustix::rand::{GetRandomFlags, getrandom};

use launch::Signals;
use program::{Program, Unusable};

pub(crate) use banner::served;
pub(crate) use library::find as find_library;

/// Exit status when `ringway run` itself fails (as env(1) and timeout(1)).
const OUR_FAILURE: u8 = 125;
/// The variables that `--workers` and `--profile` set.
const WORKERS_VARIABLE: &str = "RINGWAY_WORKER_COUNT";
const PROFILE_VARIABLE: &str = "RINGWAY_SERVICE_PROFILE";
/// Lowest number for this process's own descriptors.
const DESCRIPTORS_FROM: i32 = 3;
/// Time limit for peers to acknowledge the data of a program that has ended.
const FINISH_LIMIT: ringway_shm::Duration = ringway_shm::Duration::from_secs(30);

/// Arguments of `ringway run`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Policy for programs and sockets that Ringway cannot serve
    #[arg(short, long, value_enum, default_value_t = Enforce::Fallback)]
    pub(crate) enforce: Enforce,
    /// Report what would be accelerated, without running the program
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not print the banner
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Return when the program has started, and print its process id. Its output goes on only into files
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) detach: bool,
    /// The run that goes on after `--detach`
    #[arg(long, hide = true, conflicts_with_all = ["detach", "dry_run"])]
    pub(crate) detached: bool,
    /// Use the running service of this name, never a private one
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Number of workers of a private service (worker.count)
    #[arg(long, value_name = "N", conflicts_with = "name")]
    pub(crate) workers: Option<u32>,
    /// Settings of a private service for a purpose (service.profile); `ringway config profiles` lists them
    #[arg(long, value_name = "NAME", conflicts_with = "name", value_parser = profile_names())]
    pub(crate) profile: Option<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// Policy for programs and sockets that Ringway cannot serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Enforce {
    /// Use the kernel
    Fallback,
    /// Fail
    Strict,
}

/// Runs the program; returns its exit status.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    if arguments.detach {
        return detach::start();
    }
    if arguments.detached
        && let Err(error) = detach::leave_session()
    {
        return fail(&format!("cannot leave the session: {error}"));
    }
    let config = match Config::load(arguments.config.as_deref(), environment(arguments.workers, arguments.profile.as_deref())) {
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

/// Returns the environment, with the values of `--workers` and `--profile` in it.
pub(crate) fn environment(workers: Option<u32>, profile: Option<&str>) -> Vec<(OsString, OsString)> {
    let set = [
        workers.map(|workers| (WORKERS_VARIABLE, workers.to_string())),
        profile.map(|profile| (PROFILE_VARIABLE, profile.to_owned())),
    ];
    let set: Vec<(OsString, OsString)> = set.into_iter().flatten().map(|(name, value)| (name.into(), value.into())).collect();
    let others = std::env::vars_os().filter(|(name, _)| set.iter().all(|(set, _)| set != name));
    others.chain(set.iter().cloned()).collect()
}

fn profile_names() -> Vec<&'static str> {
    PROFILES.iter().map(|profile| profile.name).collect()
}

/// Returns why the options cannot be applied; `None` when they can.
fn contradiction(arguments: &Arguments) -> Option<String> {
    let option = refused_option(arguments)?;
    let name = arguments.name.as_deref().unwrap_or(DEFAULT_NAME);
    let is_running = RunDirectory::of_this_machine().serves_here(name);
    is_running.then(|| format!("{option} cannot be applied: service {name} is running with its own configuration"))
}

fn refuse(status: u8, text: &str) -> ExitCode {
    eprintln!("ringway run: {text}");
    ExitCode::from(status)
}

fn fail(text: &str) -> ExitCode {
    refuse(OUR_FAILURE, text)
}

/// The service that the program uses.
enum Server {
    /// A running service.
    Running {
        socket: PathBuf,
        served: String,
        /// Settings of this run that the service ignores.
        notes: Vec<String>,
        /// The program's group there, alive as long as this; `None` when neither strict mode nor a banner needs it.
        _group: Option<Box<Client>>,
    },
    /// A service in this process.
    Private(Box<Service>),
    /// None; the program runs on the kernel.
    Nobody,
}

/// A program to start, and its service.
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
        let signals = Signals::take().map_err(|error| format!("cannot install signal handlers: {error}"))?;
        let mut token = [0; 16];
        getrandom(&mut token, GetRandomFlags::empty()).map_err(|error| format!("cannot get random numbers: {error}"))?;
        // A missing library is a broken installation, not an obstacle of the program: fail.
        let library = library::find()?;
        let mut server = Server::Nobody;
        if program.obstacles.is_empty() {
            match find_server(arguments, config, (token, &program.image), strict) {
                Ok(found) => server = found,
                Err(Unserved::Kernel(text)) => program.obstacles.push(text),
                Err(Unserved::Denied(text)) => return Err(text),
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
            // In one write: the program already runs and may write to stderr, too.
            let line = self.banner(child.id()) + "\n";
            eprint!("{line}");
        }
        if self.arguments.detached
            && let Err(error) = detach::tell(child.id())
        {
            eprintln!("ringway run: cannot tell that the program has started: {error}");
        }
        if let Err(error) = ringway_service::raise_descriptor_limit() {
            eprintln!("ringway run: cannot raise the descriptor limit, which limits connections: {error}");
        }
        // After the program's start, which must not inherit it.
        if let Server::Private(service) = &self.server
            && let Err(error) = service.confine_process(self.config)
        {
            eprintln!("ringway run: the service cannot drop its privileges: {error}");
        }
        let status = match self.signals.accompany(&mut child) {
            Ok(status) => status,
            Err(error) => return fail(&format!("cannot wait for the program: {error}")),
        };
        if let Server::Private(service) = self.server
            && let Err(error) = finish(*service, &mut self.signals)
        {
            eprintln!("ringway run: {error}");
        }
        ringway_service::log::flush();
        end_as(status)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program.path);
        command.arg0(&self.arguments.program[0]).args(&self.arguments.program[1..]);
        if self.arguments.detached {
            detach::separate(&mut command);
        }
        let socket = match &self.server {
            Server::Running { socket, .. } => socket.clone(),
            Server::Private(service) => service.socket_path(),
            Server::Nobody => return command,
        };
        command.env("LD_PRELOAD", library::preload(&self.library, std::env::var_os("LD_PRELOAD")));
        command.env("ASAN_OPTIONS", library::asan_options(std::env::var_os("ASAN_OPTIONS")));
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

/// Why no service serves the program.
enum Unserved {
    /// The kernel does.
    Kernel(String),
    /// A rule denies it its sockets.
    Denied(String),
}

/// Finds the running service that the arguments name, or the default one; else starts a private one.
fn find_server(
    arguments: &Arguments,
    config: &Config,
    (token, image): ([u8; 16], &Path),
    strict: bool,
) -> Result<Server, Unserved> {
    let directory = RunDirectory::of_this_machine();
    let name = arguments.name.as_deref().unwrap_or(DEFAULT_NAME);
    if directory.serves_here(name) {
        let socket = directory.socket_path(name);
        // Attach now, so that the banner, or strict mode, promises only what the service has accepted.
        let group = if strict || !arguments.quiet {
            // Rules of the service that name programs are about the one that this process becomes the parent of.
            let program = Path::new(&arguments.program[0]).file_name().unwrap_or(&arguments.program[0]);
            CString::new(program.as_bytes()).map(|program| rustix::thread::set_name(&program)).ok();
            let file = std::fs::metadata(image).map(|file| ProgramFile { device: file.dev(), inode: file.ino() });
            let client = Client::attach_for(&socket, token, file.ok(), DESCRIPTORS_FROM).map_err(|error| match error {
                AttachError::Denied(_) => Unserved::Denied(format!("service {name}: {error}")),
                error => Unserved::Kernel(format!("service {name}: {error}")),
            })?;
            Some(Box::new(client))
        } else {
            None
        };
        let served = describe_running(&directory, name);
        return Ok(Server::Running { socket, served, notes: not_followed(config, name), _group: group });
    }
    if let Some(name) = &arguments.name {
        return Err(Unserved::Kernel(format!("no service {name} is running in this network namespace")));
    }
    let name = format!("{PRIVATE}{}", std::process::id());
    // In strict mode, the devices must open before the program starts.
    let opening = if strict { Opening::AtStart } else { Opening::AtFirstProgram };
    ringway_service::log::start(&if arguments.quiet { config.log.quiet() } else { config.log.clone() });
    let service = Service::start(config, &name, &directory, Admission::Private(token), opening);
    let service = service.map_err(|error| Unserved::Kernel(error.to_string()))?;
    Ok(Server::Private(Box::new(service)))
}

/// Lists the variables of this environment that the running service `name` ignores.
fn not_followed(config: &Config, name: &str) -> Vec<String> {
    let ours = config.changed().into_iter().filter(|(path, _)| *path != "policy.strict");
    let variables = ours.map(|(path, _)| format!("RINGWAY_{}", path.replace('.', "_").to_ascii_uppercase()));
    let set = variables.filter(|variable| std::env::var_os(variable).is_some());
    set.map(|variable| format!("{variable} has no effect: service {name} has its own configuration")).collect()
}

/// The given option that a running service would ignore, if any.
fn refused_option(arguments: &Arguments) -> Option<&'static str> {
    let options = [
        (arguments.config.is_some(), "--config"),
        (arguments.workers.is_some(), "--workers"),
        (arguments.profile.is_some(), "--profile"),
    ];
    options.into_iter().find(|(given, _)| *given).map(|(_, option)| option)
}

/// Describes what a running service serves, from its statistics and the kernel's addresses.
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

/// Serves until no process is attached and peers have acknowledged all data: the kernel also sends data after the
/// program's end.
fn finish(service: Service, signals: &mut Signals) -> std::io::Result<()> {
    while service.status().is_busy() && !service.has_failed() {
        if signals.wait_for(service.idle_fd())? {
            return service.stop();
        }
        service.hush();
    }
    // A signal ends the wait at once; otherwise it ends with the worker, when all is sent.
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

/// Prints what would be done; returns 0 when the program would be accelerated, else 1.
fn dry_run(arguments: &Arguments, config: &Config, program: &Program) -> ExitCode {
    let mut obstacles = program.obstacles.clone();
    obstacles.extend(library::find().err());
    let mut lines = vec![format!("program: {}", program.path.display())];
    let directory = RunDirectory::of_this_machine();
    let name = arguments.name.as_deref().unwrap_or(DEFAULT_NAME);
    if directory.serves_here(name) {
        lines.push(format!("service: {name}, running; serves {}", describe_running(&directory, name)));
    } else if arguments.name.is_some() {
        obstacles.push(format!("no service {name} is running in this network namespace"));
    } else {
        obstacles.extend(ringway_service::missing_rights());
        lines.extend(describe_private(config, &mut obstacles));
    }
    lines.push("stays with the kernel: loopback, multicast, and interfaces not listed".to_owned());
    lines.extend(obstacles.iter().map(|obstacle| format!("not accelerated: {obstacle}")));
    match crate::output::write(&(lines.join("\n") + "\n")) {
        Ok(()) => ExitCode::from(u8::from(!obstacles.is_empty())),
        Err(error) => {
            eprintln!("ringway run: {error}");
            ExitCode::from(OUR_FAILURE)
        }
    }
}

/// What a private service would serve, a line each.
fn describe_private(config: &Config, obstacles: &mut Vec<String>) -> Vec<String> {
    let kernel = match Snapshot::read() {
        Ok(kernel) => kernel,
        Err(error) => {
            obstacles.push(format!("cannot read the kernel's addresses: {error}"));
            return Vec::new();
        }
    };
    let machine = Machine::now(config, &kernel);
    let found = plan(config, &kernel, &machine);
    if found.served.is_empty() {
        obstacles.push("no interface to serve".to_owned());
    }
    let mut lines = vec!["service: private".to_owned()];
    for planned in &found.served {
        lines.push(format!("interface: {}; {}", banner::served(std::slice::from_ref(planned)), planned.reason));
        lines.extend(planned.warnings.iter().map(|warning| format!("warning: {warning}")));
    }
    lines.extend(found.skipped.iter().map(|skipped| format!("interface: {} {}", skipped.name, skipped.reason)));
    lines.extend(firewall_lines(config, &machine, &found).into_iter().map(|line| format!("firewall: {line}")));
    lines.push(format!("cgroup: {}", describe_caller(config).line));
    lines
}
