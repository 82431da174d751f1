//! The C API: the examples of `capi`, compiled with the system's compiler, against the kernel's stack and each other.

use crate::harness::*;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const PORT: &str = "5700";
/// While the major number is 0, each minor number is an interface of its own.
const SONAME: &str = concat!("libringway.so.", env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));

/// A C library of ours: its crate, and the name that `-l` takes.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    pub(crate) room: &'static str,
    pub(crate) name: &'static str,
}

const RINGWAY_C: Library = Library { room: "capi", name: "ringway" };

impl Library {
    /// The library beside the `ringway` command.
    fn file(self) -> PathBuf {
        Path::new(RINGWAY).with_file_name(format!("lib{}.so", self.name))
    }

    /// The name by which a program asks for it.
    fn soname(self) -> String {
        let dynamic = output("readelf", &["-d", &text(&self.file())]);
        let line = dynamic.lines().find(|line| line.contains("SONAME")).expect("the library has a soname");
        line.split(['[', ']']).nth(1).expect("readelf puts it in brackets").to_owned()
    }

    /// Compiles an example of its crate against it.
    pub(crate) fn compile(self, net: &Net, example: &str, libraries_beside: &[&str]) -> String {
        let room = self.folder();
        let program = net.path(example);
        let libraries = program.parent().expect("the network has a folder");
        for link in [format!("lib{}.so", self.name), self.soname()] {
            if !libraries.join(&link).exists() {
                symlink(self.file(), libraries.join(link)).expect("the folder is the network's own");
            }
        }
        let source = |language| room.join(format!("examples/{example}.{language}"));
        let (compiler, standard, source) = match source("cpp") {
            source if source.exists() => ("c++", "-std=c++11", source),
            _ => ("cc", "-std=c11", source("c")),
        };
        let compiled = Command::new(compiler)
            .args([standard, "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O2"])
            .arg("-I")
            .arg(room.join("include"))
            .arg("-o")
            .args([&program, &source])
            .arg("-L")
            .arg(libraries)
            .arg(format!("-l{}", self.name))
            .args(libraries_beside)
            .arg(format!("-Wl,-rpath,{}", libraries.display()))
            .status()
            .expect("a compiler");
        assert!(compiled.success(), "{example}");
        text(&program)
    }

    fn folder(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(self.room)
    }

    /// Its headers declare what it exports, at least so many functions; a C++ compiler takes them, and some example calls each function.
    pub(crate) fn assert_described(self, headers: &[&str], least: usize) {
        let mut declared = String::new();
        for header in headers {
            let header = self.folder().join("include").join(header);
            declared += &std::fs::read_to_string(&header).expect("the header");
            output("c++", &["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", &text(&header)]);
        }
        let examples = std::fs::read_dir(self.folder().join("examples")).expect("it has examples");
        let used: String =
            examples.map(|file| std::fs::read_to_string(file.expect("it can be listed").path()).expect("it is text")).collect();
        let exported = self.exported();
        assert!(exported.len() >= least, "{exported:?}");
        for name in exported {
            assert!(declared.contains(&format!("{name}(")), "no header has {name}");
            assert!(used.contains(&format!("{name}(")), "no example calls {name}");
        }
    }

    /// The functions that it exports.
    pub(crate) fn exported(self) -> Vec<String> {
        let symbols = output("nm", &["-D", "--defined-only", &text(&self.file())]);
        symbols.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect()
    }
}

fn output(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("plain text")
}

/// Both ends on the C API, each on its side's service; then the kernel's socat asks over TCP and UDP.
#[test]
fn examples_echo_and_ask() {
    let net = Net::new();
    let (echo, ask) = (RINGWAY_C.compile(&net, "echo", &[]), RINGWAY_C.compile(&net, "ask", &[]));
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
    let (uv, ask) = (RINGWAY_C.compile(&net, "uv", &["-luv"]), RINGWAY_C.compile(&net, "ask", &[]));
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

/// The header's functions are those that the library exports, and a C++ compiler takes the header too.
#[test]
fn the_library_is_what_the_header_says() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate stands in the workspace");
    let header = header.join("capi/include/ringway.h");
    let declared = std::fs::read_to_string(&header).expect("the header");
    let exported = RINGWAY_C.exported();
    assert!(exported.iter().any(|name| name == "ringway_attach"), "{exported:?}");
    for name in &exported {
        assert!(declared.contains(&format!("{name}(")), "the header lacks {name}");
    }
    for word in declared.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '(') {
        let function = word.strip_suffix("(void").or(word.split_once('(').map(|(name, _)| name));
        if let Some(name) = function.filter(|name| name.starts_with("ringway_")) {
            assert!(exported.iter().any(|known| known == name), "the library lacks {name}");
        }
    }
    output("c++", &["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", &text(&header)]);
    assert_eq!(RINGWAY_C.soname(), SONAME);
}

/// `make install` gives a program all that it needs to be compiled with pkg-config and started.
#[test]
fn an_installed_library_is_found_by_pkg_config() {
    let net = Net::new();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate stands in the workspace");
    let (root, program) = (net.path("root"), net.path("asks"));
    let release = Path::new(RINGWAY).parent().expect("the command stands in a folder");
    let folders = [format!("DESTDIR={}", root.display()), format!("RELEASE={}", release.display())];
    output("make", &["-s", "-C", &text(top), "install-files", "PREFIX=/usr", &folders[0], &folders[1]]);
    let library = format!("lib/{SONAME}");
    for file in ["bin/ringway", "lib/ringway/libringway_preload.so", &library, "share/man/man3/ringway.3"] {
        assert!(root.join("usr").join(file).exists(), "{file}");
    }
    for (package, source) in
        [("libmtcp", "mtcp/examples/fetch.c"), ("libfstack", "fstack/examples/echo.c"), ("ringway", "capi/examples/ask.c")]
    {
        let asked = Command::new("pkg-config")
            .args(["--cflags", "--libs", package])
            .env("PKG_CONFIG_SYSROOT_DIR", &root)
            .env("PKG_CONFIG_LIBDIR", root.join("usr/lib/pkgconfig"))
            .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
            .env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1")
            .output()
            .expect("pkg-config");
        let flags = String::from_utf8(asked.stdout).expect("plain text");
        let compiled = Command::new("cc")
            .args(["-D_GNU_SOURCE", "-o", &text(&program), &text(&top.join(source))])
            .args(flags.split_whitespace())
            .status()
            .expect("a C compiler");
        assert!(compiled.success(), "{package}: {flags}");
    }
    let started = Command::new(&program).env("LD_LIBRARY_PATH", root.join("usr/lib")).output().expect("it starts");
    assert!(String::from_utf8_lossy(&started.stderr).contains("usage: ask"), "{started:?}");
}
