//! Real drivers: Ringway inside guests of other kernels, over cards that QEMU emulates; the peer is the host's kernel in a namespace.
//!
//! Promises: a guest has the host's files read-only, under a layer in memory; it ends with its test. Without QEMU or a guest kernel
//! (`.ci/setup` fetches both) a test says that it is skipped. Does not do: rates; an emulated processor has none.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::harness::*;

/// `.ci/guests` unpacks kernel packages to folders here.
const KERNELS: &str = "/var/cache/ringway-guests";
/// Another QEMU than the machine's own, which it unpacks beside them.
const OWN_QEMU: &str = "/var/cache/ringway-guests/qemu/usr";
const QEMU: &str = "qemu-system-x86_64";
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/system/vm");
/// Attaches BPF programs.
const ATTACH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/system/firewall/cgroup.py");
const GUEST: &str = "10.99.0.2";
const FILE_BYTES: usize = 20 << 20;
/// The guest's processor is emulated, on a machine that may be busy.
const SLOW: Duration = Duration::from_secs(120);
/// A guest's kernel says this when it meets a breakpoint that is not its own. It puts breakpoints into its code while it changes it; an
/// emulated processor seems to meet one that the other has just taken away. It was seen once, before the guest ran a command.
const STALE_BREAKPOINT: &str = "Oops: int3";
/// Starts of a guest whose kernel crashes so.
const BOOTS_MAX: usize = 3;
/// Of the service's processor time in a second without packets, in hundredths of a second.
const IDLE_TICKS_MAX: u64 = 10;

struct Guest<'a> {
    net: &'a Net,
    control: UnixStream,
    /// QEMU's own commands.
    monitor: UnixStream,
    _qemu: Process,
}

/// The parts of a guest.
struct Shape {
    /// A folder of [`KERNELS`].
    kernel: &'static str,
    /// QEMU's name of the card.
    card: &'static str,
    /// The kernel's name of its driver.
    driver: &'static str,
}

/// What QEMU starts a guest with.
struct Parts {
    image: PathBuf,
    initramfs: String,
}

/// Makes the guest's files and its wire. `None`, after a line that says why: this machine cannot run it.
fn prepare(net: &Net, shape: &Shape) -> Option<Parts> {
    let kernel = Path::new(KERNELS).join(shape.kernel);
    let Some(image) = image(&kernel) else {
        eprintln!("skipped: there is no kernel in {}; `.ci/setup` fetches it", kernel.display());
        return None;
    };
    let (qemu, card) = (qemu(), format!("{},help", shape.card));
    let known = std::process::Command::new(&qemu[0]).args(&qemu[1..]).args(["-device", &card]).output();
    if !known.is_ok_and(|known| String::from_utf8_lossy(&known.stdout).contains(" options:")) {
        eprintln!("skipped: {} is not here or has no card {}; `.ci/setup` installs it", qemu[0], shape.card);
        return None;
    }
    net.output(Client, &["ip", "tuntap", "add", "dev", "vm0", "mode", "tap"]);
    net.output(Client, &["ip", "address", "add", "10.99.0.1/24", "dev", "vm0"]);
    net.output(Client, &["ip", "link", "set", "vm0", "up"]);
    let (initramfs, folder) = (text(&net.path("initramfs")), text(&kernel));
    net.output(Client, &["sh", &format!("{SCRIPTS}/initramfs.sh"), &folder, shape.driver, &initramfs]);
    Some(Parts { image, initramfs })
}

/// `None`: this machine cannot run it.
fn boot<'a>(net: &'a Net, shape: &Shape) -> Option<Guest<'a>> {
    let parts = prepare(net, shape)?;
    let mut guest = first_that_answers(|| power_on(net, shape, &parts));
    guest.run("ip address add 10.99.0.2/24 dev eth0; ip link set eth0 up; mkdir -p /run/ringway");
    guest.run("for i in $(seq 100); do [ $(cat /sys/class/net/eth0/operstate) = up ] && exit; sleep 0.1; done; exit 1");
    Some(guest)
}

