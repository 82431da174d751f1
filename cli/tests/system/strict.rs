//! `ringway run -e strict`: nothing that would be the kernel's runs, or connects.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::*;

/// Starts a program in every way that libc has, and prints how each ended.
const STARTER: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static char *path, *name;
static void way(int which) {
    char *const arguments[] = { path, NULL };
    switch (which) {
    case 0: execve(path, arguments, environ); break;
    case 1: execv(path, arguments); break;
    case 2: execvp(name, arguments); break;
    case 3: execvpe(name, arguments, environ); break;
    case 4: execl(path, path, (char *)NULL); break;
    case 5: execlp(name, path, (char *)NULL); break;
    case 6: fexecve(open(path, O_RDONLY), arguments, environ); break;
    case 7: execveat(AT_FDCWD, path, arguments, environ, 0); break;
    case 8: syscall(SYS_execve, path, arguments, environ); break;
    case 9: case 10: {
        pid_t child; int status;
        errno = which == 9 ? posix_spawn(&child, path, NULL, NULL, arguments, environ)
                           : posix_spawnp(&child, name, NULL, NULL, arguments, environ);
        if (errno == 0) { waitpid(child, &status, 0); _exit(WEXITSTATUS(status)); }
    } }
    _exit(errno);
}
int main(int count, char **words) {
    path = words[1]; name = words[2];
    for (int which = 0; which < 11; which++) {
        int status;
        pid_t child = which % 2 ? vfork() : fork();
        if (child == 0) way(which);
        waitpid(child, &status, 0);
        printf("%d ", WEXITSTATUS(status));
    }
    printf("\n");
    return 0;
}"#;

/// ENETDOWN, as often as STARTER tries.
const REFUSED: &str = "100 100 100 100 100 100 100 100 100 100 100 \n";
const STARTED: &str = "3 3 3 3 3 3 3 3 3 3 3 \n";

/// `ringway run -q -e strict -- …`
fn strict<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&[RINGWAY, "run", "-q", "-e", "strict", "--"], arguments].concat()
}

/// Compiles a C program; its path.
fn compiled(net: &Net, name: &str, source: &str, options: &[&str]) -> String {
    let file = net.file(&format!("{name}.c"), source);
    let program = text(&net.path(name));
    net.output(Server, &[&["cc", "-o", &program, &file], options].concat());
    program
}

#[test]
fn a_static_child_is_not_started_whatever_starts_it() {
    let net = Net::new();
    let starter = compiled(&net, "starter", STARTER, &[]);
    compiled(&net, "static", "int main(void) { return 3; }\n", &["-static"]);
    compiled(&net, "dynamic", "int main(void) { return 3; }\n", &[]);
    let folder = text(net.path("static").parent().expect("it lies in a folder"));
    let path = format!("PATH={folder}:/usr/bin:/bin");
    let try_all = |program: &str| net.output(Server, &strict(&["env", &path, &starter, &format!("{folder}/{program}"), program]));
    assert_eq!(try_all("static"), REFUSED);
    assert_eq!(try_all("dynamic"), STARTED);
    net.file("script", format!("#!{folder}/static\n"));
    net.output(Server, &["chmod", "+x", &format!("{folder}/script")]);
    assert_eq!(try_all("script"), REFUSED);
    let loose = [RINGWAY, "run", "-q", "--", "env", &path, &starter, &format!("{folder}/static"), "static"];
    assert_eq!(net.output(Server, &loose), STARTED);
    let shell = net.run(Server, &strict(&["sh", "-c", &format!("{folder}/static; echo $?")]));
    assert_eq!(shell.stdout, "126\n", "{}", shell.stderr);
}

/// Without strict it runs, and a line says once what it is, however often it is started.
#[test]
fn a_static_child_is_named_once() {
    let net = Net::new();
    let program = compiled(&net, "static", "int main(void) { return 3; }\n", &["-static"]);
    let script = format!("for i in 1 2 3 4 5; do {program}; done; {program} & wait; true");
    let loud = net.run(Server, &ringway(&["sh", "-c", &script])).success();
    assert_eq!(loud.stderr.matches("not accelerated").count(), 1, "{}", loud.stderr);
    let quiet = net.run(Server, &[RINGWAY, "run", "-q", "--", "sh", "-c", &script]).success();
    assert_eq!(quiet.stderr, "");
}

/// setuid of another user: the dynamic linker ignores LD_PRELOAD there.
#[test]
fn a_child_that_gains_rights_is_not_started() {
    let net = Net::new();
    let starter = compiled(&net, "starter", STARTER, &[]);
    let program = compiled(&net, "other", "int main(void) { return 3; }\n", &[]);
    net.output(Server, &["chown", "65534", &program]);
    net.output(Server, &["chmod", "4755", &program]);
    let folder = text(net.path("other").parent().expect("it lies in a folder"));
    let path = format!("PATH={folder}:/usr/bin:/bin");
    assert_eq!(net.output(Server, &strict(&["env", &path, &starter, &program, "other"])), REFUSED);
}

