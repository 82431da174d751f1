//! Binds the library's calls of functions that it exports itself to its own, when it is linked: the loader of each program
//! that is started would else search them by name, 45 of them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
}
