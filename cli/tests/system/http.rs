//! nginx, `python3 -m http.server`, curl and wrk.

use crate::harness::*;

/// nginx with a master and two workers, keep-alive and sendfile; the workers run as root, as the folder is ours.
pub(crate) fn nginx_config(net: &Net, port: u16) -> String {
    let folder = text(&net.path(""));
    net.file(
        "nginx.conf",
        format!(
            "user root; worker_processes 2; daemon off; pid {folder}nginx.pid; error_log stderr notice;
            events {{ worker_connections 1024; }}
            http {{
                access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;
                client_body_temp_path {folder}body; proxy_temp_path {folder}proxy; fastcgi_temp_path {folder}fastcgi;
                uwsgi_temp_path {folder}uwsgi; scgi_temp_path {folder}scgi; client_max_body_size 64m;
                server {{ listen {port}; root {folder}www; }}
            }}"
        ),
    )
}

/// Files to serve: digests of `large.bin` and `small.txt`.
pub(crate) fn site(net: &Net) -> [String; 2] {
    let (large, small) = (noise(1, LARGE), noise(2, 612));
    net.file("www/large.bin", &large);
    net.file("www/small.txt", &small);
    [digest(&large), digest(&small)]
}

/// Fetches with curl from `side` and returns the digest of what came.
pub(crate) fn fetch(net: &Net, side: Side, launcher: &[&str], url: &str) -> String {
    let got = text(&net.path("got"));
    net.output(side, &[launcher, &["curl", "-sS", "--fail", "--max-time", "50", "-o", &got, url]].concat());
    digest_of(&got).expect("curl has written the file")
}

const ON_KERNEL: &[&str] = &[];
const ON_RINGWAY: &[&str] = &[RINGWAY, "run", "-q", "--"];

#[test]
fn nginx_serves_kernel_clients() {
    let net = Net::new();
    let [large, small] = site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    net.untouched(Server, || {
        assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "small.txt")), small);
        for _ in 0..3 {
            assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large);
        }
    });
    nginx.signal(rustix::process::Signal::QUIT);
    nginx.finish(DEADLINE).success();
}

#[test]
fn nginx_keeps_connections_alive() {
    let net = Net::new();
    site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let url = net.url(80, "small.txt");
    let connects = net.untouched(Server, || {
        net.output(
            Client,
            &[
                "curl",
                "-sS",
                "-w",
                " %{num_connects}\n",
                "-Z",
                "--parallel-max",
                "1",
                "-o",
                "/dev/null",
                &url,
                "-o",
                "/dev/null",
                &url,
                "-o",
                "/dev/null",
                &url,
            ],
        )
    });
    let total: u32 = connects.split_whitespace().map(|word| word.parse::<u32>().expect("curl prints numbers")).sum();
    assert_eq!(total, 1, "three requests, one connection: {connects:?}");
}

#[test]
fn nginx_holds_under_wrk() {
    let net = Net::new();
    site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let url = net.url(80, "small.txt");
    let report = net.untouched(Server, || net.output(Client, &["wrk", "-t1", "-c64", "-d3s", "--latency", &url]));
    assert_wrk(&report);
}

/// wrk counted requests and no error.
pub(crate) fn assert_wrk(report: &str) {
    let rate = report.lines().find_map(|line| line.strip_prefix("Requests/sec:")).expect("wrk prints a rate");
    assert!(rate.trim().parse::<f64>().expect("wrk prints a number") > 100.0, "{report}");
    assert!(!report.contains("Socket errors") && !report.contains("Non-2xx"), "{report}");
}

#[test]
fn nginx_takes_short_connections() {
    let net = Net::new();
    site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let url = net.url(80, "small.txt");
    let report = net.untouched(Server, || net.output(Client, &["wrk", "-t1", "-c16", "-d2s", "-H", "Connection: close", &url]));
    let rate = report.lines().find_map(|line| line.strip_prefix("Requests/sec:")).expect("wrk prints a rate");
    assert!(rate.trim().parse::<f64>().expect("wrk prints a number") > 100.0, "{report}");
    assert!(!report.contains("Non-2xx"), "{report}");
    let errors = report.lines().find_map(|line| line.trim().strip_prefix("Socket errors:"));
    assert!(errors.is_none(), "{report}");
}

