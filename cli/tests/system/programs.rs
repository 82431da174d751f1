//! Servers as distributions have them, on Ringway: Apache, gunicorn, uWSGI, HAProxy, stunnel, squid, PostgreSQL, PgBouncer,
//! MariaDB, Dovecot, Node's cluster; Postfix, inetd and OpenVPN (`daemons`), programs of frameworks (`frameworks`). Clients on the kernel compare what comes, and the server's kernel has nothing to do with it.
//!
//! Part of `make test-all`; `.ci/setup programs` installs them. What is not here is skipped with a line that says so. Does not do:
//! rates (`ringway bench apps`).

mod daemons;
mod frameworks;

use rustix::process::Signal;

use crate::harness::*;
use crate::http::{assert_wrk, fetch, site};

/// Returns true if the programs are installed.
fn have(programs: &[&str]) -> bool {
    let is_here = |program: &&str| {
        let places = std::env::var_os("PATH").unwrap_or_default();
        let mut places = std::env::split_paths(&places).chain(["/usr/sbin".into(), POSTGRES.into()]);
        program.starts_with('/') && std::path::Path::new(program).exists() || places.any(|place| place.join(program).exists())
    };
    let missing: Vec<_> = programs.iter().filter(|program| !is_here(program)).collect();
    if !missing.is_empty() {
        eprintln!("skipped: {missing:?} is not here; `.ci/setup programs` installs it");
    }
    missing.is_empty()
}

const POSTGRES: &str = "/usr/lib/postgresql/15/bin";
/// Programs that give up their rights read these files and write beside them.
fn open_folder(net: &Net) -> String {
    let folder = net.path("");
    let mut place = folder.as_path();
    while let Some(parent) = place.parent().filter(|parent| *parent != std::path::Path::new("/tmp") && parent.parent().is_some())
    {
        net.output(Server, &["chmod", "a+rx", &text(place)]);
        place = parent;
    }
    net.output(Server, &["chmod", "1777", &text(&folder)]);
    text(&folder)
}

/// A wire with a site, and a service on the server's side.
struct House {
    net: Net,
    name: String,
    folder: String,
    digests: [String; 2],
    _service: Process,
}

impl House {
    fn new() -> House {
        let net = Net::new();
        let (service, name) = net.serve(Server, &[]);
        let digests = site(&net);
        let folder = open_folder(&net);
        net.output(Server, &["chmod", "-R", "a+rX", &format!("{folder}/www")]);
        House { net, name, folder, digests, _service: service }
    }

    /// Starts a program on Ringway; it serves the port.
    fn start(&self, port: u16, program: &[&str]) -> Process {
        let mut server = self.net.spawn(Server, &[&[RINGWAY, "run", "-q", "--name", &self.name, "--"], program].concat());
        self.net.wait_served(Server, port, &mut server);
        server
    }

    /// The site at the client's side, which a server on Ringway asks.
    fn upstream(&self) -> Process {
        let mut server = self.net.spawn(Client, &["nginx", "-c", &crate::http::nginx_config(&self.net, 8000)]);
        self.net.wait_listening(Client, 8000, &mut server);
        server
    }

    /// Large and small files come whole, over kept and short connections.
    fn serves_the_site(&self, port: u16) {
        let [large, small] = &self.digests;
        let url = self.net.url(port, "small.txt");
        assert_eq!(fetch(&self.net, Client, &[], &url), *small);
        for _ in 0..2 {
            assert_eq!(fetch(&self.net, Client, &[], &self.net.url(port, "large.bin")), *large);
        }
        assert_wrk(&self.net.output(Client, &["wrk", "-t1", "-c32", "-d2s", &url]));
        assert_wrk(&self.net.output(Client, &["wrk", "-t1", "-c16", "-d1s", "-H", "Connection: close", &url]));
    }

    fn ends(&self, server: Process, signal: Signal) {
        server.signal(signal);
        let ended = server.finish(DEADLINE);
        assert!(!ended.stderr.contains("ringway:"), "{}", ended.stderr);
    }
}

