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

use ringway::{Chunk, Event, Net, NetConfig, ReadError, TcpListener, TcpStream, TcpStreamId, WriteError};

/// One connection of a pair.
struct Side {
    stream: TcpStream,
    /// The other one.
    peer: TcpStreamId,
    /// A chunk of this side that waits for space on the other.
    kept: Option<Chunk>,
    /// This side has sent everything, and the FIN was passed on.
    finished: bool,
}

/// The proxy.
pub(crate) struct Proxy {
    listener: TcpListener,
    upstream: SocketAddr,
    /// Indexed by [`TcpStreamId::index`].
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
                Event::Stream(id, _) => self.pump_both(net, id),
                _ => {}
            }
        }
    }

    fn join(&mut self, net: &mut Net, client: TcpStream) {
        let Ok(server) = TcpStream::connect(net, self.upstream) else { return client.abort(net) };
        let ids = [client.id(), server.id()];
        for (stream, peer) in [(client, ids[1]), (server, ids[0])] {
            let index = stream.index();
            if self.sides.len() <= index {
                self.sides.resize_with(index + 1, || None);
            }
            self.sides[index] = Some(Side { stream, peer, kept: None, finished: false });
        }
    }

    /// Pumps both directions: an event of one connection may concern its reading or its writing.
    fn pump_both(&mut self, net: &mut Net, id: TcpStreamId) {
        let Some(peer) = self.sides.get(id.index()).and_then(Option::as_ref).map(|side| side.peer) else { return };
        let flows = [self.pump(net, id), self.pump(net, peer)];
        let is_broken = flows.contains(&Flow::Broken);
        if !is_broken && flows != [Flow::Finished, Flow::Finished] {
            return;
        }
        for side in [id, peer].map(|id| self.sides[id.index()].take()).into_iter().flatten() {
            // Dropping a connection closes it, in order; a broken one is reset.
            if is_broken {
                side.stream.abort(net);
            }
        }
    }

    /// Moves received data from one side to the other.
    fn pump(&mut self, net: &mut Net, from: TcpStreamId) -> Flow {
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
