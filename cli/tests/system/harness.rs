//! The base of the system tests: a wire of their own, processes with deadlines, files with digests.
//!
//! Promises: tests run one after another whatever `--test-threads` says; every wait is a condition
//! with a deadline; a failed test prints what its programs wrote; nothing is left behind.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ringway_channel::attach::{NETWORKS, network_named, split_stem, stem};
use ringway_service::RunDirectory;
use ringway_service::config::BulkChoice;
use ringway_service::measured::Measured;
use ringway_shm::stats::{SocketRecord, StatsReader};
use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest, Sha256};

pub(crate) use ringway_bench::wire::veth::{INTERFACE, Side, Side::Client, Side::Server, Wire, remove_on_signal};

/// The built command.
pub(crate) const RINGWAY: &str = env!("CARGO_BIN_EXE_ringway");
/// `common.py`: what the scripts of sockets have in common.
pub(crate) const SCRIPTS_SHARE: &str = include_str!("common.py");
/// A file size that needs many windows: 20 MB.
pub(crate) const LARGE: usize = 20_000_000;
/// The time that one program may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// Segments that may come when the service of a program that has ended is gone, on a machine that stops for a moment: a FIN
/// after more than the second that is waited for it, or the answer to what was sent twice.
const LATE_SEGMENTS: u64 = 1;

/// Linux's number of the state.
const LISTEN: u8 = 10;

static SERIAL: Mutex<()> = Mutex::new(());
static SIGNALS: Once = Once::new();
static NUMBERS: AtomicU32 = AtomicU32::new(0);

/// One test's world: two namespaces, a folder, the right to run.
pub(crate) struct Net {
    wire: Wire,
    /// What the caller says of the number of workers does not count.
    ignores_workers: bool,
    _serial: MutexGuard<'static, ()>,
}

impl Net {
    pub(crate) fn new() -> Net {
        let serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        SIGNALS.call_once(|| remove_on_signal().expect("signals can be watched"));
        let wire = Wire::new().expect("two namespaces and a veth pair: run the system tests as root");
        // A test's data stays in the stack, however fast it is; and what was measured on this machine changes nothing here.
        let measured = Measured { bulk: BulkChoice::Stack };
        measured.write(&wire.folder().join("measured.toml")).expect("a file in our folder");
        Net { wire, ignores_workers: false, _serial: serial }
    }

    /// One whose services have one worker, unless the test says otherwise: it counts what each worker has, or the configuration's sources.
    pub(crate) fn of_one_worker() -> Net {
        Net { ignores_workers: true, ..Net::new() }
    }

    pub(crate) fn address(&self, side: Side) -> String {
        self.wire.address(side)
    }

    pub(crate) fn address6(&self, side: Side) -> String {
        self.wire.address6(side)
    }

    /// `http://[SERVER]:PORT/NAME`
    pub(crate) fn url6(&self, port: u16, name: &str) -> String {
        format!("http://[{}]:{port}/{name}", self.address6(Server))
    }

    /// `http://SERVER:PORT/NAME`
    pub(crate) fn url(&self, port: u16, name: &str) -> String {
        format!("http://{}:{port}/{name}", self.address(Server))
    }

    pub(crate) fn namespace(&self, side: Side) -> String {
        self.wire.namespace(side)
    }