fn apache(module: &str) {
    if !have(&["apache2"]) {
        return;
    }
    let house = House::new();
    let folder = &house.folder;
    let config = house.net.file(
        "apache.conf",
        format!(
            "LoadModule mpm_module /usr/lib/apache2/modules/mod_mpm_{module}.so
            LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
            ServerRoot {folder}
            ServerName here
            Listen 80
            User www-data
            Group www-data
            PidFile {folder}/apache.pid
            DefaultRuntimeDir {folder}
            ErrorLog /dev/stderr
            DocumentRoot {folder}/www
            MaxKeepAliveRequests 0
            <Directory {folder}/www>
            Require all granted
            </Directory>
            "
        )
        .replace("mpm_module", &format!("mpm_{module}_module")),
    );
    let server = house.start(80, &["apache2", "-f", &config, "-DFOREGROUND"]);
    house.net.untouched(Server, || house.serves_the_site(80));
    house.ends(server, Signal::TERM);
}

#[test]
#[ignore = "part of `make test-all`"]
fn apache_with_threads_and_events() {
    apache("event");
}

#[test]
#[ignore = "part of `make test-all`"]
fn apache_with_a_process_for_each_connection() {
    apache("prefork");
}

/// What was sent, as a digest; and a small answer.
const APPLICATION: &str = "
import hashlib
def application(environ, respond):
    body = environ['wsgi.input'].read(int(environ.get('CONTENT_LENGTH') or 0))
    answer = hashlib.sha256(body).hexdigest().encode()
    respond('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', str(len(answer)))])
    return [answer]
";

fn python_server(program: &str, server: &[&str]) {
    if !have(&[program]) {
        return;
    }
    let house = House::new();
    house.net.file("app.py", APPLICATION);
    let server = house.start(80, server);
    let (url, file) = (house.net.url(80, ""), format!("@{}/www/large.bin", house.folder));
    house.net.untouched(Server, || {
        let sent = house.net.output(Client, &["curl", "-sS", "--fail", "--max-time", "50", "--data-binary", &file, &url]);
        assert_eq!(sent, house.digests[0]);
        if program == "uwsgi" {
            // It ends each connection without a word.
            let each: Vec<&str> = std::iter::repeat_n(["-o", "/dev/null", &url], 200).flatten().collect();
            house.net.output(Client, &[&["curl", "-sS", "--fail", "--max-time", "50"][..], &each].concat());
        } else {
            assert_wrk(&house.net.output(Client, &["wrk", "-t1", "-c16", "-d2s", &url]));
        }
    });
    house.ends(server, Signal::TERM);
}

#[test]
#[ignore = "part of `make test-all`"]
fn gunicorn_with_processes() {
    python_server("gunicorn", &["gunicorn", "-w", "3", "-b", "0.0.0.0:80", "app:application"]);
}

#[test]
#[ignore = "part of `make test-all`"]
fn gunicorn_with_threads() {
    python_server("gunicorn", &["gunicorn", "-w", "2", "-k", "gthread", "--threads", "8", "-b", "0.0.0.0:80", "app:application"]);
}

#[test]
#[ignore = "part of `make test-all`"]
fn uwsgi() {
    #[rustfmt::skip]
    python_server("uwsgi", &[
        "uwsgi", "--http-socket", "0.0.0.0:80", "--plugin", "python3", "--wsgi-file", "app.py", "--master", "--processes", "2",
        "--need-app", "--die-on-term", "--disable-logging", "--post-buffering", "65536",
    ]);
}

/// A new process takes over the listener while wrk loads the old one.
#[test]
#[ignore = "part of `make test-all`"]
fn haproxy_reloads_under_load() {
    if !have(&["haproxy"]) {
        return;
    }
    let house = House::new();
    let upstream = house.upstream();
    let config = house.net.file(
        "haproxy.cfg",
        format!(
            "global
                stats socket {}/haproxy.sock mode 600 level admin expose-fd listeners
            defaults
                mode http
                timeout connect 10s
                timeout client 30s
                timeout server 30s
            frontend front
                bind *:80
                default_backend back
            backend back
                server one {}:8000
",
            house.folder,
            house.net.address(Client)
        ),
    );
    let mut server = house.start(80, &["haproxy", "-W", "-db", "-f", &config]);
    // Its connects to a server that is full are given up, and the answers to their SYNs come to the kernel.
    house.serves_the_site(80);
    let url = house.net.url(80, "small.txt");
    let load = house.net.spawn(Client, &["wrk", "-t1", "-c8", "-d4s", "-H", "Connection: close", &url]);
    for reloads in 1..=3 {
        server.signal(Signal::USR2);
        // Its first process takes no other signal before.
        server.wait_for_error_lines("Former worker", reloads);
    }
    assert_wrk(&load.finish(DEADLINE).success().stdout);
    assert_eq!(fetch(&house.net, Client, &[], &house.net.url(80, "large.bin")), house.digests[0]);
    house.ends(server, Signal::TERM);
    drop(upstream);
}

