//! The expressions of ss(8)'s filters: ports, addresses and prefixes with `and`, `or`, `not` and parentheses.
//!
//! ```text
//!   either  = both { or both }
//!   both    = one { [and] one }
//!   one     = not one | ( either ) | sport COMPARISON :PORT | src [COMPARISON] ADDRESS
//! ```

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ringway_service::config::{Cidr, parse_cidr};
use ringway_shm::stats::{Endpoint, SocketRecord};

/// Parentheses and `not` inside each other.
const DEPTH_MAX: usize = 64;

/// What a socket must be.
#[derive(Debug, PartialEq)]
pub(super) enum Expression {
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Not(Box<Expression>),
    Port(End, RangeInclusive<u16>),
    Address(End, Cidr, Option<u16>),
}

/// One of a socket's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Local,
    Peer,
}

impl End {
    fn of(self, socket: &SocketRecord) -> &Endpoint {
        match self {
            End::Local => &socket.local,
            End::Peer => &socket.remote,
        }
    }
}

impl Expression {
    /// Reads all tokens; none: every socket.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn read(tokens: &[String]) -> Result<Expression, String> {
        let mut reader = Reader { tokens, depth: 0 };
        if tokens.is_empty() {
            return Ok(Expression::All(Vec::new()));
        }
        let expression = reader.either()?;
        match reader.tokens.first() {
            None => Ok(expression),
            Some(token) => Err(format!("`{token}` is one too many")),
        }
    }

    /// Returns true for a socket that is so.
    pub(super) fn holds(&self, socket: &SocketRecord) -> bool {
        match self {
            Expression::All(parts) => parts.iter().all(|part| part.holds(socket)),
            Expression::Any(parts) => parts.iter().any(|part| part.holds(socket)),
            Expression::Not(part) => !part.holds(socket),
            Expression::Port(end, ports) => ports.contains(&end.of(socket).port),
            Expression::Address(end, prefix, port) => {
                let Endpoint { ip, port: known } = *end.of(socket);
                prefix.contains(ip) && port.is_none_or(|port| port == known)
            }
        }
    }
}

/// Splits words into tokens: parentheses and signs stand alone, also where no space is beside them.
pub(super) fn tokens(words: &[String]) -> Vec<String> {
    let mut tokens = Vec::new();
    for word in words.iter().flat_map(|word| word.split_whitespace()) {
        let mut rest = word;
        while let Some(first) = rest.chars().next() {
            let signs = ["==", "!=", ">=", "<=", "&&", "||", "(", ")", "!", "=", ">", "<", "&", "|"];
            let sign = signs.into_iter().find(|sign| rest.starts_with(sign));
            let plain = rest.find(|letter: char| "()!=<>&|".contains(letter)).unwrap_or(rest.len());
            let len = sign.map_or(plain.max(first.len_utf8()), str::len);
            tokens.push(rest[..len].to_owned());
            rest = &rest[len..];
        }
    }
    tokens
}

