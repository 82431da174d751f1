//! The machine's list of programs that are on Ringway without `ringway run`: a line `PATH` or `PATH SERVICE` for each, `#` for remarks.
//!
//! `ringway enable --program` writes it, the library reads it in each program that /etc/ld.so.preload loads it into. Does not do: patterns.

use std::ffi::CStr;

/// Where it is.
pub const LIST: &CStr = c"/etc/ringway/programs";
/// What of it is read.
pub const LIST_BYTES: usize = 16 << 10;
/// The service of a line that names none.
pub const LISTED_SERVICE: &str = "default";

/// Path and service of each line of a list. A last line without its end may have been cut, and is left out.
pub fn entries(list: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = list.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    lines.filter_map(|line| {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let path = words.next().filter(|path| path.starts_with(b"/"))?;
        let service = words.next().unwrap_or(LISTED_SERVICE.as_bytes());
        words.next().is_none().then_some((path, service))
    })
}

/// The service that the list has for the program at `path`; `None`: it is not listed.
pub fn listed<'a>(list: &'a [u8], path: &[u8]) -> Option<&'a [u8]> {
    entries(list).find(|(program, _)| *program == path).map(|(_, service)| service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_listed_by_its_whole_path() {
        let list = b"# programs\n/usr/sbin/nginx\n\n  /usr/bin/redis-server\tred \nsocat\n/usr/bin/a b c\n/usr/bin/cut";
        assert_eq!(listed(list, b"/usr/sbin/nginx"), Some(&b"default"[..]));
        assert_eq!(listed(list, b"/usr/bin/redis-server"), Some(&b"red"[..]));
        for other in [&b"/usr/sbin/ngin"[..], b"/usr/sbin/nginx2", b"nginx", b"socat", b"/usr/bin/a", b"/usr/bin/cut", b"#", b""]
        {
            assert_eq!(listed(list, other), None, "{}", String::from_utf8_lossy(other));
        }
        assert_eq!(entries(list).count(), 2);
    }
}