/// Starts a guest again whose kernel crashes with [`STALE_BREAKPOINT`] before the first command; any other silence fails the test.
fn first_that_answers<'a>(mut power_on: impl FnMut() -> Guest<'a>) -> Guest<'a> {
    for _ in 0..BOOTS_MAX {
        let mut guest = power_on();
        let Err(said) = guest.exchange("true") else { return guest };
        let console = guest.console();
        assert!(console.contains(STALE_BREAKPOINT), "the guest does not answer: {said}\n{console}");
        eprintln!("the guest's own kernel crashed:\n{console}");
    }
    panic!("the guest's own kernel crashed at each of {BOOTS_MAX} starts");
}

/// The program and its files.
fn qemu() -> Vec<String> {
    let own = format!("{OWN_QEMU}/bin/{QEMU}");
    if !Path::new(&own).exists() {
        return vec![QEMU.to_owned()];
    }
    let files = ["qemu", "seabios"].map(|folder| format!("{OWN_QEMU}/share/{folder}"));
    [vec![own], files.into_iter().flat_map(|folder| ["-L".to_owned(), folder]).collect()].concat()
}

/// Starts QEMU and connects to it.
fn power_on<'a>(net: &'a Net, shape: &Shape, parts: &Parts) -> Guest<'a> {
    let (socket, monitor, console) = (net.path("control"), net.path("monitor"), text(&net.path("console")));
    let folder = text(&Path::new(KERNELS).join(shape.kernel));
    let append = format!("console=ttyS0 quiet panic=-1 mitigations=off nokaslr kernel={folder} guest={SCRIPTS}/guest.sh");
    let (chardev, serial) = (format!("socket,id=control,path={},server=on,wait=on", text(&socket)), format!("file:{console}"));
    let card = format!("{},netdev=wire,mac=52:54:00:77:00:02", shape.card);
    let (qemu, commands) = (qemu(), format!("unix:{},server=on,wait=off", text(&monitor)));
    let program: Vec<&str> = qemu.iter().map(String::as_str).collect();
    #[rustfmt::skip]
    let mut qemu = net.spawn(Client, &[&program[..], &[
        "-accel", "tcg,thread=multi", "-cpu", "max", "-machine", "q35", "-m", "1536", "-smp", "2",
        "-nographic", "-nodefaults", "-no-reboot", "-serial", &serial, "-kernel", &text(&parts.image), "-initrd", &parts.initramfs,
        "-append", &append, "-fsdev", "local,id=files,path=/,security_model=none,readonly=on,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=files,mount_tag=host", "-device", "virtio-serial-pci", "-chardev", &chardev,
        "-device", "virtserialport,chardev=control,name=control",
        "-netdev", "tap,id=wire,ifname=vm0,script=no,downscript=no", "-device", &card, "-monitor", &commands,
    ]].concat());
    // The file is there before QEMU listens at it.
    let mut connect = |socket: &Path| {
        let mut stream = None;
        qemu.wait_while_running("QEMU listens", || {
            stream = UnixStream::connect(socket).ok();
            stream.is_some()
        });
        stream.expect("QEMU listens")
    };
    let (control, monitor) = (connect(&socket), connect(&monitor));
    control.set_read_timeout(Some(SLOW)).expect("a time is given");
    Guest { net, control, monitor, _qemu: qemu }
}

fn image(kernel: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(kernel.join("boot")).ok()?;
    files.flatten().map(|file| file.path()).find(|path| text(path).contains("/vmlinuz-"))
}