struct Reader<'a> {
    tokens: &'a [String],
    depth: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<&str> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn is_next(&self, words: &[&str]) -> bool {
        self.tokens.first().is_some_and(|token| words.contains(&token.as_str()))
    }

    fn either(&mut self) -> Result<Expression, String> {
        let mut parts = vec![self.both()?];
        while self.is_next(&["or", "|", "||"]) {
            self.next();
            parts.push(self.both()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::Any(parts) })
    }

    fn both(&mut self) -> Result<Expression, String> {
        let mut parts = vec![self.one()?];
        loop {
            if self.is_next(&["and", "&", "&&"]) {
                self.next();
            } else if self.tokens.is_empty() || self.is_next(&["or", "|", "||", ")"]) {
                return Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::All(parts) });
            }
            parts.push(self.one()?);
        }
    }

    fn one(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("it has too many parentheses".to_owned());
        }
        let found = match self.next().ok_or("the filter ends too early")?.to_owned().as_str() {
            "not" | "!" => Expression::Not(Box::new(self.one()?)),
            "(" => {
                let inner = self.either()?;
                match self.next() {
                    Some(")") => inner,
                    _ => return Err("a `)` is missing".to_owned()),
                }
            }
            "sport" => self.port(End::Local)?,
            "dport" => self.port(End::Peer)?,
            "src" => self.address(End::Local)?,
            "dst" => self.address(End::Peer)?,
            other => return Err(format!("unknown filter word `{other}`; see ringway ss --help")),
        };
        self.depth -= 1;
        Ok(found)
    }

    /// The sign of a comparison, in signs; equal where none stands.
    fn comparison(&mut self) -> &'static str {
        let names: [(&[&str], &str); 6] = [
            (&["=", "==", "eq"], "="),
            (&["!=", "ne", "neq"], "!="),
            (&[">=", "ge", "geq"], ">="),
            (&["<=", "le", "leq"], "<="),
            (&[">", "gt"], ">"),
            (&["<", "lt"], "<"),
        ];
        let found = names.into_iter().find(|(words, _)| self.is_next(words));
        if found.is_some() {
            self.next();
        }
        found.map_or("=", |(_, sign)| sign)
    }

    fn port(&mut self, end: End) -> Result<Expression, String> {
        let sign = self.comparison();
        let text = self.next().ok_or("a port is missing")?;
        let ports = ports(text)?;
        let (first, last) = (*ports.start(), *ports.end());
        if first != last && !["=", "!="].contains(&sign) {
            return Err(format!("`{text}` are several ports"));
        }
        let is_in = |ports| Expression::Port(end, ports);
        Ok(match sign {
            "!=" => Expression::Not(Box::new(is_in(ports))),
            ">=" => is_in(first..=u16::MAX),
            "<=" => is_in(0..=first),
            ">" => Expression::Not(Box::new(is_in(0..=first))),
            "<" => Expression::Not(Box::new(is_in(first..=u16::MAX))),
            _ => is_in(ports),
        })
    }

    fn address(&mut self, end: End) -> Result<Expression, String> {
        let sign = self.comparison();
        let text = self.next().ok_or("an address is missing")?;
        let found = match text.strip_prefix(':').or(text.strip_prefix("*:")) {
            Some(port) => Expression::Port(end, ports(port)?),
            None => prefix(text).map(|(prefix, port)| Expression::Address(end, prefix, port))?,
        };
        match sign {
            "=" => Ok(found),
            "!=" => Ok(Expression::Not(Box::new(found))),
            other => Err(format!("addresses are equal or not, `{other}` says neither")),
        }
    }
}

/// `:80`, `80` or `8000-8099`.
fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let wrong = || format!("expected a port number, got `{text}`");
    let text = text.trim_start_matches(':');
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
    if first <= last { Ok(first..=last) } else { Err(wrong()) }
}

/// `10.0.0.1`, `10.0.0.0/8`, `10.0.0.1:80`, `::1`, `[::1]:80`, `[fe80::]/10`.
fn prefix(text: &str) -> Result<(Cidr, Option<u16>), String> {
    let wrong = || format!("`{text}` is not an address");
    let whole = |text: &str| match text.parse::<IpAddr>() {
        Ok(ip) => Some(Cidr { ip, prefix_len: if ip.is_ipv4() { 32 } else { 128 } }),
        Err(_) => parse_cidr(text),
    };
    let (ip, rest) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some(parts) => parts,
        None if whole(text).is_some() => (text, ""),
        None => text.split_at(text.rfind(':').ok_or_else(wrong)?),
    };
    match rest.split_at_checked(1) {
        None => Ok((whole(ip).ok_or_else(wrong)?, None)),
        Some(("/", _)) => Ok((whole(&format!("{ip}{rest}")).ok_or_else(wrong)?, None)),
        Some((":", port)) => Ok((whole(ip).ok_or_else(wrong)?, Some(port.parse().map_err(|_| wrong())?))),
        Some(_) => Err(wrong()),
    }
}