    /// A path in the test's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.wire.folder().join(name)
    }

    /// Writes a file into the test's folder and returns its path as text.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("inside the folder")).expect("a folder inside ours");
        fs::write(&path, content).expect("a file in our folder");
        text(&path)
    }

    /// Starts a program inside one namespace; its output goes to files.
    pub(crate) fn spawn(&self, side: Side, arguments: &[&str]) -> Process {
        self.spawn_with(side, arguments, &[], None)
    }

    /// As `spawn`, with more environment and a file as standard input.
    pub(crate) fn spawn_with(
        &self,
        side: Side,
        arguments: &[&str],
        environment: &[(&str, &str)],
        input: Option<&Path>,
    ) -> Process {
        let mut command = self.wire.command(side, arguments[0]);
        command.env("RINGWAY_STATE_DIRECTORY", self.wire.folder());
        command.envs(environment.iter().copied());
        self.start(command, arguments, input)
    }

    /// Starts a program outside the namespaces.
    pub(crate) fn spawn_here(&self, arguments: &[&str]) -> Process {
        self.start(Command::new(arguments[0]), arguments, None)
    }

    fn start(&self, mut command: Command, arguments: &[&str], input: Option<&Path>) -> Process {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let stdout = self.path(&format!("{number}.stdout"));
        let stderr = self.path(&format!("{number}.stderr"));
        command.args(&arguments[1..]).current_dir(self.wire.folder());
        if self.ignores_workers {
            command.env_remove("RINGWAY_WORKER_COUNT");
        }
        command.stdin(input.map_or_else(Stdio::null, |path| File::open(path).expect("the input exists").into()));
        command.stdout(File::create(&stdout).expect("a file in our folder"));
        command.stderr(File::create(&stderr).expect("a file in our folder"));
        let child = command.spawn().expect("the program can be started");
        Process { child, label: arguments.join(" "), stdout, stderr, status: None }
    }

    /// Runs a program to its end, which must come before the deadline.
    pub(crate) fn run(&self, side: Side, arguments: &[&str]) -> Finished {
        self.spawn(side, arguments).finish(DEADLINE)
    }

    /// Runs a program that must succeed and returns what it printed.
    pub(crate) fn output(&self, side: Side, arguments: &[&str]) -> String {
        self.run(side, arguments).success().stdout
    }

    /// Starts a program on Ringway with a private service.
    pub(crate) fn spawn_ringway(&self, side: Side, arguments: &[&str]) -> Process {
        self.spawn(side, &ringway(arguments))
    }

    /// Runs a program on Ringway that must succeed and returns what it printed.
    pub(crate) fn output_ringway(&self, side: Side, arguments: &[&str]) -> String {
        self.output(side, &ringway(arguments))
    }

    /// Process ids inside the namespace.
    pub(crate) fn processes(&self, side: Side) -> Vec<i32> {
        self.wire.processes(side)
    }

    /// Reads what the kernel's TCP of this namespace has received so far.
    pub(crate) fn kernel_tcp(&self, side: Side) -> KernelTcp {
        let count = |name| self.kernel_counter(side, "Tcp", name);
        KernelTcp { opens: count("PassiveOpens") + count("ActiveOpens"), segments: count("InSegs") }
    }

    /// Asserts that the kernel's TCP of this side has received `segments` since `before`, and if none, has opened nothing.
    pub(crate) fn assert_kernel_received(&self, side: Side, before: &KernelTcp, segments: u64) {
        let now = self.kernel_tcp(side);
        assert!(segments > 0 || now.opens == before.opens, "the kernel's TCP of {side:?} opened connections");
        let received = now.segments - before.segments;
        let expected = segments..=segments + LATE_SEGMENTS;
        assert!(expected.contains(&received), "the kernel's TCP of {side:?} received {received} segments, and not {segments}");
    }

    /// A counter of the kernel of this namespace.
    pub(crate) fn kernel_counter(&self, side: Side, group: &str, name: &str) -> u64 {
        self.wire.kernel_counter(side, group, name).expect("the kernel counts that")
    }

    /// Waits until no connection of either side's kernel is open, but for those in TIME-WAIT: no segment of theirs is under way then.
    pub(crate) fn wait_kernels_quiet(&self) {
        const SETTLED: [&str; 2] = ["06", "0A"]; // TIME-WAIT, LISTEN
        wait_until("the kernels' connections have ended", DEADLINE, || {
            [Server, Client].iter().all(|side| {
                let tables = self.output(*side, &["cat", "/proc/net/tcp", "/proc/net/tcp6"]);
                let mut states = tables.lines().filter_map(|line| line.split_whitespace().nth(3));
                states.all(|state| state == "st" || SETTLED.contains(&state))
            })
        });
    }

    /// Waits until a program has printed this on its standard output.
    pub(crate) fn wait_printed(&self, process: &mut Process, words: &str) {
        let path = process.stdout_path();
        process.wait_while_running(words, || lossy(&path).contains(words));
    }

    /// Starts `ringway serve` under a name of its own; returns it with the name.
    pub(crate) fn serve(&self, side: Side, options: &[&str]) -> (Process, String) {
        let name = format!("test-{}-{}", std::process::id(), NUMBERS.fetch_add(1, Ordering::Relaxed));
        (self.serve_as(side, &name, options), name)
    }

    /// Starts `ringway serve` under this name.
    pub(crate) fn serve_as(&self, side: Side, name: &str, options: &[&str]) -> Process {
        let socket = self.service_socket(side, name);
        let made = || fs::metadata(&socket).ok().map(|socket| (socket.ino(), socket.ctime(), socket.ctime_nsec()));
        // One that was killed may have left its own there: the kernel gives numbers of namespaces again.
        let left = made();
        let mut service = self.spawn(side, &[&[RINGWAY, "serve", "--name", name], options].concat());
        service.wait_while_running("has its socket", || made().is_some_and(|now| Some(now) != left));
        service
    }

    /// Where the service of this name on this side listens.
    pub(crate) fn service_socket(&self, side: Side, name: &str) -> PathBuf {
        let namespace = Path::new("/run/netns").join(self.namespace(side));
        let network = fs::metadata(namespace).expect("the namespace has a file").ino();
        Path::new("/run/ringway").join(stem(name, network) + ".sock")
    }

    /// Waits until the kernel of this side listens on the port.
    pub(crate) fn wait_listening(&self, side: Side, port: u16, server: &mut Process) {
        let filter = format!(":{port}");
        server.wait_while_running("listens in the kernel", || {
            let sockets = self.run(side, &["ss", "-Hltn"]).stdout;
            sockets.lines().any(|line| line.split_whitespace().nth(3).is_some_and(|local| local.ends_with(&filter)))
        });
    }

    /// Waits until a Ringway service of this side serves the port.
    pub(crate) fn wait_served(&self, side: Side, port: u16, server: &mut Process) {
        self.wait_listening(side, port, server);
        let filter = format!("{}:{port}", self.address(side));
        let anywhere = [format!("0.0.0.0:{port}"), format!("*:{port}"), format!("[::]:{port}")];
        let places = [&[filter][..], &anywhere].concat();
        server.wait_while_running("listens on Ringway", || {
            let sockets = self.run(side, &[RINGWAY, "ss", "-Hltn"]).stdout;
            let ours = sockets.lines().filter(|line| !line.contains("path:kernel"));
            let locals = ours.filter_map(|line| line.split_whitespace().nth(3));
            let mut locals = locals.into_iter();
            locals.any(|local| places.iter().any(|place| place == local)) && self.all_workers_listen(side, port)
        });
    }

    /// Returns true if all workers of a service have a listener of this port: packets come to them from then on.
    fn all_workers_listen(&self, side: Side, port: u16) -> bool {
        let network = network_named(&Path::new(NETWORKS).join(self.namespace(side))).expect("it is there");
        let files = fs::read_dir(RunDirectory::of_this_machine().path()).expect("a service runs").flatten();
        let mut services: BTreeMap<String, bool> = BTreeMap::new();
        for path in files.map(|entry| entry.path()) {
            let named = |text: &std::ffi::OsStr| text.to_str().map(str::to_owned);
            let (Some(begin), Some(ending)) = (path.file_stem().and_then(named), path.extension().and_then(named)) else {
                continue;
            };
            let is_here = split_stem(&begin).is_some_and(|(_, place)| place == network);
            let Some(stats) = StatsReader::open(&path).ok().filter(|_| is_here && ending.starts_with("stats")) else { continue };
            let is_it = |socket: &SocketRecord| socket.state == LISTEN && socket.local.port == port && socket.kernel.is_none();
            let listens = stats.sockets().iter().any(is_it);
            *services.entry(begin).or_insert(true) &= listens;
        }
        services.into_values().any(|all| all)
    }

    /// Does `work` and asserts that the kernel's TCP of this side received no segment meanwhile.
    pub(crate) fn untouched<T>(&self, side: Side, work: impl FnOnce() -> T) -> T {
        let before = self.kernel_tcp(side);
        let result = work();
        self.assert_kernel_received(side, &before, 0);
        result
    }
}

