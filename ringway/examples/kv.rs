//! A key-value store that speaks the text protocol of memcached: `get`, `set`, `delete`, `version`, `quit`.
//!
//! ```text
//! cargo run --release --example kv -- tap:ring0=10.7.0.2/24 10.7.0.2:11211 &
//! ip address add 10.7.0.1/24 dev ring0 && ip link set ring0 up
//! printf 'set greeting 0 0 5\r\nhello\r\nget greeting\r\nquit\r\n' | socat - TCP:10.7.0.2:11211
//! ```
//! It shows small requests and answers without a copy: a request within one chunk is parsed in place, and the answers
//! are written into the frames that carry them. Expiry times are read and ignored; the store has a limit in bytes.

use std::collections::HashMap;
use std::error::Error;
use std::io::Write;

use ringway::{Event, Net, NetConfig, ReadError, TcpListener, TcpOptions, TcpStream, TcpStreamId, WriteError};

/// Most bytes of a command line.
const LINE_MAX: usize = 512;
/// Most bytes of a value.
const VALUE_MAX: usize = 1 << 20;
/// Bytes of waiting answers after which no more requests are parsed.
const OUTPUT_MAX: usize = 64 << 10;
/// Most bytes of all keys and values.
const STORE_MAX: usize = 1 << 30;

/// Stored values.
#[derive(Default)]
pub(crate) struct Store {
    values: HashMap<Vec<u8>, Value>,
    bytes: usize,
}

struct Value {
    flags: u32,
    bytes: Vec<u8>,
}

/// One client.
#[derive(Default)]
struct Client {
    /// An incomplete request.
    input: Vec<u8>,
    /// Answers that wait for space.
    output: Vec<u8>,
    /// Close after the last answer.
    leaving: bool,
}

/// The server.
pub(crate) struct Server {
    listener: TcpListener,
    store: Store,
    /// Indexed by [`TcpStreamId::index`].
    clients: Vec<Client>,
}

impl Server {
    /// Creates an empty server.
    pub(crate) fn new(listener: TcpListener) -> Server {
        Server { listener, store: Store::default(), clients: Vec::new() }
    }

    /// Handles the events of an iteration.
    pub(crate) fn serve(&mut self, net: &mut Net) {
        while let Some(event) = net.next_event() {
            match event {
                Event::Listener(_) => {
                    // The ids of events are all that this server needs: it closes connections by them.
                    while let Ok(stream) = self.listener.accept(net).map(TcpStream::into_id) {
                        if self.clients.len() <= stream.index() {
                            self.clients.resize_with(stream.index() + 1, Client::default);
                        }
                        self.clients[stream.index()] = Client::default();
                    }
                }
                Event::Stream(stream, _) => self.converse(net, stream),
                _ => {}
            }
        }
    }

    fn converse(&mut self, net: &mut Net, stream: TcpStreamId) {
        let client = &mut self.clients[stream.index()];
        loop {
            // A client that does not take its answers is not read.
            match flush(net, stream, &mut client.output) {
                Ok(()) if client.leaving => return stream.close(net),
                Ok(()) => {}
                Err(WriteError::WouldBlock) => return,
                Err(_) => return stream.abort(net),
            }
            if !client.input.is_empty() {
                let input = std::mem::take(&mut client.input);
                let understood = answer_all(&mut self.store, &input, client);
                client.input = input;
                client.input.drain(..understood);
                if understood > 0 || client.leaving {
                    continue;
                }
            }
            let chunk = match stream.read_chunk(net) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return stream.close(net),
                Err(ReadError::WouldBlock) => return,
                Err(_) => return stream.abort(net),
            };
            let understood = if client.input.is_empty() { answer_all(&mut self.store, &chunk, client) } else { 0 };
            client.input.extend_from_slice(&chunk[understood..]);
            stream.release(net, chunk);
        }
    }
}

/// Sends answers, written into the frames that carry them; those without space stay.
fn flush(net: &mut Net, stream: TcpStreamId, output: &mut Vec<u8>) -> Result<(), WriteError> {
    let mut sent = 0;
    while sent < output.len() {
        let mut room = match stream.reserve(net, output.len() - sent) {
            Ok(room) => room,
            Err(error) => {
                output.drain(..sent);
                return Err(error);
            }
        };
        let count = room.len();
        room.copy_from_slice(&output[sent..sent + count]);
        stream.commit(net, room, count).map_err(|rejected| rejected.error)?;
        sent += count;
    }
    output.clear();
    Ok(())
}

