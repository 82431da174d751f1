//! The configuration that a running service follows, in the file NAME.config of the run directory; and NAME.set beside it, with what
//! `ringway config set` has changed in it.
//!
//! ```text
//!   # reading 2                     how often the configuration has been read
//!   # refused TEXT                  the last reading had mistakes and changed nothing
//!   # file /etc/ringway/ringway.toml
//!   # hidden tcp.fast_open_keys     has a value that is not for everybody
//!   [section]
//!   name = value  # from ORIGIN     every key
//! ```
//! Promises: the file is whole or not there, and holds no secret. Does not do: following a change; `reload` does.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::{Config, ConfigError};
use crate::printable;
use crate::rundir::write_whole;

/// Of a file, what is read.
const BYTES_MAX: u64 = 256 << 10;
/// Keys whose values only the service and its administrator know.
const SECRETS: [&str; 1] = ["tcp.fast_open_keys"];

/// What a running service follows.
#[derive(Debug)]
pub struct Published {
    /// How often the configuration has been read; 1 at the start.
    pub reading: u64,
    /// Why the last reading changed nothing.
    pub refused: Option<String>,
    /// The file that is read.
    pub file: Option<PathBuf>,
    /// Keys that have a value which is not in `config`.
    pub hidden: Vec<String>,
    /// The values. Their origins are in `origin`.
    pub config: Config,
    origins: Vec<(String, String)>,
}

impl Published {
    /// Where the value of a key came from; `None`: it is the default.
    pub fn origin(&self, path: &str) -> Option<&str> {
        self.origins.iter().find(|(key, _)| key == path).map(|(_, origin)| origin.as_str())
    }
}

/// Publishes `config`, as the reading of this number has left it.
///
/// # Errors
/// The file cannot be written.
pub fn note(path: &Path, config: &Config, file: &Path, reading: u64, refused: Option<&str>) -> io::Result<()> {
    let mut text = format!("# reading {reading}\n");
    if let Some(refused) = refused {
        text += &format!("# refused {}\n", printable(&refused.replace('\n', "; ")));
    }
    text += &format!("# file {}\n", printable(&file.display().to_string()));
    let mut section = "";
    let mut values = String::new();
    for (key, value, origin) in config.entries() {
        if SECRETS.contains(&key.path) && *value != key.default_value() {
            text += &format!("# hidden {}\n", key.path);
            continue;
        }
        if key.section() != section {
            section = key.section();
            values += &format!("[{section}]\n");
        }
        let origin = origin.map_or_else(String::new, |origin| format!("  # from {}", printable(origin)));
        values += &format!("{} = {value}{origin}\n", key.name());
    }
    write_whole(path, &(text + &values + &config.rules_text()))
}

/// What a service has published in `path`.
///
/// # Errors
/// There is no such file, or it does not have this form.
pub fn read(path: &Path) -> io::Result<Published> {
    let text = read_bounded(path)?;
    let config = Config::parse(&path.display().to_string(), &text, Vec::new()).map_err(|error| no_form(&error))?;
    let words = |word: &'static str| {
        let head = text.lines().take_while(|line| line.starts_with("# "));
        head.filter_map(move |line| line[2..].strip_prefix(word)?.strip_prefix(' ').map(str::to_owned))
    };
    let mut section = "";
    let mut origins = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        } else if let Some((key, origin)) =
            line.split_once(" = ").and_then(|(key, rest)| Some((key, rest.rsplit_once("  # from ")?.1)))
        {
            origins.push((format!("{section}.{key}"), origin.to_owned()));
        }
    }
    Ok(Published {
        reading: words("reading").next().and_then(|number| number.parse().ok()).unwrap_or(0),
        refused: words("refused").next(),
        file: words("file").next().map(PathBuf::from),
        hidden: words("hidden").collect(),
        config,
        origins,
    })
}

/// What `ringway config set` has written in `path`; empty, where there is no such file.
///
/// # Errors
/// It cannot be read.
pub fn read_set(path: &Path) -> io::Result<String> {
    match read_bounded(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        text => text,
    }
}

fn read_bounded(path: &Path) -> io::Result<String> {
    use io::Read;
    let mut text = String::new();
    fs::File::open(path)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn no_form(error: &ConfigError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that vanishes with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            Scratch(std::env::temp_dir().join(format!("ringway-published-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_file(&self.0).ok();
        }
    }

    #[test]
    fn what_is_published_is_what_holds() {
        let scratch = Scratch::new("holds");
        let path = &scratch.0;
        let environment = vec![("RINGWAY_TCP_PACING".into(), "true".into())];
        let config = Config::parse("a file", "[tcp]\nretries = 8\n[policy]\ngroup = \"a\\tb  # from c\"\n", environment)
            .expect("it is right");
        note(path, &config, Path::new("/etc/ringway/ringway.toml"), 1, None).expect("ours");
        let published = read(path).expect("it is there");
        assert_eq!((published.reading, published.refused.as_deref()), (1, None));
        assert_eq!(published.file.as_deref(), Some(Path::new("/etc/ringway/ringway.toml")));
        assert_eq!(published.config.effective(), config.effective());
        assert_eq!(published.origin("tcp.pacing"), Some("RINGWAY_TCP_PACING"));
        assert_eq!(published.origin("tcp.retries"), Some("a file:2"));
        assert_eq!(published.origin("tcp.sack"), None);
        note(path, &config, Path::new("x"), 2, Some("no\nsuch key")).expect("ours");
        let published = read(path).expect("it is there");
        assert_eq!((published.reading, published.refused.as_deref()), (2, Some("no; such key")));
    }

    #[test]
    fn secrets_are_not_published() {
        let scratch = Scratch::new("secrets");
        let path = &scratch.0;
        let key = "00112233-44556677-8899aabb-ccddeeff";
        let config = Config::parse("a file", &format!("tcp.fast_open_keys = \"{key}\"\n"), Vec::new()).expect("it is right");
        note(path, &config, Path::new("x"), 1, None).expect("ours");
        assert!(!fs::read_to_string(path).expect("it is there").contains(key));
        assert_eq!(read(path).expect("it is there").hidden, ["tcp.fast_open_keys"]);
    }

    #[test]
    fn a_file_of_another_form_is_an_error() {
        let scratch = Scratch::new("form");
        let path = &scratch.0;
        assert_eq!(read(path).expect_err("it is not there").kind(), io::ErrorKind::NotFound);
        assert_eq!(read_set(path).expect("nothing is set"), "");
        fs::write(path, "# reading 1\n[tcp]\nretries = \"many\"\n").expect("ours");
        assert_eq!(read(path).expect_err("no number").kind(), io::ErrorKind::InvalidData);
    }
}