impl Guest<'_> {
    /// Runs a line of shell that must succeed; returns what it wrote.
    fn run(&mut self, line: &str) -> String {
        match self.exchange(line) {
            Ok((output, status)) if status == "0" => output,
            Ok((output, _)) => panic!("`{line}` in the guest: {output}\n{}", self.console()),
            Err(said) => panic!("no answer of the guest to `{line}`: {said}\n{}", self.console()),
        }
    }

    /// Runs a line of shell; returns what it wrote and its status, or what it said before it ended.
    fn exchange(&mut self, line: &str) -> Result<(String, String), String> {
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        self.control.write_all(format!("{line}\n").as_bytes()).map_err(|error| error.to_string())?;
        loop {
            let said = String::from_utf8_lossy(&answer).into_owned();
            if let Some((output, status)) = said.split_once("\n@status ").filter(|(_, status)| status.ends_with('\n')) {
                return Ok((output.to_owned(), status.trim().to_owned()));
            }
            match self.control.read(&mut piece) {
                Ok(count) if count > 0 => answer.extend(&piece[..count]),
                _ => return Err(said),
            }
        }
    }

    fn console(&self) -> String {
        std::fs::read_to_string(self.net.path("console")).unwrap_or_default()
    }

    /// Starts a program that goes on, its output in /run/NAME.
    fn start(&mut self, name: &str, line: &str) {
        self.run(&format!("setsid {line} >/run/{name} 2>&1 & echo $! >/run/{name}.pid"));
    }

    fn wait_for(&mut self, what: &str) {
        self.run(&format!("for i in $(seq 300); do {what} && exit; sleep 0.1; done; tail -n 20 /run/*.out; exit 1"));
    }

    /// Hundredths of a second of processor that the service has had.
    fn ticks(&mut self) -> u64 {
        let stat = self.run("cut -d ' ' -f 14,15 /proc/$(cat /run/serve.out.pid)/stat");
        stat.split_whitespace().map(|word| word.parse::<u64>().expect("a number")).sum()
    }

    fn kernel_segments(&mut self) -> String {
        self.run("awk '/^Tcp:/ && $2 ~ /[0-9]/ { print $11, $12, $6, $7 }' /proc/net/snmp")
    }

    /// Asserts that the host reaches the kernel's own service, and its ICMP with large packets.
    fn assert_kernel_serves(&mut self) {
        let said = self.net.output(Client, &["socat", "-u", "TCP:10.99.0.2:7777,connect-timeout=10", "STDOUT"]);
        assert_eq!(said, "kernel\n");
        let ping = self.net.output(Client, &["ping", "-c", "3", "-i", "0.2", "-W", "5", "-s", "1400", GUEST]);
        assert!(ping.contains(" 0% packet loss"), "{ping}");
    }

    /// 20 MiB to the host and back, through programs that `launcher` starts.
    fn assert_moves(&mut self, launcher: &str, port: u16, file: &str) {
        let content = noise(7, FILE_BYTES);
        let digest = digest(&content);
        let sent = self.net.file("sent", &content);
        let got = text(&self.net.path("got"));
        let listening = |port: u16| format!("ss -Hltn sport = :{port} | grep -q .");
        self.start("down.out", &format!("{launcher} socat -u OPEN:{file} TCP-LISTEN:{port},reuseaddr"));
        self.wait_for(&listening(port));
        let server = format!("TCP:{GUEST}:{port},connect-timeout=10");
        self.net.spawn(Client, &["socat", "-u", &server, &format!("CREATE:{got}")]).finish(SLOW).success();
        assert_eq!(digest_of(&got).expect("socat has written it"), digest, "to the host");
        let port = port + 1;
        self.start("up.out", &format!("{launcher} socat -u TCP-LISTEN:{port},reuseaddr CREATE:/run/up"));
        self.wait_for(&listening(port));
        let server = format!("TCP:{GUEST}:{port},connect-timeout=10");
        self.net.spawn(Client, &["socat", "-u", &format!("OPEN:{sent}"), &server]).finish(SLOW).success();
        self.wait_for(&format!("[ \"$(sha256sum </run/up | cut -c1-64)\" = {digest} ]"));
    }

    /// Takes the wire from the card, or gives it back, and waits until the guest has seen it.
    fn set_link(&mut self, switch: &str, state: &str) {
        self.monitor.write_all(format!("set_link wire {switch}\n").as_bytes()).expect("QEMU reads");
        self.wait_for(&format!("[ $(cat /sys/class/net/eth0/operstate) = {state} ]"));
    }

    /// A connection that is open while the link goes and comes lives.
    fn assert_survives_flap(&mut self, launcher: &str, port: u16) {
        self.start("talk.out", &format!("{launcher} socat TCP-LISTEN:{port},reuseaddr EXEC:cat"));
        self.wait_for(&format!("ss -Hltn sport = :{port} | grep -q ."));
        let server = format!("TCP:{GUEST}:{port},connect-timeout=10");
        let talker = Talker::start(self.net, &["socat", "-t", "60", "STDIO", &server]);
        self.set_link("off", "down");
        self.set_link("on", "up");
        talker.finish(SLOW);
    }

    /// One service over this device: serves, sleeps, and is killed.
    fn assert_device_works(&mut self, device: &str, port: u16) {
        self.start("serve.out", &serve(device));
        self.wait_for("[ -S /run/ringway/vm@*.sock ]");
        self.wait_for("[ $(cat /sys/class/net/eth0/operstate) = up ]");
        eprintln!("{device}: {}", self.run("cat /run/serve.out").trim());
        let before = self.kernel_segments();
        self.assert_moves(&format!("{RINGWAY} run --name vm -q --"), port, "/run/file");
        assert_eq!(self.kernel_segments(), before, "the kernel's TCP saw segments");
        self.assert_kernel_serves();
        let before = self.kernel_segments();
        self.assert_survives_flap(&format!("{RINGWAY} run --name vm -q --"), port + 2);
        assert_eq!(self.kernel_segments(), before, "the kernel's TCP saw segments of the one that lives on");
        self.run("sleep 2");
        let before = self.ticks();
        self.run("sleep 1");
        let ticks = self.ticks() - before;
        assert!(ticks <= IDLE_TICKS_MAX, "{ticks} hundredths of a second of an idle second");
        self.run("kill -9 $(cat /run/serve.out.pid); sleep 0.5");
        self.assert_kernel_serves();
        // The ports that were hidden are the kernel's again.
        self.assert_moves("", port, "/run/file");
    }

    /// The card gets a second queue while two workers serve over AF_XDP and a connection is busy. The kernel sees nothing of served ports.
    fn assert_follows_queues(&mut self, port: u16) {
        self.run("ethtool -L eth0 combined 1");
        self.start("serve.out", &format!("{} --workers 2", serve("xdp")));
        self.wait_for("[ -S /run/ringway/vm@*.sock ]");
        self.wait_for("[ $(cat /sys/class/net/eth0/operstate) = up ]");
        let launcher = format!("{RINGWAY} run --name vm -q --");
        let before = self.kernel_segments();
        self.start("talk.out", &format!("{launcher} socat TCP-LISTEN:{port},reuseaddr EXEC:cat"));
        self.wait_for(&format!("ss -Hltn sport = :{port} | grep -q ."));
        let server = format!("TCP:{GUEST}:{port},connect-timeout=10");
        let talker = Talker::start(self.net, &["socat", "-t", "60", "STDIO", &server]);
        self.run("ethtool -L eth0 combined 2");
        self.wait_for("[ $(cat /sys/class/net/eth0/operstate) = up ]");
        talker.finish(SLOW);
        self.assert_moves(&launcher, port + 1, "/run/file");
        assert_eq!(self.kernel_segments(), before, "the kernel's TCP saw segments");
        self.run("kill $(cat /run/serve.out.pid)");
        self.wait_for("[ ! -e /run/ringway/vm@*.lock ]");
    }

    fn offloads(&mut self) -> String {
        self.run("ethtool -k eth0")
    }

    fn doctor(&mut self) -> String {
        self.run(&format!("RINGWAY_INTERFACE_NAME=eth0 {RINGWAY} doctor; [ $? -le 1 ]"))
    }

    /// The kernel lists its netfilter hooks, so that BPF programs there are seen whenever they come.
    fn assert_sees_hooks(&mut self) {
        let doctor = self.doctor();
        assert!(!doctor.contains("lists no hooks of netfilter"), "{doctor}");
        let dry = format!("RINGWAY_INTERFACE_NAME=eth0 setpriv --bounding-set -sys_admin {RINGWAY} run --dry-run -- true");
        assert!(!self.run(&dry).contains("of netfilter at"));
        self.start("hook.out", &format!("python3 {ATTACH} hold 2,1,-10 45 1"));
        self.wait_for("grep -q attached /run/hook.out");
        let seen = self.run(&dry);
        assert!(seen.contains("of netfilter at ip input: what it does is not known"), "{seen}");
        self.run("kill $(cat /run/hook.out.pid)");
        self.wait_for(&format!("! ( {dry} ) | grep -q 'of netfilter at'"));
    }

    /// After a service over this device was killed: doctor names the offloads that are not as in `before`, and a service
    /// that starts and ends gives them back.
    fn assert_gives_back(&mut self, device: &str, before: &str) {
        let is_off = self.offloads() != before;
        eprintln!("{device}: a killed service leaves offloads off: {is_off}");
        let doctor = self.doctor();
        assert_eq!(doctor.contains("offloads of eth0 that AF_XDP switched off: "), is_off, "{doctor}");
        self.start("again.out", &serve(device));
        // The socket of the killed one is still there.
        self.wait_for("grep -q 'service vm ready' /run/again.out");
        self.run("kill $(cat /run/again.out.pid)");
        self.wait_for("[ ! -e /run/ringway/vm@*.lock ]");
        assert_eq!(self.offloads(), before, "{}", self.run("cat /run/again.out"));
        self.run("[ ! -e /run/ringway/vm@*.offloads ]");
    }
}