/// Answers the complete requests in `input`, until there is much to send; returns their number of bytes.
fn answer_all(store: &mut Store, input: &[u8], client: &mut Client) -> usize {
    let mut at = 0;
    while !client.leaving && client.output.len() < OUTPUT_MAX {
        match store.answer(&input[at..], &mut client.output) {
            Some(Step::Understood(count)) => at += count,
            Some(Step::Quit) => client.leaving = true,
            None => break,
        }
    }
    at
}

/// Result of parsing the beginning of the input.
enum Step {
    /// A request of so many bytes was answered.
    Understood(usize),
    /// The client quits, or its input is invalid.
    Quit,
}

impl Store {
    /// Answers the request at the beginning of `input`; `None`: it is incomplete.
    fn answer(&mut self, input: &[u8], output: &mut Vec<u8>) -> Option<Step> {
        let Some(end) = input.windows(2).position(|pair| pair == b"\r\n") else {
            if input.len() > LINE_MAX {
                output.extend_from_slice(b"CLIENT_ERROR line too long\r\n");
                return Some(Step::Quit);
            }
            return None;
        };
        let line = end + 2;
        let mut words = input[..end].split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        match words.next() {
            Some(b"get") => {
                words.for_each(|key| self.get(key, output));
                output.extend_from_slice(b"END\r\n");
            }
            Some(b"set") => {
                let Some((key, flags, len)) = set_arguments(words) else {
                    output.extend_from_slice(b"CLIENT_ERROR bad command line format\r\n");
                    return Some(Step::Quit);
                };
                let data = input.get(line..line + len + 2)?;
                let stored: &[u8] = match data.strip_suffix(b"\r\n") {
                    Some(bytes) if self.set(key, flags, bytes) => b"STORED\r\n",
                    Some(_) => b"SERVER_ERROR out of memory storing object\r\n",
                    None => {
                        output.extend_from_slice(b"CLIENT_ERROR bad data chunk\r\n");
                        return Some(Step::Quit);
                    }
                };
                output.extend_from_slice(stored);
                return Some(Step::Understood(line + len + 2));
            }
            Some(b"delete") => {
                let deleted = words.next().is_some_and(|key| self.delete(key));
                output.extend_from_slice(if deleted { b"DELETED\r\n" } else { b"NOT_FOUND\r\n" });
            }
            Some(b"version") => output.extend_from_slice(b"VERSION ringway-kv\r\n"),
            Some(b"quit") => return Some(Step::Quit),
            _ => output.extend_from_slice(b"ERROR\r\n"),
        }
        Some(Step::Understood(line))
    }

    fn get(&self, key: &[u8], output: &mut Vec<u8>) {
        if let Some(value) = self.values.get(key) {
            output.extend_from_slice(b"VALUE ");
            output.extend_from_slice(key);
            write!(output, " {} {}\r\n", value.flags, value.bytes.len()).expect("a vector takes everything");
            output.extend_from_slice(&value.bytes);
            output.extend_from_slice(b"\r\n");
        }
    }

    fn set(&mut self, key: &[u8], flags: u32, bytes: &[u8]) -> bool {
        self.delete(key);
        if self.bytes + key.len() + bytes.len() > STORE_MAX {
            return false;
        }
        self.bytes += key.len() + bytes.len();
        self.values.insert(key.to_vec(), Value { flags, bytes: bytes.to_vec() });
        true
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        let removed = self.values.remove(key);
        self.bytes -= removed.as_ref().map_or(0, |value| key.len() + value.bytes.len());
        removed.is_some()
    }
}

/// Key, flags and length of a `set`.
fn set_arguments<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<(&'a [u8], u32, usize)> {
    let key = words.next()?;
    let mut number = || std::str::from_utf8(words.next()?).ok()?.parse::<u32>().ok();
    let (flags, _expires, len) = (number()?, number()?, number()? as usize);
    (len <= VALUE_MAX).then_some((key, flags, len))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, address] = &arguments[..] else {
        return Err("usage: kv INTERFACE ADDRESS:PORT".into());
    };
    let mut net = Net::new(NetConfig::default())?;
    net.open(interface)?;
    let options = TcpOptions { no_delay: true, ..TcpOptions::default() };
    let mut server = Server::new(TcpListener::bind_with(&mut net, address.parse()?, 1024, options)?);
    loop {
        net.wait()?;
        server.serve(&mut net);
    }
}
