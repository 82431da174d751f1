//! Finds the preload library and builds the program's environment variables.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

const NAME: &str = "libringway_preload.so";
/// Where it is, from the executable's folder: beside it as built, or where packages of Debian and of Fedora have it.
const FOLDERS: [&str; 4] = ["", "../lib/ringway", "../lib64/ringway", "../lib"];
/// The variable that gives the library's path.
const VARIABLE: &str = "RINGWAY_PRELOAD";

/// Finds the library: at `RINGWAY_PRELOAD`, beside the executable, or where packages install it.
pub(crate) fn find() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        let named = PathBuf::from(named);
        return if named.is_file() { Ok(named) } else { Err(format!("{VARIABLE}={} is not a file", named.display())) };
    }
    let executable = std::env::current_exe().map_err(|error| format!("cannot find this executable's path: {error}"))?;
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let candidates = FOLDERS.map(|place| folder.join(place).join(NAME));
    let found = candidates.iter().find(|candidate| candidate.is_file());
    let found = found.ok_or_else(|| {
        format!(
            "{NAME} is neither beside {} nor in ../lib/ringway or ../lib64/ringway; {VARIABLE} can name it",
            executable.display()
        )
    })?;
    found.canonicalize().map_err(|error| format!("{}: {error}", found.display()))
}

/// The value of LD_PRELOAD with `library` before the present libraries.
pub(super) fn preload(library: &Path, present: Option<OsString>) -> OsString {
    let mut value = library.as_os_str().to_owned();
    if let Some(present) = present.filter(|present| !present.is_empty()) {
        value.push(OsStr::new(":"));
        value.push(present);
    }
    value
}

/// The value of ASAN_OPTIONS: AddressSanitizer ends a program whose first library is not its own, unless it is told not to look.
pub(super) fn asan_options(present: Option<OsString>) -> OsString {
    const LOOKS: &str = "verify_asan_link_order";
    let Some(mut value) = present.filter(|present| !present.is_empty()) else { return format!("{LOOKS}=0").into() };
    if !value.as_encoded_bytes().windows(LOOKS.len()).any(|word| word == LOOKS.as_bytes()) {
        value.push(format!(":{LOOKS}=0"));
    }
    value
}

/// Encodes 16 bytes in hexadecimal, for the environment.
pub(crate) fn hexadecimal(token: &[u8; 16]) -> String {
    token.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
