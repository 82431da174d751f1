//! Processes that attach and then do what no library does, beside a program whose every byte is compared.
//!
//! `hostile` of the simulator's room is the attacker. What the victim's latency becomes is looked at in the long form only.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;

use crate::harness::*;

/// The victim and its peer.
const VICTIM: &str = include_str!("victim.py");
const PORT: &str = "4100";
/// The user and group that have no rights at all; Debian has both.
const UNPRIVILEGED: [&str; 6] = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
/// Members of the unprivileged group may attach.
const POLICY: &str = "[policy]\ngroup = \"nogroup\"\n";
/// A victim's slowest exchanges may take this many times what they take beside a busy process.
const SLOWER_MAX: u64 = 10;

/// A service, a victim on it, and the victim's peer on the kernel.
pub(crate) struct Scene {
    pub(crate) net: Net,
    pub(crate) service: Process,
    pub(crate) name: String,
    _peer: Process,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let net = Net::new();
        let policy = net.file("policy.toml", POLICY);
        let (service, name) = net.serve(Server, &["--config", &policy]);
        let address = net.address(Client);
        let mut peer = net.spawn(Client, &["python3", "-c", VICTIM, "server", &address, PORT]);
        net.wait_listening(Client, PORT.parse().expect("a number"), &mut peer);
        Scene { net, service, name, _peer: peer }
    }

    /// Runs `attack` beside a victim; answers the victim's 99th percentile in microseconds.
    pub(crate) fn beside_a_victim(&mut self, attack: impl FnOnce(&Scene)) -> u64 {
        let stop = text(&self.net.path("stop"));
        let address = self.net.address(Client);
        let run = [RINGWAY, "run", "-q", "-e", "strict", "--name", &self.name, "--"];
        let victim = ["python3", "-c", VICTIM, "client", &address, PORT, &stop];
        let mut victim = self.net.spawn(Server, &[&run[..], &victim[..]].concat());
        self.net.wait_printed(&mut victim, "running");
        attack(self);
        self.net.file("stop", "");
        let report = victim.finish(DEADLINE).success().stdout;
        std::fs::remove_file(&stop).expect("it was there");
        assert!(report.contains("wrong 0 errors 0"), "{report}");
        assert_eq!(self.service.poll(), None, "the service has ended: {}", self.service.stderr());
        let mut words = report.split_whitespace().skip_while(|word| *word != "p99_us");
        words.nth(1).and_then(|number| number.parse().ok()).expect("the victim says its percentile")
    }

    /// So many rounds of one form of attack, by root or by the unprivileged user.
    fn attack(&self, form: &str, rounds: u32, launcher: &[&str]) -> String {
        let built = Path::new(RINGWAY).with_file_name("hostile");
        assert!(built.exists(), "`make build` makes {}", built.display());
        let program = self.net.path("hostile");
        std::fs::copy(&built, &program).expect("the folder is ours");
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("the file is ours");
        std::fs::set_permissions(program.parent().expect("a folder"), PermissionsExt::from_mode(0o755)).expect("ours");
        let socket = text(&self.net.service_socket(Server, &self.name));
        let (program, rounds, peer) = (text(&program), rounds.to_string(), self.net.address(Client));
        let tool = [&program, "--socket", &socket, "--rounds", &rounds, "--form", form, "--peer", &peer];
        let attacker = self.net.spawn(Server, &[launcher, &tool[..]].concat());
        attacker.finish(std::time::Duration::from_secs(900)).success().stdout
    }

    /// Nothing of the attackers is left: no socket of theirs, and a new program is served.
    pub(crate) fn assert_clean(&self) {
        wait_until("the attackers' sockets are gone", DEADLINE, || {
            self.net.output(Server, &[RINGWAY, "ss", "--name", &self.name, "-Htn", "state", "listening"]).is_empty()
        });
    }
}

/// Reads the number of refused ones in `N rounds: D done, K killed, R refused`.
fn refused(report: &str) -> u32 {
    let words: Vec<&str> = report.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "refused").expect("the tool's last word");
    words[at - 1].parse().expect("a number")
}

#[test]
fn hostile_processes_harm_only_themselves() {
    let mut scene = Scene::new();
    scene.beside_a_victim(|scene| {
        for form in ["region", "requests", "attach"] {
            for launcher in [&[][..], &UNPRIVILEGED[..]] {
                let report = scene.attack(form, 40, launcher);
                assert!(refused(&report) < 20, "{form}: {report}");
            }
        }
    });
    scene.assert_clean();
    scene.service.signal(Signal::TERM);
    wait_until("SIGTERM ends the service", DEADLINE, || scene.service.poll().is_some());
}

/// Keeps one processor busy until it is ended.
const HOG: &str = "while True: pass";

#[test]
#[ignore = "minutes: make test-all"]
fn ten_thousand_hostile_rounds() {
    let mut scene = Scene::new();
    let beside_a_hog = scene.beside_a_victim(|scene| {
        let hog = scene.net.spawn(Server, &["timeout", "10", "python3", "-c", HOG]);
        assert_eq!(hog.finish(DEADLINE).code(), 124, "the time is over");
    });
    let beside_attackers = scene.beside_a_victim(|scene| {
        for launcher in [&[][..], &UNPRIVILEGED[..]] {
            println!("{}", scene.attack("all", 5_000, launcher));
        }
    });
    println!("the victim's 99th percentile: {beside_a_hog} us beside a busy process, {beside_attackers} us beside attackers");
    assert!(beside_attackers < beside_a_hog * SLOWER_MAX, "{beside_attackers} us, and {beside_a_hog} us beside a busy process");
    scene.assert_clean();
}