/// Everything that a card must do, over each of `devices`.
fn check(shape: &Shape, devices: &[&str]) {
    let net = Net::new();
    let Some(mut guest) = boot(&net, shape) else { return };
    let file = net.file("content", noise(7, FILE_BYTES));
    guest.run(&format!("cp {file} /run/file"));
    guest.start("kernel.out", "socat TCP-LISTEN:7777,fork,reuseaddr 'EXEC:echo kernel'");
    guest.wait_for("ss -Hltn sport = :7777 | grep -q .");
    let offloads = guest.offloads();
    let doctor = guest.doctor();
    assert!(doctor.contains("eth0"), "{doctor}");
    assert_eq!(guest.offloads(), offloads, "doctor leaves the card as it was");
    // They came with 6.4.
    if shape.kernel != "6.1" {
        guest.assert_sees_hooks();
    }
    for (device, port) in devices.iter().zip((7000..).step_by(10)) {
        guest.assert_device_works(device, port);
        guest.assert_gives_back(device, &offloads);
        if (shape.card, *device) == (IGB.0, "xdp") {
            guest.assert_follows_queues(port + 5);
        }
    }
}

const VIRTIO: (&str, &str) = ("virtio-net-pci", "virtio_net");
const E1000E: (&str, &str) = ("e1000e", "e1000e");
const VMXNET3: (&str, &str) = ("vmxnet3", "vmxnet3");
const IGB: (&str, &str) = ("igb", "igb");

