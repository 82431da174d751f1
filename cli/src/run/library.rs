//! Finds the library that stands in for libc, and says what the program's environment must be.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

const NAME: &str = "libringway_preload.so";
/// Names the library, wherever it is.
const VARIABLE: &str = "RINGWAY_PRELOAD";

/// Beside the executable, or where packages put it.
pub(crate) fn find() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        let named = PathBuf::from(named);
        return if named.is_file() { Ok(named) } else { Err(format!("{VARIABLE}={} is not a file", named.display())) };
    }
    let executable = std::env::current_exe().map_err(|error| format!("our own executable is not known: {error}"))?;
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let candidates = [folder.join(NAME), folder.join("../lib/ringway").join(NAME), folder.join("../lib").join(NAME)];
    let found = candidates.iter().find(|candidate| candidate.is_file());
    let found = found
        .ok_or_else(|| format!("{NAME} is not beside {} nor in ../lib/ringway; {VARIABLE} may name it", executable.display()))?;
    found.canonicalize().map_err(|error| format!("{}: {error}", found.display()))
}

/// LD_PRELOAD with `library` in front of what is there already.
pub(super) fn preload(library: &Path, present: Option<OsString>) -> OsString {
    let mut value = library.as_os_str().to_owned();
    if let Some(present) = present.filter(|present| !present.is_empty()) {
        value.push(OsStr::new(":"));
        value.push(present);
    }
    value
}

/// 16 bytes as the environment carries them.
pub(super) fn hexadecimal(token: &[u8; 16]) -> String {
    token.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
