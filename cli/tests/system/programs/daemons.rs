//! Daemons whose processes pass sockets on, and tunnels: Postfix, inetd, OpenVPN.

use rustix::process::Signal;

use super::frameworks::echoes;
use super::{House, have};
use crate::harness::*;
use crate::http::{fetch, nginx_config};

/// 60 messages over 30 connections, of up to 300 kB; each comes to the mailbox as it was sent.
const MAILS: &str = "
import glob, smtplib, sys, time
sent = set()
for n in range(30):
    with smtplib.SMTP(sys.argv[1], 25, timeout=30) as to:
        for part in range(2):
            body = f'{n}.{part} ' + 'x' * 70
            body = '\\r\\n'.join([body] * (1 + n * 130))
            to.sendmail('a@there.test', ['box@here.test'], f'Subject: {n}\\r\\n\\r\\n{body}\\r\\n')
            sent.add(body)
end = time.monotonic() + 60
while time.monotonic() < end:
    texts = [open(file, newline='').read() for file in glob.glob(sys.argv[2] + '/new/*')]
    got = {text.split('\\n\\n', 1)[1].replace('\\n', '\\r\\n').rstrip() for text in texts}
    if got == sent: break
    time.sleep(0.1)
print(len(got & sent), len(got))";

/// Its first process makes the listener, and starts servers that inherit it.
#[test]
#[ignore = "part of `make test-all`"]
fn postfix() {
    if !have(&["postfix", "/usr/lib/postfix/sbin/master"]) {
        return;
    }
    let house = House::new();
    let folder = &house.folder;
    #[rustfmt::skip]
    house.net.output(Server, &["sh", "-c", &format!(
        "cd {folder} && mkdir -p etc spool data mail && chown postfix data && chown mail mail && cp /etc/postfix/postfix-files etc && mkdir etc/postfix-files.d &&
        cp /usr/share/postfix/master.cf.dist etc/master.cf && sed -i -E 's/^((\\S+\\s+){{4}})[y-](\\s)/\\1n\\3/' etc/master.cf"
    )]);
    let uid = house.net.output(Server, &["id", "-u", "mail"]).trim().to_owned();
    let main = format!(
        "compatibility_level = 3.6\nqueue_directory = {folder}/spool\ndata_directory = {folder}/data\ncommand_directory = /usr/sbin\n\
         daemon_directory = /usr/lib/postfix/sbin\nmail_owner = postfix\nsetgid_group = postdrop\nmyhostname = here.test\ninet_interfaces = all\n\
         inet_protocols = ipv4\nmydestination =\nvirtual_mailbox_domains = here.test\nvirtual_mailbox_base = {folder}/mail\n\
         virtual_mailbox_maps = static:box/\nvirtual_uid_maps = static:{uid}\nvirtual_gid_maps = static:{uid}\nvirtual_minimum_uid = 1\n\
         maillog_file = /dev/stdout\nmaillog_file_prefixes = /dev\nalias_maps =\nalias_database =\nsmtpd_relay_restrictions = reject_unauth_destination\n\
         virtual_mailbox_limit = 0\n"
    );
    let config = house.net.path("etc");
    std::fs::write(config.join("main.cf"), main).expect("a folder of ours");
    let server = house.start(25, &["postfix", "-c", &text(&config), "start-fg"]);
    let client = ["python3", "-c", MAILS, &house.net.address(Server), &format!("{folder}/mail/box")];
    let got = house.net.untouched(Server, || house.net.output(Client, &client));
    assert_eq!(got, "60 60\n", "{}", server.stdout());
    house.ends(server, Signal::TERM);
}

/// Each connection is a child's standard input, output and error: of a program that the library reaches, and of a static one.
#[test]
#[ignore = "part of `make test-all`"]
fn inetd() {
    if !have(&["inetd"]) {
        return;
    }
    let house = House::new();
    let program = crate::handover::compile(&house.net, &["cc", "-static"], "echo");
    let config = house
        .net
        .file("inetd.conf", format!("4501 stream tcp nowait root /bin/cat cat\n4502 stream tcp nowait root {program} echo\n"));
    let server = house.start(4501, &["inetd", "-i", &config]);
    for port in [4501, 4502] {
        echoes(&house.net, port);
    }
    house.ends(server, Signal::TERM);
}

/// A file comes through a tunnel whose own packets `carrier` has. Ringway's may go home to the kernel when they are many (policy.bulk).
fn openvpn([serves, connects]: [&str; 2], carrier: &str) {
    if !have(&["openvpn", "/dev/net/tun"]) {
        return;
    }
    let house = House::new();
    let (key, address) = (text(&house.net.path("key")), house.net.address(Server));
    house.net.output(Server, &["openvpn", "--genkey", "secret", &key]);
    let common = ["--dev", "tun", "--cipher", "AES-256-CBC", "--secret", &key, "--port", "1194"];
    let program = [&["openvpn", "--proto", serves, "--ifconfig", "10.99.0.1", "10.99.0.2"], &common[..]].concat();
    let mut server = house.net.spawn(Server, &[&[RINGWAY, "run", "-q", "--name", &house.name, "--"], &program[..]].concat());
    let sockets = || house.net.output(Server, &[RINGWAY, "ss", "--name", &house.name, "-Htuan", "sport", "=", ":1194"]);
    server.wait_while_running("has its socket", || sockets().contains(":1194"));
    let program = ["openvpn", "--proto", connects, "--remote", &address, "--ifconfig", "10.99.0.2", "10.99.0.1"];
    let mut client = house.net.spawn(Client, &[&program[..], &common].concat());
    for tunnel in [&mut client, &mut server] {
        house.net.wait_printed(tunnel, "Initialization Sequence Completed");
    }
    let listed = match carrier {
        "kernel" => house.net.output(Server, &["ss", "-Htn", "state", "established", "sport", "=", ":1194"]),
        _ => sockets(),
    };
    assert!(!listed.is_empty() && !listed.contains("path:kernel"), "{listed}");
    let mut site = house.net.spawn(Server, &["nginx", "-c", &nginx_config(&house.net, 8000)]);
    house.net.wait_listening(Server, 8000, &mut site);
    assert_eq!(fetch(&house.net, Client, &[], "http://10.99.0.1:8000/large.bin"), house.digests[0]);
    drop(client);
    house.ends(server, Signal::TERM);
}

#[test]
#[ignore = "part of `make test-all`"]
fn openvpn_over_udp() {
    openvpn(["udp", "udp"], "stack");
}

/// It asks for the errors of its connection (IP_RECVERR), which only the kernel tells: Ringway accepts the connection and hands it over.
#[test]
#[ignore = "part of `make test-all`"]
fn openvpn_over_tcp() {
    openvpn(["tcp-server", "tcp-client"], "kernel");
}
