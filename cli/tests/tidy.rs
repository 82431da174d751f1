//! House rules that the compiler does not check: `cargo test -p ringway-cli --test tidy`.
//!
//! Each test reads the sources and the manifests and prints `file:line: problem` for every finding.
//! Tests search the text with comments and strings blanked out; they do not parse Rust.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[path = "tidy/arguments.rs"]
mod arguments;
#[path = "tidy/arrows.rs"]
mod arrows;
#[path = "tidy/capi.rs"]
mod capi;
#[path = "tidy/coverage.rs"]
mod coverage;
#[path = "tidy/log.rs"]
mod log;
#[path = "tidy/seeds.rs"]
mod seeds;
#[path = "tidy/words.rs"]
mod words;

/// Allowed dependencies of each crate; all others are errors. dev-dependencies are not checked.
const ARROWS: &[(&str, &[&str])] = &[
    ("shm", &[]),
    ("channel", &["shm"]),
    ("wire", &["shm"]),
    ("probes", &[]),
    ("stack", &["shm", "wire", "probes"]),
    ("device", &["shm", "wire"]),
    ("engine", &["stack", "device", "channel", "shm"]),
    ("ringway", &["engine", "stack", "device", "channel", "shm"]),
    ("posix", &["channel", "shm"]),
    ("service", &["engine", "device", "stack", "channel", "shm"]),
    ("cli", &["service", "engine", "device", "channel", "shm", "trace", "bench"]),
    ("preload", &["posix", "channel", "shm"]),
    ("sim", &["engine", "posix", "stack", "device", "channel", "shm", "trace"]),
    ("bench", &["ringway", "device", "stack", "channel", "shm", "mtcp", "fstack"]),
    ("packetdrill", &["sim", "shm"]),
    ("capi", &["ringway"]),
    ("cabi", &[]),
    ("mtcp", &["cabi"]),
    ("fstack", &["cabi"]),
    ("trace", &[]),
    ("fuzz", &["fuzz-targets"]),
    ("fuzz/targets", &["service", "engine", "sim", "trace", "device", "stack", "channel", "shm"]),
];

/// Crates with roots that must say `#![forbid(unsafe_code)]`.
const SAFE_ROOMS: &[&str] = &["wire", "stack", "engine", "ringway", "posix", "service", "cli", "sim", "trace"];

/// Third-party crates allowed in an unmodified program's address space.
const PRELOAD_OUTSIDERS: &[&str] = &["libc", "once_cell"];

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;

/// A source file: its path from the workspace's root, its text, and its text without comments and literals.
struct Source {
    path: String,
    text: String,
    code: String,
    is_test: bool,
}

impl Source {
    fn room(&self) -> &str {
        self.path.split('/').next().expect("split yields one part at least")
    }

    fn file_name(&self) -> &str {
        self.path.rsplit('/').next().expect("split yields one part at least")
    }

    fn line_of(&self, offset: usize) -> usize {
        self.code[..offset].matches('\n').count() + 1
    }

    fn at(&self, offset: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path, self.line_of(offset))
    }
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate stands in the workspace").to_path_buf()
}

/// Files below the workspace with this ending, without build output and hidden folders, in stable order.
fn files(ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![top()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the workspace can be read") {
            let path = entry.expect("an entry of the workspace can be read").path();
            let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(top()).expect("below the top").to_string_lossy().into_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sources() -> Vec<Source> {
    let load = |path: &PathBuf| {
        let text = read(path);
        Source { path: relative(path), code: blank(&text), text, is_test: false }
    };
    let mut all: Vec<Source> = files(".rs").iter().map(load).collect();
    let test_modules: Vec<String> = all.iter().flat_map(test_modules).collect();
    for source in &mut all {
        let folders = source.path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "fuzz"));
        let declared =
            test_modules.iter().any(|module| source.path.strip_prefix(module).is_some_and(|rest| rest.starts_with(['.', '/'])));
        source.is_test = folders || declared;
    }
    all
}

/// Paths (without `.rs`) of the modules that this file declares with `#[cfg(test)] mod name;`.
fn test_modules(source: &Source) -> Vec<String> {
    let folder = match source.path.rsplit_once('/') {
        Some((folder, "lib.rs" | "main.rs" | "mod.rs")) => folder,
        _ => source.path.trim_end_matches(".rs"),
    };
    let declarations = source.code.split("#[cfg(test)]").skip(1);
    let names = declarations.filter_map(|rest| {
        let declaration = rest.split_once(';')?.0;
        let (visibility, name) = declaration.rsplit_once("mod ")?;
        (!visibility.contains('{')).then(|| name.trim().to_string())
    });
    names.map(|name| format!("{folder}/{name}")).collect()
}