fn shape(kernel: &'static str, (card, driver): (&'static str, &'static str)) -> Shape {
    Shape { kernel, card, driver }
}

/// The service of a guest. What it serves stays the stack's, also bulk data.
fn serve(device: &str) -> String {
    let variables = format!("RINGWAY_INTERFACE_NAME=eth0 RINGWAY_INTERFACE_DEVICE={device} RINGWAY_POLICY_BULK=stack");
    format!("env {variables} {RINGWAY} serve --name vm")
}

#[test]
fn linux_6_1_on_virtio() {
    check(&shape("6.1", VIRTIO), &["auto"]);
}

#[test]
fn linux_6_1_on_e1000e() {
    check(&shape("6.1", E1000E), &["auto"]);
}

#[test]
fn linux_6_12_on_vmxnet3() {
    check(&shape("6.12", VMXNET3), &["auto"]);
}

#[test]
fn the_newest_linux_on_virtio() {
    check(&shape("newest", VIRTIO), &["auto"]);
}

#[test]
fn the_newest_linux_on_igb() {
    check(&shape("newest", IGB), &["auto", "xdp"]);
}

#[test]
fn a_guest_whose_kernel_crashes_at_its_start_is_started_again() {
    let net = Net::new();
    let shape = shape("6.1", VIRTIO);
    let Some(parts) = prepare(&net, &shape) else { return };
    let mut starts = 0;
    let mut guest = first_that_answers(|| {
        let mut guest = power_on(&net, &shape, &parts);
        starts += 1;
        if starts == 1 {
            let crash = guest.exchange(&format!("echo '{STALE_BREAKPOINT}' >/dev/ttyS0; echo o >/proc/sysrq-trigger; sleep 60"));
            assert!(crash.is_err(), "the guest has ended");
        }
        guest
    });
    assert_eq!((starts, guest.run("echo lives").trim()), (2, "lives"));
}

/// Every card on every kernel, by every device.
#[test]
#[ignore = "ten minutes and more: make vm-lab"]
fn every_kernel_on_every_card() {
    for kernel in ["6.1", "6.12", "newest"] {
        for card in [VIRTIO, E1000E, VMXNET3, IGB] {
            eprintln!("{kernel} on {}", card.0);
            check(&shape(kernel, card), &["auto", "packet", "xdp"]);
        }
    }
}
