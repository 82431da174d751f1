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

use ringway::NetConfig;
use ringway::{Chunk, Event, Net, ReadError, TcpListener, TcpStream, WriteError};

/// The server: its listener, and for each connection the chunk that waits for space.
pub(crate) struct Echo {
    listener: TcpListener,
    /// Indexed by [`TcpStream::index`].
    kept: Vec<Option<Chunk>>,
}

impl Echo {
    /// Creates a server on a listener.
    pub(crate) fn new(listener: TcpListener) -> Echo {
        Echo { listener, kept: Vec::new() }
    }

    /// Handles the events of an iteration.
    pub(crate) fn serve(&mut self, net: &mut Net) {
        while let Some(event) = net.next_event() {
            match event {
                Event::Listener(_) => while self.listener.accept(net).is_ok() {},
                Event::Stream(stream, _) => self.echo(net, stream),
                _ => {}
            }
        }
    }

    fn echo(&mut self, net: &mut Net, stream: TcpStream) {
        if self.kept.len() <= stream.index() {
            self.kept.resize_with(stream.index() + 1, || None);
        }
        let kept = &mut self.kept[stream.index()];
        loop {
            let chunk = match kept.take().map_or_else(|| stream.read_chunk(net), |chunk| Ok(Some(chunk))) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return stream.close(net),
                Err(ReadError::WouldBlock) => return,
                Err(_) => return stream.abort(net),
            };
            if let Err(rejected) = stream.write_chunk(net, chunk) {
                if rejected.error != WriteError::WouldBlock {
                    return stream.abort(net);
                }
                // An event follows when there is space.
                *kept = Some(rejected.item);
                return;
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
