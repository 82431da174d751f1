//! An echo server: received data goes back in the frames in which it came.
//!
//! ```text
//! cargo run --release --example echo -- tap:ring0=10.7.0.2/24 10.7.0.2:7 &
//! ip address add 10.7.0.1/24 dev ring0 && ip link set ring0 up
//! echo hello | socat - TCP:10.7.0.2:7
//! ```
//! It shows the event loop, and what to do when there is no space: keep the chunk. While it is kept, the sender's
//! window stays closed by as much, so a client that does not read its answers stops by itself.

use std::error::Error;

use ringway::{Chunk, Event, Net, NetConfig, ReadError, TcpListener, TcpStream, TcpStreamId, WriteError};

/// A connection. It closes when it is dropped.
struct Client {
    stream: TcpStream,
    /// A chunk that waits for space.
    kept: Option<Chunk>,
}

/// The server.
pub(crate) struct Echo {
    listener: TcpListener,
    /// Indexed by [`TcpStreamId::index`].
    clients: Vec<Option<Client>>,
}

impl Echo {
    /// Creates a server on a listener.
    pub(crate) fn new(listener: TcpListener) -> Echo {
        Echo { listener, clients: Vec::new() }
    }

    /// Handles the events of an iteration.
    pub(crate) fn serve(&mut self, net: &mut Net) {
        while let Some(event) = net.next_event() {
            match event {
                Event::Listener(_) => {
                    while let Ok(stream) = self.listener.accept(net) {
                        self.welcome(stream);
                    }
                }
                Event::Stream(id, _) => self.serve_client(net, id),
                _ => {}
            }
        }
    }

    fn welcome(&mut self, stream: TcpStream) {
        let index = stream.index();
        if self.clients.len() <= index {
            self.clients.resize_with(index + 1, || None);
        }
        self.clients[index] = Some(Client { stream, kept: None });
    }

    fn serve_client(&mut self, net: &mut Net, id: TcpStreamId) {
        let Some(client) = &mut self.clients[id.index()] else { return };
        match client.echo(net) {
            Ok(true) => {}
            // Answers that were not yet sent still are.
            Ok(false) => self.clients[id.index()] = None,
            Err(_) => {
                let ended = self.clients[id.index()].take();
                ended.into_iter().for_each(|client| client.stream.abort(net));
            }
        }
    }
}

impl Client {
    /// Sends back what has arrived; returns false when the client has sent everything.
    fn echo(&mut self, net: &mut Net) -> Result<bool, Box<dyn Error>> {
        loop {
            let chunk = match self.kept.take().map_or_else(|| self.stream.read_chunk(net), |chunk| Ok(Some(chunk))) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(false),
                Err(ReadError::WouldBlock) => return Ok(true),
                Err(error) => return Err(error.into()),
            };
            if let Err(rejected) = self.stream.write_chunk(net, chunk) {
                if rejected.error != WriteError::WouldBlock {
                    return Err(rejected.error.into());
                }
                // An event follows when there is space.
                self.kept = Some(rejected.item);
                return Ok(true);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, address] = &arguments[..] else {
        return Err("usage: echo INTERFACE ADDRESS:PORT, as in: echo tap:ring0=10.7.0.2/24 10.7.0.2:7".into());
    };
    let mut net = Net::new(NetConfig::default())?;
    net.open(interface)?;
    let mut server = Echo::new(TcpListener::bind(&mut net, address.parse()?)?);
    loop {
        net.wait()?;
        server.serve(&mut net);
    }
}