/// Connects, sends and listens until it is told that there is no network; then says what it was told.
const TRYING: &str = "
import errno, socket, sys, time
print('ready', flush=True)
last = {}
until = time.monotonic() + 20
while time.monotonic() < until and len(last) < 3:
    for kind, way in (('tcp', socket.SOCK_STREAM), ('udp', socket.SOCK_DGRAM), ('listen', socket.SOCK_STREAM)):
        s = socket.socket(socket.AF_INET, way); s.settimeout(5)
        try:
            if kind == 'listen': s.bind(('0.0.0.0', 0)); s.listen(1)
            elif kind == 'udp': s.sendto(b'x', (sys.argv[1], 4000))
            else: s.connect((sys.argv[1], 4000))
        except OSError as error:
            if error.errno == errno.ENETDOWN: last[kind] = 1
        s.close()
print(sorted(last), flush=True)";

/// Accepts and closes.
const TAKER: &str = "
import socket
s = socket.create_server(('0.0.0.0', 4000), backlog=200)
while True: s.accept()[0].close()";

#[test]
fn the_death_of_the_service_leaves_a_strict_program_no_kernel_connection() {
    let net = Net::new();
    let mut taker = net.spawn(Client, &["python3", "-c", TAKER]);
    net.wait_listening(Client, 4000, &mut taker);
    let opens = || (net.kernel_counter(Server, "Tcp", "ActiveOpens"), net.kernel_counter(Server, "Udp", "OutDatagrams"));
    let before = opens();
    for round in 0..12_u64 {
        let (mut service, name) = net.serve(Server, &[]);
        let address = net.address(Client);
        let run = [RINGWAY, "run", "-q", "-e", "strict", "--name", &name, "--", "python3", "-c", TRYING, &address];
        let mut program = net.spawn(Server, &run);
        net.wait_printed(&mut program, "ready");
        // At another moment of the first attach and connects each time.
        std::thread::sleep(Duration::from_micros(round * 3_700 % 40_000));
        service.signal(Signal::KILL);
        wait_until("the service ends", DEADLINE, || service.poll().is_some());
        let ended = program.finish(DEADLINE).success();
        assert_eq!(ended.stdout, "ready\n['listen', 'tcp', 'udp']\n", "round {round}: {}", ended.stderr);
    }
    assert_eq!(opens(), before, "the kernel of the strict programs opened connections or sent datagrams");
}

#[test]
fn loopback_and_own_addresses_stay_the_kernels_in_strict_mode() {
    let net = Net::new();
    let script = "
import socket, sys
s = socket.create_server(('0.0.0.0', 7000))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('0.0.0.0', 7000))
for host in ('127.0.0.1', sys.argv[1]):
    c = socket.create_connection((host, 7000)); s.accept()[0].sendall(b'hello'); print(c.recv(100).decode())
    d = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); d.sendto(b'datagram', (host, 7000)); print(u.recv(100).decode())";
    let address = net.address(Server);
    let said = net.output(Server, &strict(&["python3", "-c", script, &address]));
    assert_eq!(said, "hello\ndatagram\nhello\ndatagram\n");
}

/// A user outside the service's group is told so before the program runs.
#[test]
fn a_service_that_refuses_is_125_before_the_program_runs() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let other_user = ["setpriv", "--reuid", "65534", "--clear-groups", RINGWAY, "run", "-e", "strict", "--name", &name];
    let refused = net.run(Server, &[&other_user[..], &["--", "echo", "ran"]].concat());
    assert_eq!((refused.code(), refused.stdout.as_str()), (125, ""), "{}", refused.stderr);
    let loose = ["setpriv", "--reuid", "65534", "--clear-groups", RINGWAY, "run", "--name", &name, "--", "echo", "ran"];
    let told = net.run(Server, &loose).success();
    assert!(told.stderr.contains("not accelerated"), "{}", told.stderr);
}

#[test]
fn what_a_running_service_does_not_follow_is_refused_or_named() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let config = net.file("own.toml", "");
    let refused = net.run(Server, &[RINGWAY, "run", "--config", &config, "--name", &name, "--", "true"]);
    assert_eq!(refused.code(), 125, "{}", refused.stderr);
    assert!(refused.stderr.contains("--config"), "{}", refused.stderr);
    let run = [RINGWAY, "run", "--name", &name, "--", "true"];
    let named = net.spawn_with(Server, &run, &[("RINGWAY_LIMITS_GROUPS", "5")], None).finish(DEADLINE).success();
    assert!(named.stderr.contains("RINGWAY_LIMITS_GROUPS has no effect"), "{}", named.stderr);
}