#[test]
#[ignore = "part of `make test-all`"]
fn stunnel() {
    if !have(&["stunnel4", "openssl"]) {
        return;
    }
    let house = House::new();
    let upstream = house.upstream();
    let pem = format!("{}/own.pem", house.folder);
    #[rustfmt::skip]
    house.net.output(Server, &[
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=here", "-days", "2", "-keyout", &pem, "-out", &pem,
    ]);
    let to = house.net.address(Client);
    let config = house.net.file(
        "stunnel.conf",
        format!("foreground = yes\npid =\n[site]\naccept = 0.0.0.0:443\nconnect = {to}:8000\ncert = {pem}\n"),
    );
    let server = house.start(443, &["stunnel4", &config]);
    let got = text(&house.net.path("got"));
    house.net.untouched(Server, || {
        for (file, digest) in ["large.bin", "small.txt"].into_iter().zip(&house.digests) {
            let url = format!("https://{}:443/{file}", house.net.address(Server));
            house.net.output(Client, &["curl", "-sS", "-k", "--fail", "--max-time", "50", "-o", &got, &url]);
            assert_eq!(digest_of(&got).expect("curl has written it"), *digest);
        }
    });
    house.ends(server, Signal::TERM);
    drop(upstream);
}

#[test]
#[ignore = "part of `make test-all`"]
fn squid() {
    if !have(&["squid"]) {
        return;
    }
    let house = House::new();
    let upstream = house.upstream();
    let folder = &house.folder;
    let config = house.net.file(
        "squid.conf",
        format!(
            "http_port 3128\nhttp_access allow all\ncache deny all\nvisible_hostname here\npid_filename {folder}/squid.pid\n\
             access_log none\ncache_log {folder}/squid.log\ncoredump_dir {folder}\npinger_enable off\nshutdown_lifetime 1 seconds\n"
        ),
    );
    let server = house.start(3128, &["squid", "-N", "-f", &config]);
    let (got, proxy) = (text(&house.net.path("got")), format!("http://{}:3128", house.net.address(Server)));
    house.net.untouched(Server, || {
        for (file, digest) in ["large.bin", "small.txt"].into_iter().zip(&house.digests) {
            let url = format!("http://{}:8000/{file}", house.net.address(Client));
            house.net.output(Client, &["curl", "-sS", "-x", &proxy, "--fail", "--max-time", "50", "-o", &got, &url]);
            assert_eq!(digest_of(&got).expect("curl has written it"), *digest);
        }
    });
    house.ends(server, Signal::TERM);
    drop(upstream);
}

impl House {
    /// PostgreSQL with a database of pgbench's.
    fn postgres(&self) -> Process {
        let data = format!("{}/pg", self.folder);
        let user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"];
        let initdb = format!("{POSTGRES}/initdb");
        self.net.output(Server, &[&user[..], &[initdb.as_str(), "-D", &data, "-A", "trust", "-U", "postgres", "-N"]].concat());
        self.net.file("pg/pg_hba.conf", "local all all trust\nhost all all all trust\n");
        let (program, sockets) = (format!("{POSTGRES}/postgres"), format!("unix_socket_directories={}", self.folder));
        #[rustfmt::skip]
        let server = [&user[..], &[
            program.as_str(), "-D", &data, "-c", "listen_addresses=*", "-c", &sockets, "-c", "max_connections=500", "-c", "fsync=off",
        ]].concat();
        let server = self.start(5432, &server);
        let ready = ["pg_isready", "-q", "-h", &self.net.address(Server), "-U", "postgres"].map(str::to_owned);
        let ready: Vec<&str> = ready.iter().map(String::as_str).collect();
        wait_until("PostgreSQL is ready", DEADLINE, || self.net.run(Client, &ready).code() == 0);
        self.pgbench(5432, &["-i", "-q", "-s", "2"]);
        server
    }

    fn pgbench(&self, port: u16, arguments: &[&str]) -> String {
        let (port, address) = (port.to_string(), self.net.address(Server));
        let program = ["pgbench", "-h", &address, "-p", &port, "-U", "postgres"];
        self.net.output(Client, &[&program, arguments, &["postgres"]].concat())
    }
}

