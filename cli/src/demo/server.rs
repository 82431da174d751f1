//! The server of the demo: an unmodified nginx (without nginx, Python's http.server), on Ringway or on the kernel.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::services;
use ringway_bench::wire::veth::{Side, Wire};

/// The stack that carries the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stack {
    Ringway,
    Kernel,
}

/// A running server and its files. Dropping the wire ends it.
#[derive(Debug)]
pub(super) struct Server<'a> {
    pub(super) wire: &'a Wire,
    program: &'static str,
    folder: PathBuf,
    child: Child,
}

const PORT: u16 = 80;
const SMALL: &str = "small.txt";
const LARGE: &str = "large.bin";
const SMALL_BYTES: usize = 612;
const LARGE_BYTES: usize = 20_000_000;
/// Time limit for a server to start.
const READY: Duration = Duration::from_secs(30);

impl<'a> Server<'a> {
    /// Starts the server at its side of the wire and waits until `stack` serves the port.
    ///
    /// # Errors
    /// A program is missing or ended early; the error contains its stderr.
    pub(super) fn start(wire: &'a Wire, stack: Stack) -> io::Result<Server<'a>> {
        let folder = wire.folder().to_path_buf();
        fs::create_dir_all(folder.join("www"))?;
        fs::write(folder.join("www").join(SMALL), content(SMALL_BYTES))?;
        fs::write(folder.join("www").join(LARGE), content(LARGE_BYTES))?;
        let (program, arguments) = command_line(&folder)?;
        let mut command = match stack {
            Stack::Kernel => wire.command(Side::Server, &arguments[0]),
            Stack::Ringway => {
                let ringway = std::env::current_exe()?;
                let mut command = wire.command(Side::Server, &ringway.to_string_lossy());
                command.args(["run", "--", &arguments[0]]);
                command
            }
        };
        command.args(&arguments[1..]).current_dir(&folder).stdin(Stdio::null());
        command.stdout(File::create(folder.join("stdout"))?).stderr(File::create(folder.join("stderr"))?);
        let mut server = Server { wire, program, folder, child: command.spawn()? };
        server.wait(stack)?;
        Ok(server)
    }

    /// The program's name for display.
    pub(super) fn program(&self) -> &'static str {
        self.program
    }

    /// The URL of `file`.
    pub(super) fn url(&self, file: &str) -> String {
        format!("http://{}:{PORT}/{file}", self.wire.address(Side::Server))
    }

    /// The URL of the small file.
    pub(super) fn small_url(&self) -> String {
        self.url(SMALL)
    }

    /// The banner of `ringway run`.
    pub(super) fn banner(&self) -> Option<String> {
        let text = fs::read_to_string(self.folder.join("stderr")).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("ringway: ").map(str::to_string))
    }

    /// Fetches the small file; returns true when every byte is correct.
    pub(super) fn fetch_small(&self) -> io::Result<bool> {
        self.fetch(SMALL, SMALL_BYTES)
    }

    /// Fetches 20 MB; returns true when every byte is correct.
    pub(super) fn fetch_large(&self) -> io::Result<bool> {
        self.fetch(LARGE, LARGE_BYTES)
    }

    fn fetch(&self, file: &str, bytes: usize) -> io::Result<bool> {
        let mut curl = self.wire.command(Side::Client, "curl");
        let output = curl.args(["-sS", "--fail", "--max-time", "60", &self.url(file)]).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!("curl: {}", String::from_utf8_lossy(&output.stderr).trim())));
        }
        Ok(output.stdout == content(bytes))
    }

    /// Waits until the port is listed: by the kernel's ss, or in the service's statistics.
    fn wait(&mut self, stack: Stack) -> io::Result<()> {
        let start = Instant::now();
        while !self.is_served(stack)? {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("{} exited ({status}):\n{}", self.program, self.words())));
            }
            if start.elapsed() > READY {
                return Err(io::Error::other(format!("{} does not serve after {READY:?}:\n{}", self.program, self.words())));
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn is_served(&self, stack: Stack) -> io::Result<bool> {
        if stack == Stack::Ringway {
            let inside = self.wire.processes(Side::Server);
            let listens = |service: &services::Service| {
                let sockets = service.stats.sockets();
                sockets.iter().any(|socket| socket.state == LISTEN && socket.local.port == PORT)
            };
            let ours = services::everywhere().into_iter().filter(|service| inside.contains(&(service.stats.pid() as i32)));
            return Ok(ours.into_iter().any(|service| listens(&service)));
        }
        let output = self.wire.command(Side::Server, "ss").args(["-Hltn"]).stdin(Stdio::null()).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).contains(&format!(":{PORT} ")))
    }

    fn words(&self) -> String {
        fs::read_to_string(self.folder.join("stderr")).unwrap_or_default()
    }
}

/// Linux's number of the LISTEN state, as in the socket record.
const LISTEN: u8 = 10;

/// Command line of nginx with one worker and otherwise a distribution's settings; without nginx, of Python.
fn command_line(folder: &std::path::Path) -> io::Result<(&'static str, Vec<String>)> {
    let here = folder.display();
    if found("nginx") {
        let config = folder.join("nginx.conf");
        fs::write(
            &config,
            format!(
                "user root; worker_processes 1; daemon off; pid {here}/pid; error_log stderr error;\n\
                 events {{ worker_connections 2048; }}\n\
                 http {{ access_log off; sendfile on; keepalive_requests 100000000;\n\
                 client_body_temp_path {here}/body; proxy_temp_path {here}/proxy; fastcgi_temp_path {here}/fastcgi;\n\
                 uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;\n\
                 server {{ listen {PORT}; root {here}/www; }} }}\n"
            ),
        )?;
        return Ok(("nginx", vec!["nginx".into(), "-c".into(), config.display().to_string()]));
    }
    if found("python3") {
        let words = ["python3", "-m", "http.server", "-b", "0.0.0.0", "-d", &format!("{here}/www"), &PORT.to_string()];
        return Ok(("python3 -m http.server", words.map(str::to_string).to_vec()));
    }
    Err(io::Error::other("neither nginx nor python3 is installed; `make demo` installs nginx"))
}

fn found(program: &str) -> bool {
    let shell =
        Command::new("sh").args(["-c", "PATH=$PATH:/usr/sbin:/sbin command -v \"$0\"", program]).stdout(Stdio::null()).status();
    shell.is_ok_and(|status| status.success())
}

/// Pseudo-random bytes with a long period, so that a gap or a swap is noticed.
fn content(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(next).collect()
}
