//! `ringway enable --program`: a program is on Ringway whatever starts it, by the machine's list and /etc/ld.so.preload.
//!
//! Promises: other lines of both files stay; the library is in /etc/ld.so.preload as long as a program is listed, and no longer; a program in
//! which the library would do nothing is not listed. Does not do: scripts, which are their interpreter's program.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ringway_channel::attach::{LIST, LIST_BYTES, entries};
use ringway_service::rundir::write_whole;

use super::{difference, named};
use crate::run::{library, program};

/// The loader's list of libraries for all programs; see ld.so(8).
const PRELOAD: &str = "etc/ld.so.preload";
/// The library's file in it, wherever that is.
const LIBRARY: &str = "libringway_preload.so";

/// Both files below a root.
pub(crate) struct Programs {
    root: PathBuf,
    list: String,
    preload: String,
}

impl Programs {
    /// Reads them; one that is not there is empty.
    ///
    /// # Errors
    /// One cannot be read.
    pub(crate) fn read(root: &Path) -> Result<Programs, String> {
        let read = |file: &str| match fs::read_to_string(root.join(file)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            read => read.map_err(|error| named(&root.join(file), &error)),
        };
        Ok(Programs { root: root.to_owned(), list: read(list_file())?, preload: read(PRELOAD)? })
    }

    /// The programs that are listed.
    pub(crate) fn listed(&self) -> Vec<&str> {
        entries(self.list.as_bytes()).filter_map(|(path, _)| std::str::from_utf8(path).ok()).collect()
    }

    /// The library in the loader's list; `None`: it is not there.
    pub(crate) fn library(&self) -> Option<&str> {
        self.preload.lines().flat_map(libraries).find(|library| library.ends_with(LIBRARY))
    }

    /// The files with this program on this service.
    ///
    /// # Errors
    /// The program cannot be on Ringway; the reason.
    pub(super) fn with(&self, path: &Path, service: &str) -> Result<Programs, String> {
        let path = self.checked(path)?;
        let library = library::find()?;
        if let Some(place) = library.ancestors().find(|place| !is_roots(place)) {
            return Err(format!("{}: only root may be able to write what is loaded into all programs", place.display()));
        }
        let then = self.adding(&path, service, &library.display().to_string());
        match then.list.len() > LIST_BYTES {
            true => Err(format!("/{} may have {LIST_BYTES} bytes, and that would be more", list_file())),
            false => Ok(then),
        }
    }

    fn adding(&self, path: &str, service: &str, library: &str) -> Programs {
        let list = kept_lines(&self.list, path) + &format!("{path} {service}\n");
        let preload = match self.library() == Some(library) {
            true => self.preload.clone(),
            false => without_library(&self.preload) + &format!("{library}\n"),
        };
        Programs { root: self.root.clone(), list, preload }
    }

    /// The files without it.
    pub(super) fn without(&self, path: &Path) -> Programs {
        // A program that is no longer there is listed by the path that it had.
        let path = self.resolved(path).unwrap_or_else(|_| path.display().to_string());
        let list = kept_lines(&self.list, &path);
        let is_needed = entries(list.as_bytes()).next().is_some();
        let preload = if is_needed { self.preload.clone() } else { without_library(&self.preload) };
        Programs { root: self.root.clone(), list, preload }
    }

    /// The lines that differ from what is there now.
    pub(super) fn changes(&self, now: &Programs) -> String {
        let of = |file: &str, before: &str, after: &str| match before == after {
            true => String::new(),
            false => difference(&self.root.join(file), before, after),
        };
        of(list_file(), &now.list, &self.list) + &of(PRELOAD, &now.preload, &self.preload)
    }

