//! The C API: the examples of `capi`, compiled with the system's compiler, against the kernel's stack and each other.

use crate::harness::*;
use std::path::Path;
use std::process::Command;

const PORT: &str = "5700";

/// Compiles an example against the library that stands beside the `ringway` command.
fn compile(net: &Net, name: &str, libraries_beside: &[&str]) -> String {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate stands in the workspace");
    let libraries = Path::new(RINGWAY).parent().expect("the command stands in a folder");
    let program = net.path(name);
    let compiled = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O2"])
        .arg("-I")
        .arg(top.join("capi/include"))
        .arg("-o")
        .args([&program, &top.join(format!("capi/examples/{name}.c"))])
        .arg("-L")
        .arg(libraries)
        .arg("-lringway")
        .args(libraries_beside)
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .status()
        .expect("a C compiler");
    assert!(compiled.success(), "{name}.c");
    text(&program)
}

/// Both ends on the C API, each on its side's service; then the kernel's socat asks over TCP and UDP.
#[test]
fn examples_echo_and_ask() {
    let net = Net::new();
    let (echo, ask) = (compile(&net, "echo", &[]), compile(&net, "ask", &[]));
    let address = net.address(Server);
    let mut serving = net.spawn(Server, &[RINGWAY, "run", "-q", "--", &echo, PORT]);
    net.wait_printed(&mut serving, "ready");
    let asked =
        net.untouched(Server, || net.untouched(Client, || net.run(Client, &[RINGWAY, "run", "-q", "--", &ask, &address, PORT])));
    assert!(asked.status.success(), "{}\n{}", asked.stdout, asked.stderr);
    assert_eq!(asked.stdout, "every byte came back\n");
    for protocol in ["TCP", "UDP"] {
        let command = format!("printf 'over {protocol}' | socat -t 1 - {protocol}:{address}:{PORT}");
        let answer = net.run(Client, &["sh", "-c", &command]);
        assert_eq!(answer.stdout, format!("over {protocol}"), "{}", answer.stderr);
    }
}

/// A poller's descriptor in a loop of libuv: fifty connections of the kernel, and one of our own client.
#[test]
fn a_poller_works_in_a_loop_of_libuv() {
    let net = Net::new();
    let (uv, ask) = (compile(&net, "uv", &["-luv"]), compile(&net, "ask", &[]));
    let address = net.address(Server);
    let mut serving = net.spawn(Server, &[RINGWAY, "run", "-q", "--", &uv, PORT]);
    net.wait_printed(&mut serving, "ready");
    let asked = net.run(Client, &[RINGWAY, "run", "-q", "--", &ask, &address, PORT]);
    assert!(asked.stdout.contains("every byte came back"), "{}\n{}", asked.stdout, asked.stderr);
    let command = format!("for n in $(seq 50); do printf \"number $n\" | socat -t 2 - TCP:{address}:{PORT}; echo; done");
    let answers = net.untouched(Server, || net.run(Client, &["sh", "-c", &command]));
    let expected: String = (1..=50).map(|n| format!("number {n}\n")).collect();
    assert_eq!(answers.stdout, expected, "{}", answers.stderr);
}