fn report(findings: Vec<String>) {
    assert!(findings.is_empty(), "{} finding(s)\n{}\n", findings.len(), findings.join("\n"));
}

/// Replaces comments, strings and character literals by spaces; line numbers do not change.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end == at {
            out.push(if bytes[at].is_ascii() { bytes[at] } else { b'a' });
            at += 1;
        } else {
            out.extend(bytes[at..end].iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
            at = end;
        }
    }
    String::from_utf8(out).expect("only ASCII was pushed")
}

/// End of the comment or literal that starts at `at`; `at` itself when none starts there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let word_before = at > 0 && is_word(bytes[at - 1]);
    match bytes[at] {
        b'/' if bytes.get(at + 1) == Some(&b'/') => line_end(bytes, at),
        b'/' if bytes.get(at + 1) == Some(&b'*') => block_comment_end(bytes, at),
        b'"' => quoted_end(bytes, at + 1, b'"'),
        b'b' | b'c' if !word_before && bytes.get(at + 1) == Some(&b'"') => quoted_end(bytes, at + 2, b'"'),
        b'b' if !word_before && bytes.get(at + 1) == Some(&b'\'') => quoted_end(bytes, at + 2, b'\''),
        b'b' | b'c' if !word_before && bytes.get(at + 1) == Some(&b'r') => raw_end(bytes, at + 1).unwrap_or(at),
        b'r' if !word_before => raw_end(bytes, at).unwrap_or(at),
        b'\'' => character_end(bytes, at),
        _ => at,
    }
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length)
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (at, depth) = (at + 2, depth + 1),
            b"*/" if depth == 1 => return at + 2,
            b"*/" => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    bytes.len()
}

fn quoted_end(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// End of `r"…"` or `r#"…"#`; `None` for a raw identifier or a name that starts with r.
fn raw_end(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let length = bytes[open + 1..].windows(close.len()).position(|window| window == close.as_slice());
    Some(length.map_or(bytes.len(), |length| open + 1 + length + close.len()))
}

/// End of a character literal, not of a lifetime: `'x'`, `'\n'`, `'\u{41}'`, `'→'`.
fn character_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => quoted_end(bytes, at + 1, b'\''),
        Some(_) => {
            let close = (at + 2..(at + 6).min(bytes.len())).find(|close| bytes[*close] == b'\'');
            match close {
                Some(close) if close == at + 2 || !bytes[at + 1].is_ascii() => close + 1,
                _ => at,
            }
        }
        None => at,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Offsets of `word` as a whole word.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = *at > 0 && is_word(bytes[at - 1]);
        let after = bytes.get(at + word.len()).is_some_and(|byte| is_word(*byte));
        !before && !after
    })
}

/// Normal dependencies of a manifest, also target-specific ones: (line, name).
fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (number, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line == "[dependencies]" || (line.starts_with("[target.") && line.ends_with(".dependencies]"));
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().expect("split yields one part at least");
            found.push((number + 1, name.to_string()));
        }
    }
    found
}

/// The crates' manifests: crate name to text.
fn manifests() -> BTreeMap<String, String> {
    let rooms = ARROWS.iter().map(|(room, _)| room.to_string());
    rooms.map(|room| (room.clone(), read(&top().join(&room).join("Cargo.toml")))).collect()
}

fn room_of_crate(name: &str) -> Option<&str> {
    if name == "ringway" { Some(name) } else { name.strip_prefix("ringway-") }
}

#[test]
fn rooms_depend_only_along_the_arrows() {
    let manifests = manifests();
    let mut findings = Vec::new();
    for (room, allowed) in ARROWS {
        for (line, name) in dependencies(&manifests[*room]) {
            if let Some(target) = room_of_crate(&name).filter(|target| !allowed.contains(target)) {
                findings.push(format!("{room}/Cargo.toml:{line}: {room} -> {target} is not an arrow of ARCHITECTURE.md"));
            }
        }
    }
    report(findings);
}

#[test]
fn every_room_of_the_workspace_is_known_here() {
    let known: BTreeSet<&str> = ARROWS.iter().map(|(room, _)| *room).collect();
    let all = files("Cargo.toml").iter().map(|path| relative(path)).collect::<Vec<_>>();
    let rooms = all.iter().filter_map(|path| path.strip_suffix("/Cargo.toml"));
    report(
        rooms
            .filter(|room| !known.contains(room))
            .map(|room| format!("{room}/Cargo.toml:1: add its arrows to cli/tests/tidy.rs"))
            .collect(),
    );
}

