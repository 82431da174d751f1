//! The servers: unmodified, one worker, each in the server's namespace of its own wire.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::bed::{server_core, steer};
use crate::measure::cpu::Used;
use crate::options::Steering;
use crate::pause;
use crate::wire::veth::{Side, Wire};

use super::load::{self, Load};

/// The measured programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Program {
    /// A web server: one worker, a static file of 64 bytes, and one of 1 MiB by sendfile(2)
    Nginx,
    /// The same over TLS 1.3: ECDSA with P-256, and a handshake for each connection
    NginxTls,
    /// A web server: one worker, a static file of 64 bytes
    Lighttpd,
    /// A proxy: one thread, replies of its own
    Haproxy,
    /// A store: values of 64 bytes
    Redis,
    /// A cache: one thread, values of 64 bytes
    Memcached,
}

/// The stack that carries the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Stack {
    /// The kernel
    Linux,
    /// Ringway, through `ringway run`
    Preload,
}

/// A running server and its wire.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) program: Program,
    pub(super) stack: Stack,
    child: Child,
    /// Dropping it ends the processes inside.
    pub(super) wire: Wire,
}

/// Segment counters of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    /// Retransmitted by both ends.
    pub(super) resent: u64,
    /// Received by the kernel's TCP at the server's side.
    pub(super) received: u64,
}

pub(super) const PORT: u16 = 8080;
/// Over TLS.
pub(super) const TLS_PORT: u16 = 8443;
const START: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);
/// `policy.bulk` as it is by default on a machine where nothing was measured.
const UNMEASURED: &str = "sent";
pub(super) const FILE: &str = "small.txt";
/// The large file of web servers.
pub(super) const LARGE_FILE: &str = "large.txt";
const LARGE_BYTES: usize = 1 << 20;
/// The content of the small file and of values.
pub(super) const BODY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

const HTTP: &[Load] = &[Load::Http { is_short: false }, Load::Http { is_short: true }];
const FILES: &[Load] = &[Load::Http { is_short: false }, Load::Http { is_short: true }, Load::Files];
const TLS: &[Load] = &[Load::Tls { is_short: false }, Load::Tls { is_short: true }];
const REDIS: &[Load] = &[
    Load::Redis { test: "get", is_short: false },
    Load::Redis { test: "set", is_short: false },
    Load::Redis { test: "get", is_short: true },
];
const MEMCACHED: &[Load] = &[Load::Memcached { is_short: false }, Load::Memcached { is_short: true }];

impl Stack {
    /// Name in rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Stack::Linux => "linux",
            Stack::Preload => "preload",
        }
    }
}

