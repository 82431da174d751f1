//! An HTTP/1.1 server for the files of one folder, with a task per connection. Read RFC 9112 first.
//!
//! ```text
//! cargo run --release --example http -- tap:ring0=10.7.0.2/24 10.7.0.2:80 ./public &
//! ip address add 10.7.0.1/24 dev ring0 && ip link set ring0 up
//! curl http://10.7.0.2/index.html
//! ```
//! It shows the futures: persistent connections, pipelining and a limit on idle time in straight code. The files are
//! read once, at the start, and sent in place. It supports GET and HEAD, but no request bodies or ranges.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use ringway::NetConfig;
use ringway::futures::{Runtime, TcpListener, TcpStream};
use ringway::{Content, Net, TcpOptions};

/// Most bytes of a request's head.
const HEAD_MAX: usize = 8 << 10;
/// Longest idle time of a connection.
const IDLE: Duration = Duration::from_secs(60);

/// The content: bytes by path.
pub(crate) type Site = HashMap<String, Content>;

/// Serves until the listener is closed.
pub(crate) async fn serve(runtime: Runtime, listener: TcpListener, site: Rc<Site>) {
    while let Ok(stream) = listener.accept().await {
        let (runtime, site) = (runtime.clone(), site.clone());
        runtime.clone().spawn_local(async move {
            // An error ends this connection only, and the client has been told.
            converse(&runtime, &stream, &site).await.ok();
        });
    }
}

/// Answers the requests of one connection, one after the other.
async fn converse(runtime: &Runtime, stream: &TcpStream, site: &Site) -> Result<(), Box<dyn Error>> {
    let mut input = Vec::new();
    let nothing = Content::new([]);
    loop {
        let Some(end) = input.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|at| at + 4) else {
            if input.len() > HEAD_MAX {
                let persists = false;
                return answer(stream, "431 Request Header Fields Too Large", &nothing, Body::Send, persists).await;
            }
            match runtime.timeout(IDLE, stream.read_chunk()).await?? {
                Some(chunk) => input.extend_from_slice(&chunk),
                None => return Ok(()),
            }
            continue;
        };
        let persists = match Request::parse(&input[..end]) {
            Some(request) => respond(stream, site, &request).await?,
            None => {
                let persists = false;
                answer(stream, "400 Bad Request", &nothing, Body::Send, persists).await?;
                persists
            }
        };
        if !persists {
            return Ok(());
        }
        input.drain(..end);
    }
}

/// A parsed request.
struct Request<'a> {
    method: &'a str,
    path: &'a str,
    persists: bool,
}

impl Request<'_> {
    fn parse(head: &[u8]) -> Option<Request<'_>> {
        let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !version.starts_with("HTTP/1.") || !target.starts_with('/') {
            return None;
        }
        // RFC 9112 §9.3: persistent by default; before HTTP/1.1 not persistent by default.
        let mut persists = version != "HTTP/1.0";
        for line in lines.take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "connection" if value.eq_ignore_ascii_case("close") => persists = false,
                "connection" if value.eq_ignore_ascii_case("keep-alive") => persists = true,
                // A body would be taken for the next request.
                "content-length" if value != "0" => return None,
                "transfer-encoding" => return None,
                _ => {}
            }
        }
        let path = target.split(['?', '#']).next().unwrap_or(target);
        Some(Request { method, path, persists })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Body {
    Send,
    Omit,
}

/// Answers a request; returns true if the connection persists.
async fn respond(stream: &TcpStream, site: &Site, request: &Request<'_>) -> Result<bool, Box<dyn Error>> {
    let body = if request.method == "HEAD" { Body::Omit } else { Body::Send };
    let persists = request.persists;
    let path = if request.path == "/" { "/index.html" } else { request.path };
    match (request.method, site.get(path)) {
        ("GET" | "HEAD", Some(content)) => answer(stream, "200 OK", content, body, persists).await?,
        ("GET" | "HEAD", None) => answer(stream, "404 Not Found", &Content::new(*b"not found\n"), body, persists).await?,
        _ => answer(stream, "405 Method Not Allowed", &Content::new([]), body, persists).await?,
    }
    Ok(persists)
}

async fn answer(stream: &TcpStream, status: &str, content: &Content, body: Body, persists: bool) -> Result<(), Box<dyn Error>> {
    let connection = if persists { "keep-alive" } else { "close" };
    let length = content.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    if body == Body::Send {
        stream.write_content(content).await?;
    }
    Ok(())
}

fn load(folder: &Path, prefix: &str, site: &mut Site) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            load(&entry.path(), &name, site)?;
        } else {
            site.insert(name, Content::new(std::fs::read(entry.path())?));
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, address, folder] = &arguments[..] else {
        return Err("usage: http INTERFACE ADDRESS:PORT FOLDER".into());
    };
    let mut site = Site::new();
    load(Path::new(folder), "", &mut site)?;
    let mut net = Net::new(NetConfig::default())?;
    net.open(interface)?;
    let runtime = Runtime::new(net);
    let options = TcpOptions { no_delay: true, ..TcpOptions::default() };
    let listener = TcpListener::bind_with(&runtime, address.parse()?, 1024, options)?;
    runtime.block_on(serve(runtime.clone(), listener, Rc::new(site)))?;
    Ok(())
}