#[test]
#[ignore = "part of `make test-all`"]
fn postgresql_with_450_clients_and_a_connection_for_each_transaction() {
    if !have(&["initdb", "pgbench"]) {
        return;
    }
    let house = House::new();
    let server = house.postgres();
    house.net.untouched(Server, || {
        for load in
            [&["-c", "450", "-j", "2", "-t", "3", "-S"][..], &["-c", "10", "-C", "-t", "20", "-S"], &["-c", "10", "-t", "50"]]
        {
            let said = house.pgbench(5432, load);
            assert!(said.contains("number of failed transactions: 0"), "{load:?}: {said}");
        }
    });
    house.ends(server, Signal::INT);
}

#[test]
#[ignore = "part of `make test-all`"]
fn pgbouncer_in_front_of_postgresql() {
    if !have(&["initdb", "pgbench", "pgbouncer"]) {
        return;
    }
    let house = House::new();
    let server = house.postgres();
    let users = house.net.file("users.txt", "\"postgres\" \"\"\n");
    let config = house.net.file(
        "pgbouncer.ini",
        format!(
            "[databases]\n* = host=127.0.0.1 port=5432\n[pgbouncer]\nlisten_addr = 0.0.0.0\nlisten_port = 6432\nauth_type = any\n\
             auth_file = {users}\nuser = postgres\nmax_client_conn = 600\ndefault_pool_size = 20\npool_mode = transaction\nunix_socket_dir =\n"
        )
        .replace("* = host", "postgres = user=postgres host"),
    );
    let bouncer = house.start(6432, &["pgbouncer", &config]);
    for load in [&["-c", "100", "-j", "2", "-t", "5", "-S"][..], &["-c", "10", "-C", "-t", "20", "-S"]] {
        let said = house.pgbench(6432, load);
        assert!(said.contains("number of failed transactions: 0"), "{load:?}: {said}");
    }
    house.ends(bouncer, Signal::INT);
    house.ends(server, Signal::INT);
}