#[test]
fn programs_carry_no_outsiders_but_the_named() {
    let mut findings = Vec::new();
    for room in ["preload", "posix", "channel", "shm"] {
        for (line, name) in dependencies(&manifests()[room]) {
            let known = room_of_crate(&name).is_some() || PRELOAD_OUTSIDERS.contains(&name.as_str()) || name == "loom";
            if !known {
                findings.push(format!("{room}/Cargo.toml:{line}: {name} would be loaded into every program"));
            }
        }
    }
    report(findings);
}

#[test]
fn every_dependency_has_its_reason_written_down() {
    let reasons = read(&top().join("docs/dependencies.md"));
    let mut findings = Vec::new();
    for (room, manifest) in manifests() {
        for (line, name) in dependencies(&manifest.replace("[dev-dependencies]", "[dependencies]")) {
            if room_of_crate(&name).is_none() && !reasons.contains(&format!("`{name}`")) {
                findings.push(format!("{room}/Cargo.toml:{line}: docs/dependencies.md does not say why `{name}` is there"));
            }
        }
    }
    report(findings);
}

#[test]
fn unsafe_stands_only_where_it_may() {
    let mut findings = Vec::new();
    for source in sources() {
        let may = match source.room() {
            "shm" | "channel" | "preload" | "packetdrill" | "capi" | "cabi" | "mtcp" | "fstack" => true,
            "device" | "bench" => matches!(source.file_name(), "sys.rs" | "ffi.rs"),
            _ => false,
        };
        if !may {
            findings.extend(words(&source.code, "unsafe").map(|at| source.at(at, "`unsafe` may not stand here")));
        }
    }
    report(findings);
}

#[test]
fn safe_rooms_forbid_unsafe_code() {
    let is_root = |source: &Source| {
        let inside = source.path.strip_prefix(source.room()).expect("a path starts with its room");
        matches!(inside, "/src/lib.rs" | "/src/main.rs") || inside.starts_with("/src/bin/")
    };
    let all = sources();
    let roots = all.iter().filter(|source| SAFE_ROOMS.contains(&source.room()) && is_root(source));
    let bad = roots.filter(|source| !source.code.contains("#![forbid(unsafe_code)]"));
    report(bad.map(|source| source.at(0, "the root must say #![forbid(unsafe_code)]")).collect());
}

/// The functions of a file: (offset of `fn`, name, lines from `fn` to the closing brace).
fn functions(code: &str) -> Vec<(usize, String, usize)> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let name: String = code[at + 2..].trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let Some(open) = body_start(bytes, at) else { continue };
        let end = braces_end(bytes, open);
        if !name.is_empty() {
            found.push((at, name, code[at..end].matches('\n').count() + 1));
        }
    }
    found
}

/// The `{` of a function's body; `None` for a declaration or a function type.
fn body_start(bytes: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (offset, byte) in bytes[at..].iter().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at + offset),
            b';' | b',' | b'}' if depth == 0 => return None,
            _ if depth < 0 => return None,
            _ => {}
        }
    }
    None
}

fn braces_end(bytes: &[u8], open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in bytes[open..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return open + offset + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    bytes.len()
}

#[test]
fn functions_fit_on_one_screen() {
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test) {
        for (at, name, lines) in functions(&source.code) {
            if lines > FUNCTION_LINES_MAX {
                findings.push(source.at(at, &format!("fn {name} has {lines} lines; {FUNCTION_LINES_MAX} at most")));
            }
        }
    }
    report(findings);
}

#[test]
fn files_hold_one_mechanism() {
    let all = sources();
    let long = all.iter().filter(|source| !source.is_test && source.text.lines().count() > FILE_LINES_MAX);
    report(
        long.map(|source| source.at(0, &format!("{} lines; {FILE_LINES_MAX} at most", source.text.lines().count()))).collect(),
    );
}

#[test]
fn files_say_what_they_are_for() {
    let all = sources();
    let silent = all.iter().filter(|source| source.file_name() != "tests.rs" && !source.text.starts_with("//!"));
    report(silent.map(|source| source.at(0, "the file must start with `//!`: what it is for, what it promises")).collect());
}

