//! OpenSSH: a login and a copy of 20 MB both ways, with keys and a configuration of the test's own.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::harness::*;

pub(crate) const PORT: u16 = 2222;
const ON_RINGWAY: &[&str] = &[RINGWAY, "run", "-q", "--"];

/// Keys and a configuration; returns sshd's arguments.
pub(crate) fn sshd(net: &Net) -> Vec<String> {
    for key in ["host", "user"] {
        let path = text(&net.path(key));
        net.output(Server, &["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &path]);
    }
    let public = fs::read_to_string(net.path("user.pub")).expect("ssh-keygen has written it");
    let keys = net.file("authorized", public);
    fs::set_permissions(&keys, PermissionsExt::from_mode(0o600)).expect("the file is ours");
    let config = net.file(
        "sshd_config",
        format!(
            "Port {PORT}\nListenAddress 0.0.0.0\nHostKey {}\nAuthorizedKeysFile {keys}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
             PasswordAuthentication no\nPidFile none\nSubsystem sftp internal-sftp\n",
            text(&net.path("host"))
        ),
    );
    fs::create_dir_all("/run/sshd").expect("sshd separates its privileges there");
    let server = net.output(Server, &["sh", "-c", "PATH=$PATH:/usr/sbin command -v sshd"]);
    [server.trim(), "-D", "-e", "-f", &config].map(str::to_string).to_vec()
}

/// Options that make ssh and scp use only the test's keys.
pub(crate) fn options(net: &Net) -> Vec<String> {
    let key = text(&net.path("user"));
    let words = [
        "-F",
        "none",
        "-i",
        &key,
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
        "-o",
        "LogLevel=ERROR",
        "-o",
        "BatchMode=yes",
    ];
    words.map(str::to_string).to_vec()
}

/// Logs in from the client's side and returns what the command there printed.
pub(crate) fn login(net: &Net, launcher: &[&str], command: &str) -> String {
    let (options, port) = (options(net), PORT.to_string());
    let target = format!("root@{}", net.address(Server));
    let mut arguments = [launcher, &["ssh", "-p", &port]].concat();
    arguments.extend(options.iter().map(String::as_str));
    arguments.extend([target.as_str(), command]);
    net.output(Client, &arguments)
}

fn copy(net: &Net, launcher: &[&str], from: &str, to: &str) {
    let (options, port) = (options(net), PORT.to_string());
    let mut arguments = [launcher, &["scp", "-q", "-P", &port]].concat();
    arguments.extend(options.iter().map(String::as_str));
    arguments.extend([from, to]);
    net.output(Client, &arguments);
}

fn login_and_copy(net: &Net, launcher: &[&str]) {
    assert_eq!(login(net, launcher, "echo hello; exit 0"), "hello\n");
    let content = noise(8, LARGE);
    let here = net.file("here", &content);
    let (there, back) = (text(&net.path("there")), text(&net.path("back")));
    let remote = format!("root@{}:{there}", net.address(Server));
    copy(net, launcher, &here, &remote);
    assert_eq!(digest_of(&there).expect("scp has written it"), digest(&content));
    copy(net, launcher, &remote, &back);
    assert_eq!(digest_of(&back).expect("scp has written it"), digest(&content));
}

fn start(net: &Net, launcher: &[&str]) -> Process {
    let arguments = sshd(net);
    let mut words = launcher.to_vec();
    words.extend(arguments.iter().map(String::as_str));
    let mut server = net.spawn(Server, &words);
    if launcher.is_empty() {
        net.wait_listening(Server, PORT, &mut server);
    } else {
        net.wait_served(Server, PORT, &mut server);
    }
    server
}

/// A kernel sshd, for the tests of sharing.
pub(crate) fn start_on_kernel(net: &Net) -> Process {
    start(net, &[])
}

#[test]
fn sshd_serves_kernel_clients() {
    let net = Net::new();
    let _server = start(&net, ON_RINGWAY);
    net.untouched(Server, || login_and_copy(&net, &[]));
}

#[test]
fn ssh_logs_in_to_a_kernel_server() {
    let net = Net::new();
    let _server = start(&net, &[]);
    net.untouched(Client, || login_and_copy(&net, ON_RINGWAY));
}
