//! One address, two stacks: the kernel's services beside Ringway's.

use rustix::process::Signal;

use crate::harness::*;
use crate::http::{assert_wrk, nginx_config, site};
use crate::ssh;

/// A kernel HTTP server on port 8080 of the server's side.
fn kernel_service(net: &Net) -> Process {
    let folder = text(&net.path("www"));
    let mut server = net.spawn(Server, &["python3", "-m", "http.server", "-b", "0.0.0.0", "-d", &folder, "8080"]);
    net.wait_listening(Server, 8080, &mut server);
    server
}

#[test]
fn ping_ssh_and_kernel_services_answer_during_load() {
    let net = Net::new();
    let [large, small] = site(&net);
    let _sshd = ssh::start_on_kernel(&net);
    let _kernel = kernel_service(&net);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let load = net.spawn(Client, &["wrk", "-t1", "-c32", "-d8s", &net.url(80, "small.txt")]);
    let ping = net.output(Client, &["ping", "-c", "10", "-i", "0.1", "-W", "2", &net.address(Server)]);
    assert!(ping.contains(" 0% packet loss"), "{ping}");
    assert_eq!(ssh::login(&net, &[], "echo still here"), "still here\n");
    let got = text(&net.path("got"));
    for (file, expected) in [("small.txt", &small), ("large.bin", &large)] {
        net.output(Client, &["curl", "-sS", "--fail", "-o", &got, &net.url(8080, file)]);
        assert_eq!(&digest_of(&got).expect("curl has written it"), expected);
    }
    assert_wrk(&load.finish(DEADLINE).success().stdout);
}

/// Binds and listens on the port; prints the outcome; waits for its end when it has the port.
const BINDER: &str = "
import errno, signal, socket, sys
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try: s.bind(('0.0.0.0', int(sys.argv[1]))); s.listen()
except OSError as error: print(errno.errorcode[error.errno], flush=True); sys.exit(0)
print('listening', flush=True)
signal.pause()";

#[test]
fn ports_conflict_in_both_directions() {
    let net = Net::new();
    let mut ours = net.spawn_ringway(Server, &["python3", "-c", BINDER, "4000"]);
    net.wait_served(Server, 4000, &mut ours);
    assert_eq!(net.output(Server, &["python3", "-c", BINDER, "4000"]), "EADDRINUSE\n");
    let mut kernel = net.spawn(Server, &["python3", "-c", BINDER, "4001"]);
    net.wait_listening(Server, 4001, &mut kernel);
    assert_eq!(net.output_ringway(Server, &["python3", "-c", BINDER, "4001"]), "EADDRINUSE\n");
}

#[test]
fn two_applications_of_one_service_conflict_too() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let run = [RINGWAY, "run", "-q", "--name", &name, "--", "python3", "-c", BINDER, "4002"];
    let mut first = net.spawn(Server, &run);
    net.wait_served(Server, 4002, &mut first);
    assert_eq!(net.output(Server, &run), "EADDRINUSE\n");
}

#[test]
fn the_port_is_the_kernels_again_after_the_end() {
    let net = Net::new();
    let [_, small] = site(&net);
    for signal in [Signal::TERM, Signal::KILL] {
        let (service, name) = net.serve(Server, &[]);
        let config = nginx_config(&net, 80);
        let mut nginx = net.spawn(Server, &[RINGWAY, "run", "-q", "--name", &name, "--", "nginx", "-c", &config]);
        net.wait_served(Server, 80, &mut nginx);
        service.signal(signal);
        service.finish(DEADLINE);
        nginx.signal(Signal::QUIT);
        nginx.finish(DEADLINE);
        let mut kernel = net.spawn(Server, &["nginx", "-c", &config]);
        net.wait_listening(Server, 80, &mut kernel);
        let got = text(&net.path("got"));
        net.output(Client, &["curl", "-sS", "--fail", "--max-time", "10", "-o", &got, &net.url(80, "small.txt")]);
        assert_eq!(digest_of(&got).expect("curl has written it"), small, "after {signal:?}");
        let link = net.output(Server, &["ip", "-d", "link", "show", INTERFACE]);
        assert!(!link.contains("xdp") && link.contains("state UP"), "{link}");
        kernel.signal(Signal::QUIT);
        kernel.finish(DEADLINE);
    }
}
