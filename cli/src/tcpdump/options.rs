//! tcpdump's command line, divided into options handled here and arguments passed on.

use std::ffi::{OsStr, OsString};

use ringway_shm::capture::Direction;

use crate::services::Choice;

/// tcpdump's single-letter options that take a value.
const WITH_VALUE: &str = "BcCEFGijmMQrsTVwWyzZ";
/// Its long options that take a value, of those that are passed on.
const LONG_WITH_VALUE: [&str; 4] = ["--linktype", "--relinquish-privileges", "--time-stamp-precision", "--time-stamp-type"];

/// What is asked of this command instead of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// `-h`
    Help,
    /// `-D`
    Interfaces,
}

/// The command line, divided.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// Arguments for tcpdump.
    pub(super) passed: Vec<OsString>,
    /// `-i`
    pub(super) interface: Option<String>,
    /// `-Q in`, `-Q out`; `None`: both.
    pub(super) direction: Option<Direction>,
    /// `--name`, `--net` and `--all-namespaces`
    pub(super) services: Choice,
    /// Nothing is captured: version, compiling a filter, reading a file.
    pub(super) without_source: bool,
    pub(super) asked: Option<Asked>,
    /// `-Z` was given: the user that tcpdump becomes.
    pub(super) names_user: bool,
    /// `-w`
    write: Option<OsString>,
    /// `-G` or `--print`: what only tcpdump can do with `-w`.
    needs_tcpdump: bool,
    /// `-C`, in bytes
    pub(super) file_bytes: Option<u64>,
    /// `-W`
    pub(super) files: Option<u64>,
    /// `-c`
    pub(super) count: Option<u64>,
    /// `-s`; 0: all.
    pub(super) snaplen: Option<u32>,
    /// The filter expression, with the options that belong to it (`-F`, `-O`).
    pub(super) filter: Vec<OsString>,
}

impl Options {
    /// Returns the file that is to be written here; `-` is standard output.
    pub(super) fn file(&self) -> Option<&OsStr> {
        self.write.as_deref().filter(|_| !self.needs_tcpdump)
    }

    /// Divides the command line.
    ///
    /// # Errors
    /// A value is missing or wrong.
    pub(super) fn read(arguments: &[OsString]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let Some(text) = argument.to_str().filter(|text| text.starts_with('-') && text.len() > 1) else {
                options.passed.push(argument.clone());
                options.filter.push(argument.clone());
                continue;
            };
            let mut next = || {
                rest.next().and_then(|value| value.to_str()).map(str::to_string).ok_or_else(|| format!("{text} needs a value"))
            };
            if text.starts_with("--") {
                options.long(text, &mut next)?;
            } else {
                options.short(text, &mut next)?;
            }
        }
        if options.services.net.is_some() && options.services.all_namespaces {
            return Err("--net and --all-namespaces exclude each other".to_owned());
        }
        Ok(options)
    }

    fn long(&mut self, text: &str, next: &mut dyn FnMut() -> Result<String, String>) -> Result<(), String> {
        let (name, given) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value.to_string())));
        let mut value = || given.clone().map_or_else(&mut *next, Ok);
        match name {
            "--name" => self.services.name = Some(value()?),
            "--net" => self.services.net = Some(value()?.into()),
            "--all-namespaces" => self.services.all_namespaces = true,
            "--interface" => self.interface = Some(value()?),
            "--direction" => self.direction = direction(&value()?)?,
            "--buffer-size" => drop(value()?),
            "--no-promiscuous-mode" | "--immediate-mode" | "--monitor-mode" => {}
            "--help" => self.asked = Some(Asked::Help),
            "--list-interfaces" => self.asked = Some(Asked::Interfaces),
            "--version" => self.pass_without_source(text),
            "--snapshot-length" => self.with_value('s', value()?)?,
            name if LONG_WITH_VALUE.contains(&name) => {
                let value = value()?;
                self.passed.extend([name.into(), value.into()]);
            }
            name => {
                self.needs_tcpdump |= name == "--print";
                self.passed.push(text.into());
            }
        }
        Ok(())
    }

    /// Reads combined letters; the first that takes a value takes the rest of the word or the next word.
    fn short(&mut self, text: &str, next: &mut dyn FnMut() -> Result<String, String>) -> Result<(), String> {
        for (at, letter) in text.char_indices().skip(1) {
            if WITH_VALUE.contains(letter) {
                let joined = &text[at + 1..];
                let value = if joined.is_empty() { next()? } else { joined.to_string() };
                return self.with_value(letter, value);
            }
            match letter {
                'p' | 'I' => {}
                'h' => self.asked = Some(Asked::Help),
                'D' => self.asked = Some(Asked::Interfaces),
                'L' | 'J' | 'd' => self.pass_without_source(&format!("-{letter}")),
                letter => {
                    let option = OsString::from(format!("-{letter}"));
                    if letter == 'O' {
                        self.filter.push(option.clone());
                    }
                    self.passed.push(option);
                }
            }
        }
        Ok(())
    }

    fn with_value(&mut self, letter: char, value: String) -> Result<(), String> {
        match letter {
            'i' => self.interface = Some(value),
            'Q' => self.direction = direction(&value)?,
            'B' | 'j' => {}
            'Z' => {
                self.names_user = true;
                self.passed.extend(["-Z".into(), value.into()]);
            }
            letter => {
                self.without_source |= matches!(letter, 'r' | 'V');
                self.needs_tcpdump |= letter == 'G';
                match letter {
                    'w' => self.write = Some(value.clone().into()),
                    'c' => self.count = Some(positive(&value, "packet count")?),
                    'C' => self.file_bytes = Some(positive(&value, "file size")?.saturating_mul(MILLION)),
                    'W' => self.files = Some(positive(&value, "number of files")?),
                    's' => self.snaplen = Some(value.parse().map_err(|_| format!("invalid snapshot length {value}"))?),
                    'F' => self.filter.extend(["-F".into(), value.clone().into()]),
                    _ => {}
                }
                self.passed.extend([format!("-{letter}").into(), value.into()]);
            }
        }
        Ok(())
    }

    fn pass_without_source(&mut self, text: &str) {
        self.without_source = true;
        self.passed.push(text.into());
    }
}

/// The unit of `-C`, bytes.
const MILLION: u64 = 1_000_000;

fn positive(word: &str, what: &str) -> Result<u64, String> {
    word.parse().ok().filter(|&count| count > 0).ok_or_else(|| format!("invalid {what} {word}"))
}

fn direction(word: &str) -> Result<Option<Direction>, String> {
    match word {
        "in" => Ok(Some(Direction::Received)),
        "out" => Ok(Some(Direction::Sent)),
        "inout" => Ok(None),
        word => Err(format!("expected in, out or inout, got `{word}`")),
    }
}
