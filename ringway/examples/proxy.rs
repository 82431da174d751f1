//! A TCP proxy: each connection is joined with one to the upstream server; payload goes through in the frames in which
//! it came, never copied.
//!
//! ```text
//! cargo run --release --example proxy -- packet:veth1=10.7.0.2/24 10.7.0.2:8080 10.7.0.1:80
//! ```
//! It shows half-closed connections and end-to-end back pressure: while one side does not read, its chunk is kept, and
//! the window of the other side closes.

use std::error::Error;
use std::net::SocketAddr;

use ringway::NetConfig;
use ringway::{Chunk, Event, Net, ReadError, TcpListener, TcpStream, WriteError};

/// One connection of a pair.
struct Side {
    /// The other one.
    peer: TcpStream,
    /// A chunk of this side that waits for space on the other.
    kept: Option<Chunk>,
    /// This side has sent everything, and the FIN was passed on.
    finished: bool,
}

/// The proxy.
pub(crate) struct Proxy {
    listener: TcpListener,
    upstream: SocketAddr,
    /// Indexed by [`TcpStream::index`].
    sides: Vec<Option<Side>>,
}

/// State of a direction.
#[derive(PartialEq)]
enum Flow {
    Open,
    Finished,
    Broken,
}

impl Proxy {
    /// Creates a proxy from a listener to a server.
    pub(crate) fn new(listener: TcpListener, upstream: SocketAddr) -> Proxy {
        Proxy { listener, upstream, sides: Vec::new() }
    }

    /// Handles the events of an iteration.
    pub(crate) fn serve(&mut self, net: &mut Net) {
        while let Some(event) = net.next_event() {
            match event {
                Event::Listener(_) => {
                    while let Ok(client) = self.listener.accept(net) {
                        self.join(net, client);
                    }
                }
                Event::Stream(stream, _) => self.pump_both(net, stream),
                _ => {}
            }
        }
    }

    fn join(&mut self, net: &mut Net, client: TcpStream) {
        let Ok(server) = TcpStream::connect(net, self.upstream) else { return client.abort(net) };
        for (stream, peer) in [(client, server), (server, client)] {
            if self.sides.len() <= stream.index() {
                self.sides.resize_with(stream.index() + 1, || None);
            }
            self.sides[stream.index()] = Some(Side { peer, kept: None, finished: false });
        }
    }

    /// Pumps both directions: an event of one connection may concern its reading or its writing.
    fn pump_both(&mut self, net: &mut Net, stream: TcpStream) {
        let Some(peer) = self.sides.get(stream.index()).and_then(Option::as_ref).map(|side| side.peer) else { return };
        let flows = [self.pump(net, stream), self.pump(net, peer)];
        if flows.contains(&Flow::Broken) {
            stream.abort(net);
            peer.abort(net);
        } else if flows == [Flow::Finished, Flow::Finished] {
            stream.close(net);
            peer.close(net);
        } else {
            return;
        }
        self.sides[stream.index()] = None;
        self.sides[peer.index()] = None;
    }

    /// Moves received data from one side to the other.
    fn pump(&mut self, net: &mut Net, from: TcpStream) -> Flow {
        let Some(side) = self.sides.get_mut(from.index()).and_then(Option::as_mut) else { return Flow::Broken };
        if side.finished {
            return Flow::Finished;
        }
        loop {
            let chunk = match side.kept.take().map_or_else(|| from.read_chunk(net), |chunk| Ok(Some(chunk))) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => {
                    side.peer.shutdown_write(net);
                    side.finished = true;
                    return Flow::Finished;
                }
                Err(ReadError::WouldBlock) => return Flow::Open,
                Err(_) => return Flow::Broken,
            };
            if let Err(rejected) = side.peer.write_chunk(net, chunk) {
                if rejected.error != WriteError::WouldBlock {
                    return Flow::Broken;
                }
                side.kept = Some(rejected.item);
                return Flow::Open;
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, address, upstream] = &arguments[..] else {
        return Err("usage: proxy INTERFACE ADDRESS:PORT SERVER:PORT".into());
    };
    let mut net = Net::new(NetConfig::default())?;
    net.open(interface)?;
    let listener = TcpListener::bind(&mut net, address.parse()?)?;
    let mut proxy = Proxy::new(listener, upstream.parse()?);
    loop {
        net.wait()?;
        proxy.serve(&mut net);
    }
}