/// Counters of what a kernel's TCP has received.
pub(crate) struct KernelTcp {
    opens: u64,
    segments: u64,
}

/// `ringway run -- …`
pub(crate) fn ringway<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&[RINGWAY, "run", "--"], arguments].concat()
}

/// A started program. Dropping it ends it.
pub(crate) struct Process {
    child: Child,
    label: String,
    stdout: PathBuf,
    stderr: PathBuf,
    status: Option<ExitStatus>,
}

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    label: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Process {
    /// The process id; with `ringway run` that of the launcher.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Where the standard output goes.
    pub(crate) fn stdout_path(&self) -> PathBuf {
        self.stdout.clone()
    }

    pub(crate) fn stdout(&self) -> String {
        lossy(&self.stdout)
    }

    pub(crate) fn stderr(&self) -> String {
        lossy(&self.stderr)
    }

    /// The exit status, if the program has ended.
    pub(crate) fn poll(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("the child is ours");
        }
        self.status
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            kill_process(self.pid(), signal).expect("an unreaped child can be signalled");
        }
    }

    /// Waits for the end.
    pub(crate) fn finish(mut self, deadline: Duration) -> Finished {
        let start = Instant::now();
        while self.poll().is_none() {
            if start.elapsed() > deadline {
                panic!("`{}` did not end within {deadline:?}\n{}", self.label, self.outputs());
            }
            sleep(STEP);
        }
        let status = self.status.expect("the loop ends with a status");
        Finished { label: self.label.clone(), status, stdout: self.stdout(), stderr: self.stderr() }
    }

    /// Waits for a condition while this program must keep running.
    pub(crate) fn wait_while_running(&mut self, what: &str, mut condition: impl FnMut() -> bool) {
        let start = Instant::now();
        while !condition() {
            if let Some(status) = self.poll() {
                panic!("`{}` ended ({status}) before: {what}\n{}", self.label, self.outputs());
            }
            assert!(start.elapsed() < READY, "`{}`: not within {READY:?}: {what}\n{}", self.label, self.outputs());
            sleep(STEP);
        }
    }

    /// Waits until the program has printed this on its standard error.
    pub(crate) fn wait_for_error_line(&mut self, words: &str) {
        let path = self.stderr.clone();
        self.wait_while_running(words, || lossy(&path).contains(words));
    }

    /// As `wait_for_error_line`, until it has been printed so often.
    pub(crate) fn wait_for_error_lines(&mut self, words: &str, count: usize) {
        let path = self.stderr.clone();
        self.wait_while_running(words, || lossy(&path).matches(words).count() >= count);
    }

    fn outputs(&self) -> String {
        format!("--- stdout\n{}\n--- stderr\n{}", self.stdout(), self.stderr())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("`{}`\n{}", self.label, self.outputs());
        }
        self.signal(Signal::TERM);
        let start = Instant::now();
        while self.poll().is_none() {
            if start.elapsed() > Duration::from_secs(5) {
                self.signal(Signal::KILL);
            }
            sleep(STEP);
        }
    }
}

