use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Program, Unusable, find};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("ringway-program-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("temporary files can be made");
        Scratch(path)
    }

    fn file(&self, name: &str, mode: u32, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("writable");
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("ours");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the test made it");
    }
}

fn look(path: &Path) -> Result<Program, Unusable> {
    find(path.as_os_str(), std::env::var_os("PATH"))
}

#[test]
fn a_dynamic_program_is_found_by_name_and_has_no_obstacle() {
    let program = find(OsStr::new("sh"), std::env::var_os("PATH")).expect("every machine has sh");
    assert!(program.path.is_absolute());
    assert_eq!(program.obstacles, Vec::<String>::new());
}

#[test]
fn what_is_missing_and_what_is_not_executable() {
    let scratch = Scratch::new("missing");
    assert_eq!(find(OsStr::new("no-such-program-x"), None), Err(Unusable::Missing));
    assert_eq!(look(&scratch.0.join("nothing")), Err(Unusable::Missing));
    let plain = scratch.file("plain", 0o644, b"#!/bin/sh\n");
    assert_eq!(look(&plain), Err(Unusable::NotExecutable("permission denied")));
    assert_eq!(look(&scratch.0), Err(Unusable::NotExecutable("is a directory")));
    let found = find(OsStr::new("plain"), Some(scratch.0.clone().into()));
    assert_eq!(found, Err(Unusable::NotExecutable("permission denied")));
}

#[test]
fn scripts_are_followed_to_their_interpreter() {
    let scratch = Scratch::new("scripts");
    let script = scratch.file("script", 0o755, b"#!/bin/sh\nexit 0\n");
    assert_eq!(look(&script).expect("executable").obstacles.len(), 0);
    let env = scratch.file("env-script", 0o755, b"#!/usr/bin/env -S sh\n");
    assert_eq!(look(&env).expect("executable").obstacles.len(), 0);
    let target = scratch.file("static", 0o755, &elf(&[]));
    let line = format!("#!{}\n", target.display());
    let indirect = scratch.file("indirect", 0o755, line.as_bytes());
    assert!(look(&indirect).expect("executable").obstacles[0].contains("statically linked"));
    // A script that names itself must not be followed forever.
    let line = format!("#!{}\n", scratch.0.join("endless").display());
    let endless = scratch.file("endless", 0o755, line.as_bytes());
    look(&endless).expect("executable");
}

/// A 64-bit ELF file with these segments.
fn elf(segments: &[(u32, &[u8])]) -> Vec<u8> {
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(64, 0);
    file[18..20].copy_from_slice(&machine.to_le_bytes());
    file[32..40].copy_from_slice(&64u64.to_le_bytes());
    file[54..56].copy_from_slice(&56u16.to_le_bytes());
    file[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
    let mut offset = 64 + 56 * segments.len() as u64;
    for (kind, content) in segments {
        let mut header = [0; 56];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..16].copy_from_slice(&offset.to_le_bytes());
        header[32..40].copy_from_slice(&(content.len() as u64).to_le_bytes());
        file.extend(header);
        offset += content.len() as u64;
    }
    for (_, content) in segments {
        file.extend(*content);
    }
    file
}

#[test]
fn elf_files_say_how_they_are_linked() {
    let scratch = Scratch::new("elf");
    let glibc: (u32, &[u8]) = (3, b"/lib64/ld-linux-x86-64.so.2\0");
    let cases: &[(&str, Vec<u8>, &str)] = &[
        ("dynamic", elf(&[glibc]), ""),
        ("static", elf(&[(4, b"\x04\0\0\0\x10\0\0\0\x01\0\0\0GNU\0")]), "statically linked"),
        ("musl", elf(&[(3, b"/lib/ld-musl-x86_64.so.1\0")]), "musl"),
        ("go", elf(&[glibc, (4, b"\x04\0\0\0\x02\0\0\0\x04\0\0\0Go\0\0xx")]), "Go program"),
        ("other", b"\x7fELF\x01\x01\x01 and more".to_vec(), "another processor"),
        ("text", b"neither script nor program".to_vec(), "not an ELF program"),
        ("cut", elf(&[glibc])[..100].to_vec(), "not an ELF program"),
        ("empty", Vec::new(), "not an ELF program"),
    ];
    for (name, content, expected) in cases {
        let found = look(&scratch.file(name, 0o755, content)).expect("executable");
        match expected.is_empty() {
            true => assert_eq!(found.obstacles.len(), 0, "{name}: {:?}", found.obstacles),
            false => assert!(found.obstacles[0].contains(expected), "{name}: {:?}", found.obstacles),
        }
    }
}

/// The code of a program that is linked to libc, with these bytes in it.
fn with_code(scratch: &Scratch, name: &str, code: &[u8]) -> Program {
    let mut bytes = vec![0_u8; 64 + 2 * 56];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18] = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    bytes[32] = 64;
    bytes[54] = 56;
    bytes[56] = 2;
    let interpreter = b"/lib64/ld-linux-x86-64.so.2\0";
    let mut header = |at: usize, kind: u8, flags: u8, offset: u64, len: u64| {
        bytes[at] = kind;
        bytes[at + 4] = flags;
        bytes[at + 8..at + 16].copy_from_slice(&offset.to_le_bytes());
        bytes[at + 32..at + 40].copy_from_slice(&len.to_le_bytes());
    };
    header(64, 3, 4, 176, interpreter.len() as u64);
    header(120, 1, 5, 176 + interpreter.len() as u64, code.len() as u64);
    bytes.extend(interpreter);
    bytes.extend(code);
    look(&scratch.file(name, 0o755, &bytes)).expect("executable")
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_ring_of_the_programs_own_is_found_wherever_it_lies() {
    const SETUP: &[u8] = &[0xb8, 0xa9, 1, 0, 0, 0x55, 0x53, 0x48, 0x89, 0xf3, 0x0f, 0x05];
    let scratch = Scratch::new("rings");
    // Pieces of the file are read one after the other: around the end of the first, and at the end of the code.
    for before in [0, (256 << 10) - 70, (256 << 10) - 7, (256 << 10) - 2, 300_000] {
        let code = [&vec![0x90; before], SETUP].concat();
        let found = with_code(&scratch, "code", &code).obstacles;
        assert!(found.len() == 1 && found[0].contains("io_urings"), "{before}: {found:?}");
    }
    // The number alone, the call too far behind it, and half of it.
    let far = [&SETUP[..5], &[0x90; 51], &SETUP[10..]].concat();
    for code in [&SETUP[..10], &far, &SETUP[..4], b""] {
        assert_eq!(with_code(&scratch, "code", code).obstacles, Vec::<String>::new());
    }
}