    /// Writes what differs. The library is in the loader's list only while there is a list for it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn write(&self, now: &Programs) -> Result<(), String> {
        let mut files = [(list_file(), &now.list, &self.list), (PRELOAD, &now.preload, &self.preload)];
        if self.list.len() < now.list.len() {
            files.reverse();
        }
        for (file, before, after) in files {
            let path = self.root.join(file);
            let done = match (before == after, after.is_empty()) {
                (true, _) => Ok(()),
                (false, true) => fs::remove_file(&path),
                (false, false) => {
                    let written = fs::create_dir_all(path.parent().expect("it stands in a folder"))
                        .and_then(|()| write_whole(&path, after));
                    // Whatever the caller's umask is: all programs read both.
                    written.and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o644)))
                }
            };
            done.map_err(|error| named(&path, &error))?;
        }
        Ok(())
    }

    fn checked(&self, path: &Path) -> Result<String, String> {
        let resolved = self.resolved(path)?;
        let file = self.root.join(resolved.trim_start_matches('/'));
        let says = |what: &str| Err(format!("{resolved}: {what}"));
        if resolved.contains(char::is_whitespace) {
            return says("a path in the list has no white space");
        }
        let mode = fs::metadata(&file).map_err(|error| named(&file, &error))?.mode();
        let capabilities = rustix::fs::getxattr(&file, "security.capability", &mut [0_u8; 64]);
        if mode & 0o6000 != 0 || capabilities.is_ok_and(|len| len > 0) {
            return says("it gains rights when it starts (setuid, setgid, capabilities), and the library does nothing in it");
        }
        if std::env::current_exe().is_ok_and(|own| own == file) {
            return says("Ringway itself runs on the kernel");
        }
        let head = fs::read(&file).map_err(|error| named(&file, &error))?;
        if head.starts_with(b"#!") {
            return says("it is a script: only its interpreter can be listed, for all scripts");
        }
        match program::obstacles_of(&file).first() {
            Some(obstacle) => Err(obstacle.clone()),
            None => Ok(resolved),
        }
    }

    /// The path as the kernel names the program when it runs, without links.
    fn resolved(&self, path: &Path) -> Result<String, String> {
        let Ok(inside) = path.strip_prefix("/") else {
            return Err(format!("{}: it is no whole path", path.display()));
        };
        let told = |error: std::io::Error| named(path, &error);
        let (root, file) = (self.root.canonicalize().map_err(told)?, self.root.join(inside).canonicalize().map_err(told)?);
        let inside = file.strip_prefix(root).map_err(|_| format!("{}: a link leads out of the folder", path.display()))?;
        std::str::from_utf8(inside.as_os_str().as_bytes())
            .map(|inside| format!("/{inside}"))
            .map_err(|_| format!("{}: it is not UTF-8", path.display()))
    }
}

fn list_file() -> &'static str {
    LIST.to_str().expect("a plain path").trim_start_matches('/')
}

/// The lines of the list that are not this program's.
fn kept_lines(list: &str, path: &str) -> String {
    let others = list.lines().filter(|line| line.split_whitespace().next() != Some(path));
    others.map(|line| line.to_owned() + "\n").collect()
}

/// The libraries of a line of the loader's list, which stand between white space or colons, before a remark.
fn libraries(line: &str) -> impl Iterator<Item = &str> {
    let before_remark = line.split('#').next().unwrap_or_default();
    before_remark.split(|letter: char| letter == ':' || letter.is_whitespace()).filter(|library| !library.is_empty())
}

/// The loader's list without ours; another library on its line stays.
fn without_library(preload: &str) -> String {
    let mut kept = String::new();
    for line in preload.lines() {
        let others: Vec<&str> = libraries(line).filter(|library| !library.ends_with(LIBRARY)).collect();
        match (others.len() == libraries(line).count(), others.is_empty()) {
            (true, _) => kept += &format!("{line}\n"),
            (false, true) => {}
            (false, false) => kept += &format!("{}\n", others.join(" ")),
        }
    }
    kept
}

/// Returns true if only root may write it.
fn is_roots(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.uid() == 0 && found.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(list: &str, preload: &str) -> Programs {
        Programs { root: PathBuf::from("/nowhere"), list: list.to_owned(), preload: preload.to_owned() }
    }

    #[test]
    fn others_lines_stay_and_the_library_goes_with_the_last_program() {
        let now = programs(
            "# ours\n/usr/bin/a default\n",
            "/usr/lib/x.so:/old/libringway_preload.so # both\n# /z/libringway_preload.so\n",
        );
        assert_eq!((now.listed(), now.library()), (vec!["/usr/bin/a"], Some("/old/libringway_preload.so")));
        let then = now.adding("/usr/bin/b", "red", "/new/libringway_preload.so");
        assert_eq!(then.list, "# ours\n/usr/bin/a default\n/usr/bin/b red\n");
        assert_eq!(then.preload, "/usr/lib/x.so\n# /z/libringway_preload.so\n/new/libringway_preload.so\n");
        let again = then.adding("/usr/bin/b", "blue", "/new/libringway_preload.so");
        assert_eq!((again.list.as_str(), &again.preload), ("# ours\n/usr/bin/a default\n/usr/bin/b blue\n", &then.preload));
        // Paths that are not there are taken as they are.
        let one = then.without(Path::new("/usr/bin/b"));
        assert_eq!((one.list.as_str(), &one.preload), ("# ours\n/usr/bin/a default\n", &then.preload));
        let none = one.without(Path::new("/usr/bin/a"));
        assert_eq!((none.list.as_str(), none.library()), ("# ours\n", None));
        assert!(none.without(Path::new("/usr/bin/a")).changes(&none).is_empty());
    }
}