impl Program {
    /// The executable.
    pub(super) fn command(self) -> &'static str {
        match self {
            Program::Nginx | Program::NginxTls => "nginx",
            Program::Lighttpd => "lighttpd",
            Program::Haproxy => "haproxy",
            Program::Redis => "redis-server",
            Program::Memcached => "memcached",
        }
    }

    /// The programs that it takes.
    pub(super) fn commands(self) -> &'static [&'static str] {
        match self {
            Program::Nginx => &["nginx"],
            Program::NginxTls => &["nginx", "openssl"],
            Program::Lighttpd => &["lighttpd"],
            Program::Haproxy => &["haproxy"],
            Program::Redis => &["redis-server"],
            Program::Memcached => &["memcached"],
        }
    }

    /// Name in rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Program::Redis => "redis",
            Program::NginxTls => "nginx-tls",
            _ => self.command(),
        }
    }

    /// The program's loads.
    pub(super) fn loads(self) -> &'static [Load] {
        match self {
            Program::Nginx => FILES,
            Program::NginxTls => TLS,
            Program::Lighttpd | Program::Haproxy => HTTP,
            Program::Redis => REDIS,
            Program::Memcached => MEMCACHED,
        }
    }

    /// Writes the configuration into `folder` and returns the arguments.
    fn arguments(self, folder: &Path) -> io::Result<Vec<String>> {
        let config = folder.join("config");
        let (text, arguments): (String, Vec<String>) = match self {
            Program::Nginx => (nginx(folder, ""), vec!["-c".into(), path(&config)]),
            Program::NginxTls => {
                certify(folder)?;
                (nginx(folder, &tls(folder)), vec!["-c".into(), path(&config)])
            }
            Program::Lighttpd => (lighttpd(folder), vec!["-D".into(), "-f".into(), path(&config)]),
            Program::Haproxy => (haproxy(), vec!["-db".into(), "-q".into(), "-f".into(), path(&config)]),
            Program::Redis => (redis(folder), vec![path(&config)]),
            Program::Memcached => {
                let words = format!("-u root -l 0.0.0.0 -p {PORT} -U 0 -t 1 -c 4096");
                (String::new(), words.split(' ').map(str::to_string).collect())
            }
        };
        fs::write(config, text)?;
        fs::create_dir_all(folder.join("www"))?;
        fs::write(folder.join("www").join(FILE), BODY)?;
        fs::write(folder.join("www").join(LARGE_FILE), BODY.repeat(LARGE_BYTES / BODY.len()))?;
        Ok(arguments)
    }
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// Makes a key and a certificate for it.
fn certify(folder: &Path) -> io::Result<()> {
    let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=bench";
    let made = Command::new("openssl")
        .args(request.split(' '))
        .args(["-keyout", "key.pem", "-out", "certificate.pem"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?;
    let words = String::from_utf8_lossy(&made.stderr);
    if made.status.success() { Ok(()) } else { Err(io::Error::other(format!("openssl: {}", words.trim()))) }
}

/// What a server of nginx needs for TLS. Without sessions each connection makes a handshake of its own.
fn tls(folder: &Path) -> String {
    let here = folder.display();
    format!(
        "listen {TLS_PORT} ssl backlog=4096; ssl_certificate {here}/certificate.pem; ssl_certificate_key {here}/key.pem;\n\
         ssl_protocols TLSv1.3; ssl_session_cache off; ssl_session_tickets off;"
    )
}

/// The configuration of a web server, with more words for it.
fn nginx(folder: &Path, more: &str) -> String {
    let here = folder.display();
    format!(
        "user root; worker_processes 1; daemon off; pid {here}/pid; error_log stderr error;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; sendfile on; keepalive_requests 100000000;\n\
         client_body_temp_path {here}/body; proxy_temp_path {here}/proxy; fastcgi_temp_path {here}/fastcgi;\n\
         uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;\n\
         server {{ listen {PORT} backlog=4096; root {here}/www; {more} }} }}\n"
    )
}

fn lighttpd(folder: &Path) -> String {
    let here = folder.display();
    format!(
        "server.document-root = \"{here}/www\"\nserver.port = {PORT}\nserver.bind = \"0.0.0.0\"\nserver.errorlog = \"{here}/errors\"\n\
         server.max-keep-alive-requests = 100000000\nserver.max-connections = 4096\nserver.max-fds = 8192\nserver.listen-backlog = 4096\n\
         mimetype.assign = ( \".txt\" => \"text/plain\" )\n"
    )
}

fn haproxy() -> String {
    format!(
        "global\n  nbthread 1\n  maxconn 4096\ndefaults\n  mode http\n  timeout client 60s\n  timeout server 60s\n  timeout connect 5s\n\
         frontend bench\n  bind 0.0.0.0:{PORT} backlog 4096\n  http-request return status 200 content-type text/plain string \"{BODY}\"\n"
    )
}

fn redis(folder: &Path) -> String {
    let here = folder.display();
    format!(
        "bind 0.0.0.0\nport {PORT}\nprotected-mode no\nsave \"\"\nappendonly no\ndaemonize no\ndir {here}\ntcp-backlog 4096\nlogfile \"\"\n"
    )
}

/// Returns true when a program is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    let shell =
        Command::new("sh").args(["-c", "PATH=$PATH:/usr/sbin:/sbin command -v \"$0\"", program]).stdout(Stdio::null()).status();
    shell.is_ok_and(|status| status.success())
}

impl Server {
    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    /// The server ended or does not answer; the error contains its stderr.
    pub(super) fn start(program: Program, stack: Stack, steering: Steering) -> io::Result<Server> {
        let wire = Wire::new()?;
        steer(&wire, steering)?;
        // Short connections need ports faster than TIME-WAIT releases them.
        let ports = ["-qw", "net.ipv4.tcp_tw_reuse=1", "net.ipv4.ip_local_port_range=1024 65535"];
        let set = wire.command(Side::Client, "sysctl").args(ports).stdin(Stdio::null()).output()?;
        if !set.status.success() {
            return Err(io::Error::other(format!("sysctl: {}", String::from_utf8_lossy(&set.stderr).trim())));
        }
        let folder = wire.folder().to_path_buf();
        let arguments = program.arguments(&folder)?;
        let mut command = wire.command(Side::Server, "taskset");
        command.args(["-c", &server_core().to_string()]);
        if stack == Stack::Preload {
            command.arg(std::env::current_exe()?).args(["run", "--quiet", "--"]).env("RINGWAY_POLICY_BULK", UNMEASURED);
        }
        let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        command.arg(program.command()).args(arguments).env("PATH", search).current_dir(&folder).stdin(Stdio::null());
        command.stdout(File::create(folder.join("stdout"))?).stderr(File::create(folder.join("stderr"))?);
        let mut server = Server { program, stack, child: command.spawn()?, wire };
        server.wait(&folder)?;
        Ok(server)
    }

    fn wait(&mut self, folder: &Path) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            match load::probe(self) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    let words = || fs::read_to_string(folder.join("stderr")).unwrap_or_default();
                    let name = self.program.command();
                    if let Some(status) = self.child.try_wait()? {
                        return Err(io::Error::other(format!("{name} exited ({status}): {}", words().trim())));
                    }
                    if begun.elapsed() > START {
                        return Err(io::Error::other(format!(
                            "{name} does not answer after {START:?}: {error}: {}",
                            words().trim()
                        )));
                    }
                }
            }
            sleep(STEP);
        }
    }

    /// Stops the server, so that it uses no CPU in the rounds of other targets.
    pub(super) fn pause(&self) {
        pause::pause(self.child.id());
    }

    /// Continues the server.
    pub(super) fn resume(&self) {
        pause::resume(self.child.id());
    }

    /// CPU time of the server and its descendants, and of their core.
    pub(super) fn used(&self) -> io::Result<Used> {
        Used::by(self.child.id(), server_core())
    }

    /// The kernel's counters so far.
    pub(super) fn counters(&self) -> io::Result<Counters> {
        let of = |side, name| self.wire.kernel_counter(side, "Tcp", name);
        let resent = of(Side::Server, "RetransSegs")? + of(Side::Client, "RetransSegs")?;
        Ok(Counters { resent, received: of(Side::Server, "InSegs")? })
    }
}