#[test]
fn only_the_clock_reads_the_clock() {
    let mut findings = Vec::new();
    for source in sources() {
        let may = source.path == "engine/src/clock.rs" || matches!(source.room(), "cli" | "bench") || source.is_test;
        if may {
            continue;
        }
        for (at, _) in source.code.match_indices("std::time") {
            let rest = &source.code[at..];
            let statement = &rest[..rest.find([';', '(']).unwrap_or(rest.len())];
            if ["Instant", "SystemTime"].iter().any(|name| words(statement, name).next().is_some()) {
                findings.push(source.at(at, "time comes in as `now`; only engine/src/clock.rs asks the machine"));
            }
        }
    }
    report(findings);
}

#[test]
fn nothing_is_left_half_done() {
    let in_code = ["todo!", "unimplemented!", "dbg!", "#[ignore]", "allow(dead_code", "let _ ="];
    let in_text = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let mut findings = Vec::new();
    for source in sources() {
        for word in in_code {
            let hits = source.code.match_indices(word);
            findings.extend(hits.map(|(at, _)| source.at(at, &format!("`{word}`: handle it or give the reason to a reader"))));
        }
        for word in in_text {
            let hits = words(&source.text, word);
            findings.extend(hits.map(|at| format!("{}:{}: {word}", source.path, source.text[..at].matches('\n').count() + 1)));
        }
        if !source.is_test {
            let hits = source.code.match_indices(".unwrap()");
            findings.extend(hits.map(|(at, _)| source.at(at, "`unwrap`: write expect(\"why it holds\")")));
        }
    }
    report(findings);
}

#[test]
fn texts_name_no_machine() {
    let words = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    let mut findings = Vec::new();
    for path in [".rs", ".md", ".toml", "Makefile", ".sh"].iter().flat_map(|ending| files(ending)) {
        for (number, line) in read(&path).lines().enumerate() {
            let found = words.iter().filter(|word| line.contains(*word));
            findings.extend(found.map(|word| format!("{}:{}: names a path of one machine: {word}", relative(&path), number + 1)));
        }
    }
    report(findings);
}

#[test]
fn paths_named_in_the_documents_exist() {
    let rooms: BTreeSet<&str> = ARROWS.iter().map(|(room, _)| *room).chain(["docs"]).collect();
    let mut findings = Vec::new();
    // Lab notes tell of the builds of their day.
    for path in files(".md").iter().filter(|path| !relative(path).starts_with("docs/lab/")) {
        for (number, line) in read(path).lines().enumerate() {
            let quoted = line.split('`').skip(1).step_by(2);
            let named = quoted.filter(|text| text.split_once('/').is_some_and(|(room, _)| rooms.contains(room)));
            let plain = named.filter(|text| !text.contains(['*', '{', ' ']));
            let missing = plain.filter(|text| !top().join(text).exists());
            findings.extend(missing.map(|text| format!("{}:{}: there is no {text}", relative(path), number + 1)));
        }
    }
    report(findings);
}

/// `path.rs` (`name`): the file has the name.
#[test]
fn names_beside_a_file_in_the_documents_are_in_it() {
    let mut findings = Vec::new();
    for path in files(".md").iter().filter(|path| !relative(path).starts_with("docs/lab/")) {
        let text = read(path);
        for (at, _) in text.match_indices(".rs` (`") {
            let file = &text[text[..at].rfind('`').map_or(0, |quote| quote + 1)..at + 3];
            let name = text[at + 7..].split('`').next().expect("what is in front of the quote").rsplit("::").next();
            let name = name.expect("a last part");
            let is_name = !name.is_empty() && name.bytes().all(is_word);
            let source = top().join(file);
            if is_name && source.is_file() && words(&read(&source), name).next().is_none() {
                findings.push(format!("{}: {file} has no `{name}`", relative(path)));
            }
        }
    }
    report(findings);
}

#[test]
fn comments_and_literals_are_blanked() {
    let code = blank("a /* { /* } */ */ b \"{\\\"\" c '{' d r#\"{\"#; // }\n&'a str b'\\'' 'é' x");
    assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "b", "c", "d", ";", "&'a", "str", "x"]);
}

#[test]
fn functions_are_measured_from_fn_to_brace() {
    let found = functions("trait T { fn a(&self, b: [u8; 4]) -> u8; }\nfn c(d: fn(u8) -> u8) -> u8\n{\n if x { y }\n}\n");
    let names: Vec<(&str, usize)> = found.iter().map(|(_, name, lines)| (name.as_str(), *lines)).collect();
    assert_eq!(names, [("c", 4)]);
}
