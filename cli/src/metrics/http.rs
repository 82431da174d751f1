//! One page over HTTP/1.1, one request a connection.
//!
//! Promises: a client that sends nothing, too much, or reads nothing keeps others for a second at most. Does not do: TLS, and rights
//! beyond those of the socket.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use super::Place;

/// Bytes of a request's head.
const HEAD_MAX: usize = 8 * 1024;
/// For each read and write.
const PATIENCE: Duration = Duration::from_secs(1);
/// Reads of one request: a client that sends its head in drops is not waited for.
const READS_MAX: usize = 8;

const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers requests for ever.
///
/// # Errors
/// The address or path is taken, or may not be used.
pub(super) fn serve(place: &Place, page: impl Fn() -> io::Result<String>) -> io::Result<()> {
    match place {
        Place::Tcp(address) => {
            let listener = TcpListener::bind(address)?;
            eprintln!("ringway metrics: http://{}/metrics", listener.local_addr()?);
            for stream in listener.incoming() {
                // `Err`: the client has gone, or no descriptor is left for the moment.
                stream.and_then(|stream| patient_tcp(stream).and_then(|stream| answer(stream, &page))).ok();
            }
        }
        Place::Unix(path) => {
            let listener = listen_at(path)?;
            eprintln!("ringway metrics: {}", path.display());
            for stream in listener.incoming() {
                stream.and_then(|stream| patient_unix(stream).and_then(|stream| answer(stream, &page))).ok();
            }
        }
    }
    Ok(())
}

/// A socket at which nothing listens any more is replaced; another file is not.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => match UnixStream::connect(path) {
            Err(refused) if refused.kind() == ErrorKind::ConnectionRefused => {
                fs::remove_file(path)?;
                UnixListener::bind(path)
            }
            _ => Err(error),
        },
        bound => bound,
    }
}

fn patient_tcp(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn patient_unix(stream: UnixStream) -> io::Result<UnixStream> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Reads one request and answers it.
pub(super) fn answer(mut stream: impl Read + Write, page: impl Fn() -> io::Result<String>) -> io::Result<()> {
    let head = head(&mut stream)?;
    let (status, kind, body) = match request(&head) {
        Err(status) => (status, "text/plain; charset=utf-8", format!("{status}\n")),
        Ok(()) => match page() {
            Ok(page) => ("200 OK", TYPE, page),
            Err(error) => ("503 Service Unavailable", "text/plain; charset=utf-8", format!("{error}\n")),
        },
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}

fn head(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_MAX];
    let mut len = 0;
    for _ in 0..READS_MAX {
        let count = stream.read(&mut head[len..])?;
        len += count;
        if count == 0 || len == HEAD_MAX || head[..len].windows(4).any(|end| end == b"\r\n\r\n") {
            break;
        }
    }
    head.truncate(len);
    Ok(head)
}

/// What is wrong with a request (RFC 9110, RFC 9112 §3).
fn request(head: &[u8]) -> Result<(), &'static str> {
    if !head.windows(4).any(|end| end == b"\r\n\r\n") {
        return Err(if head.len() == HEAD_MAX { "431 Request Header Fields Too Large" } else { "400 Bad Request" });
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words.as_slice() else { return Err("400 Bad Request") };
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    match (*method, path) {
        _ if !version.starts_with(b"HTTP/1.") => Err("400 Bad Request"),
        (b"GET", b"/metrics") => Ok(()),
        (b"GET", _) => Err("404 Not Found"),
        _ => Err("405 Method Not Allowed"),
    }
}