/// Sends and gets back a value of 1 MB, over many connections.
const MARIADB_CLIENT: &str = "
set -eu
for n in 1 2 3 4 5 6 7 8 9 10; do
    mariadb -h $1 -u root -N -e \"SELECT LENGTH(REPEAT('x', 1000000)), SHA2(REPEAT('$n', 1000000), 256)\" >got
    expected=$(head -c 1000000 /dev/zero | tr '\\0' \"$(echo $n | cut -c1)\" | sha256sum | cut -d' ' -f1)
    [ $n = 10 ] || [ \"$(cat got)\" = \"1000000\t$expected\" ]
done
mariadb -h $1 -u root -N -e \"SELECT REPEAT('abcdefgh', 250000)\" | tr -d '\\n' | sha256sum | cut -d' ' -f1
";

#[test]
#[ignore = "part of `make test-all`"]
fn mariadb() {
    if !have(&["mariadbd", "mariadb-install-db", "mariadb"]) {
        return;
    }
    let house = House::new();
    let data = format!("{}/my", house.folder);
    #[rustfmt::skip]
    house.net.output(Server, &[
        "mariadb-install-db", "--no-defaults", "--user=mysql", &format!("--datadir={data}"), "--auth-root-authentication-method=normal", "--skip-test-db",
    ]);
    let init = house.net.file("init.sql", "CREATE USER root@'%';\nGRANT ALL ON *.* TO root@'%';\n");
    #[rustfmt::skip]
    let server = house.start(3306, &[
        "mariadbd", "--no-defaults", "--user=mysql", &format!("--datadir={data}"), &format!("--socket={data}/s"), "--bind-address=0.0.0.0",
        "--skip-name-resolve", &format!("--init-file={init}"), "--max-allowed-packet=16M", &format!("--pid-file={data}/pid"),
    ]);
    let address = house.net.address(Server);
    let ask = ["mariadb", "-h", &address, "-u", "root", "-e", "SELECT 1"];
    wait_until("MariaDB is ready", DEADLINE, || house.net.run(Client, &ask).code() == 0);
    let said = house.net.untouched(Server, || house.net.output(Client, &["sh", "-c", MARIADB_CLIENT, "client", &address]));
    assert_eq!(said.trim(), digest("abcdefgh".repeat(250_000).as_bytes()));
    if have(&["sysbench"]) {
        house.net.output(Client, &["mariadb", "-h", &address, "-u", "root", "-e", "CREATE DATABASE sbtest"]);
        let host = format!("--mysql-host={address}");
        let common =
            ["sysbench", "oltp_read_write", "--db-driver=mysql", &host, "--mysql-user=root", "--tables=2", "--table-size=1000"];
        house.net.output(Client, &[&common[..], &["prepare"]].concat());
        let load = ["--threads=8", "--time=0", "--events=400", "run"];
        let said = house.net.untouched(Server, || house.net.output(Client, &[&common[..], &load].concat()));
        assert!(said.contains("total number of events:              400"), "{said}");
    }
    house.ends(server, Signal::TERM);
}

/// 50 logins, each with a message that goes and comes back.
const IMAP_CLIENT: &str = "
import imaplib, sys
for n in range(50):
    box = imaplib.IMAP4(sys.argv[1], 143)
    box.login(f'user{n % 5}', 'secret')
    message = f'Subject: {n}\\r\\n\\r\\n'.encode() + b'0123456789abcdef\\r\\n' * (n * 400)
    assert box.append('INBOX', None, None, message)[0] == 'OK'
    box.select('INBOX')
    numbers = box.search(None, 'ALL')[1][0].split()
    assert box.fetch(numbers[-1], '(RFC822)')[1][0][1] == message
    box.logout()
print('whole')
";

/// Its login process passes each connection on to another one, which knows it by its inode.
#[test]
#[ignore = "part of `make test-all`"]
fn dovecot() {
    if !have(&["dovecot"]) {
        return;
    }
    let house = House::new();
    let folder = &house.folder;
    let config = house.net.file(
        "dovecot.conf",
        format!(
            "protocols = imap\nlisten = *\nbase_dir = {folder}/dovecot\nstate_dir = {folder}/dovecot-state\nlog_path = {folder}/dovecot.log\nssl = no\n\
             disable_plaintext_auth = no\nmail_location = maildir:{folder}/mail/%u\nfirst_valid_uid = 1\n\
             passdb {{\n driver = static\n args = password=secret\n}}\n\
             userdb {{\n driver = static\n args = uid=mail gid=mail home={folder}/mail/%u\n}}\n\
             service imap-login {{\n inet_listener imaps {{\n port = 0\n }}\n}}\n"
        ),
    );
    let server = house.start(143, &["dovecot", "-F", "-c", &config]);
    let said =
        house.net.untouched(Server, || house.net.output(Client, &["python3", "-c", IMAP_CLIENT, &house.net.address(Server)]));
    assert_eq!(said, "whole\n");
    house.ends(server, Signal::TERM);
}

/// The first process accepts and passes connections on (`rr`), or each process accepts by itself (`none`).
const CLUSTER: &str = "
const cluster = require('cluster'), http = require('http');
cluster.schedulingPolicy = process.argv[2] === 'rr' ? cluster.SCHED_RR : cluster.SCHED_NONE;
if (cluster.isPrimary) { for (let n = 0; n < 3; n++) cluster.fork(); }
else http.createServer((request, response) => {
    let count = 0;
    request.on('data', piece => { count += piece.length; });
    request.on('end', () => response.end('' + count));
}).listen(80);
";

fn node_cluster(policy: &str) {
    if !have(&["node"]) {
        return;
    }
    let house = House::new();
    let script = house.net.file("cluster.js", CLUSTER);
    let server = house.start(80, &["node", &script, policy]);
    let (url, file) = (house.net.url(80, ""), format!("@{}/www/large.bin", house.folder));
    house.net.untouched(Server, || {
        assert_eq!(house.net.output(Client, &["curl", "-sS", "--fail", "--data-binary", &file, &url]), LARGE.to_string());
        assert_wrk(&house.net.output(Client, &["wrk", "-t1", "-c32", "-d2s", &url]));
        assert_wrk(&house.net.output(Client, &["wrk", "-t1", "-c16", "-d2s", "-H", "Connection: close", &url]));
    });
    house.ends(server, Signal::TERM);
}

#[test]
#[ignore = "part of `make test-all`"]
fn node_passes_connections_on() {
    node_cluster("rr");
}

#[test]
#[ignore = "part of `make test-all`"]
fn node_shares_its_listener() {
    node_cluster("none");
}