/// Four clients take 100 MB each at the same time, several times in a row: nothing stalls, no byte is wrong.
#[test]
fn nginx_serves_four_large_downloads_at_once() {
    let net = Net::new();
    let huge = noise(7, 100_000_000);
    net.file("www/huge.bin", &huge);
    let expected = digest(&huge);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let url = net.url(80, "huge.bin");
    net.untouched(Server, || {
        for _ in 0..2 {
            let paths: Vec<String> = (0..4).map(|number| text(&net.path(&format!("got{number}")))).collect();
            let fetch = |path: &String| net.spawn(Client, &["curl", "-sS", "--fail", "--max-time", "50", "-o", path, &url]);
            let downloads: Vec<Process> = paths.iter().map(fetch).collect();
            for (download, path) in downloads.into_iter().zip(&paths) {
                download.finish(DEADLINE).success();
                assert_eq!(digest_of(path).expect("curl has written the file"), expected);
            }
        }
    });
}

#[test]
fn python_serves_kernel_clients() {
    let net = Net::new();
    let [large, small] = site(&net);
    let folder = text(&net.path("www"));
    let mut server = net.spawn_ringway(Server, &["python3", "-m", "http.server", "-d", &folder, "8000"]);
    net.wait_served(Server, 8000, &mut server);
    net.untouched(Server, || {
        assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(8000, "small.txt")), small);
        assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(8000, "large.bin")), large);
    });
}

#[test]
fn curl_fetches_from_a_kernel_server() {
    let net = Net::new();
    let [large, small] = site(&net);
    let mut nginx = net.spawn(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_listening(Server, 80, &mut nginx);
    net.untouched(Client, || {
        assert_eq!(fetch(&net, Client, ON_RINGWAY, &net.url(80, "small.txt")), small);
        assert_eq!(fetch(&net, Client, ON_RINGWAY, &net.url(80, "large.bin")), large);
    });
}

#[test]
fn curl_uploads_to_a_kernel_server() {
    let net = Net::new();
    let content = noise(3, LARGE);
    let upload = net.file("upload", &content);
    let got = text(&net.path("received"));
    let mut server = net.spawn(Server, &["python3", "-c", RECEIVER, "8000", &got]);
    net.wait_listening(Server, 8000, &mut server);
    net.untouched(Client, || net.output_ringway(Client, &["curl", "-sS", "-T", &upload, &net.url(8000, "upload")]));
    assert_eq!(digest_of(&got).expect("the server has written the file"), digest(&content));
}

#[test]
fn curl_uploads_to_ringway() {
    let net = Net::new();
    let content = noise(4, LARGE);
    let upload = net.file("upload", &content);
    let got = text(&net.path("received"));
    let mut server = net.spawn_ringway(Server, &["python3", "-c", RECEIVER, "8000", &got]);
    net.wait_served(Server, 8000, &mut server);
    net.untouched(Server, || net.output(Client, &["curl", "-sS", "-T", &upload, &net.url(8000, "upload")]));
    assert_eq!(digest_of(&got).expect("the server has written the file"), digest(&content));
}

/// Takes one PUT and writes its body to a file.
const RECEIVER: &str = "
import sys, http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_PUT(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        open(sys.argv[2], 'wb').write(body)
        self.send_response(201); self.send_header('Content-Length', '0'); self.end_headers()
http.server.ThreadingHTTPServer(('', int(sys.argv[1])), Handler).serve_forever()";

#[test]
fn wrk_loads_a_kernel_server() {
    let net = Net::new();
    site(&net);
    let mut nginx = net.spawn(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_listening(Server, 80, &mut nginx);
    let url = net.url(80, "small.txt");
    assert_wrk(&net.untouched(Client, || net.output_ringway(Client, &["wrk", "-t2", "-c32", "-d3s", &url])));
}

#[test]
fn ringway_talks_to_ringway() {
    let net = Net::new();
    let [large, _] = site(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    net.untouched(Server, || {
        net.untouched(Client, || assert_eq!(fetch(&net, Client, ON_RINGWAY, &net.url(80, "large.bin")), large));
    });
}
