//! Gives the library its soname, so that a program finds the version that it was linked with. While the major number is 0,
//! each minor number is an interface of its own.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = |part| std::env::var(format!("CARGO_PKG_VERSION_{part}")).expect("cargo sets it");
    let (major, minor) = (version("MAJOR"), version("MINOR"));
    let number = if major == "0" { format!("0.{minor}") } else { major };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfstack.so.{number}");
}