impl Finished {
    /// Asserts that the program ended with 0.
    pub(crate) fn success(self) -> Finished {
        assert!(self.status.success(), "`{}`: {}\n{}\n{}", self.label, self.status, self.stdout, self.stderr);
        self
    }

    /// Exit status, or minus the signal.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| -self.status.signal().expect("an ended process has a status or a signal"))
    }
}

/// A program that exchanges lines with one that gives them back (`talker.py`), over a connection that has to live.
pub(crate) struct Talker {
    process: Process,
    stop: PathBuf,
}

impl Talker {
    /// Starts the client of such a program; the first line has come back.
    pub(crate) fn start(net: &Net, client: &[&str]) -> Talker {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let [stop, begun] = ["stop", "begun"].map(|name| net.path(&format!("{name}.{number}")));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/system/talker.py");
        let mut process = net.spawn(Client, &[&["python3", script, &text(&stop), &text(&begun)], client].concat());
        process.wait_while_running("the first line has come back", || begun.exists());
        Talker { process, stop }
    }

    /// Asserts that every line has come back, also one that is sent now.
    pub(crate) fn finish(self, deadline: Duration) {
        std::fs::write(&self.stop, "").expect("the folder is the test's");
        self.process.finish(deadline).success();
    }
}

/// Waits until `condition` holds.
pub(crate) fn wait_until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < deadline, "not within {deadline:?}: {what}");
        sleep(STEP);
    }
}

/// The same bytes for the same seed (xorshift64*).
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// SHA-256 of bytes, hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of a file.
pub(crate) fn digest_of(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read(path).map(|bytes| digest(&bytes))
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().expect("our paths are ASCII").to_string()
}

fn lossy(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// Time between two looks at a condition.
const STEP: Duration = Duration::from_millis(10);
/// The time that a server may take to start.
const READY: Duration = Duration::from_secs(20);
