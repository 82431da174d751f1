//! Owned sockets: what dropping one does, and when.

use ringway_shm::Duration;

use super::harness::{CLIENT, Pair, SERVER};
use crate::{Event, Net, NetConfig, ReadError, SocketError, TcpListener, TcpStream, UdpSocket};

/// A connection of which both ends are owned: the client's, the server's.
fn owned(pair: &mut Pair, port: u16) -> (TcpStream, TcpStream) {
    let (client, server) = pair.connection(port);
    (TcpStream::from_id(&mut pair.nets[CLIENT], client), TcpStream::from_id(&mut pair.nets[SERVER], server))
}

/// What was written before the drop arrives, then the end; the drop alone gives the next iteration work.
#[test]
fn dropping_a_stream_sends_the_rest_and_fin() {
    let mut pair = Pair::new();
    let (client, server) = owned(&mut pair, 80);
    pair.run_for(Duration::from_millis(10));
    assert_eq!(client.write(&mut pair.nets[CLIENT], b"last words"), Ok(10));
    pair.run_for(Duration::from_millis(10));
    drop(client);
    assert_eq!(pair.nets[CLIENT].poll_timeout(), Some(pair.nets[CLIENT].now()), "there is something to do");
    pair.run_for(Duration::from_millis(10));
    let mut buffer = [0; 16];
    assert_eq!(server.read(&mut pair.nets[SERVER], &mut buffer), Ok(10));
    assert_eq!(server.read(&mut pair.nets[SERVER], &mut buffer), Ok(0));
    drop(server);
    pair.run_for(Duration::from_secs(1));
    assert!(pair.frames_are_all_free());
}

/// As on Linux: a stream that is dropped with unread bytes is reset.
#[test]
fn dropping_a_stream_with_unread_bytes_resets() {
    let mut pair = Pair::new();
    let (client, server) = owned(&mut pair, 80);
    assert_eq!(client.write(&mut pair.nets[CLIENT], b"question"), Ok(8));
    pair.run_for(Duration::from_millis(1));
    drop(server);
    pair.run_for(Duration::from_millis(1));
    assert_eq!(client.error(&mut pair.nets[CLIENT]), Some(SocketError::Reset));
}

/// Bytes of a chunk that is dropped beside its stream were read, in either order of the drops.
#[test]
fn a_chunk_may_be_dropped_after_its_stream() {
    let mut pair = Pair::new();
    let (client, server) = owned(&mut pair, 80);
    assert_eq!(client.write(&mut pair.nets[CLIENT], b"question"), Ok(8));
    pair.run_for(Duration::from_millis(1));
    let chunk = server.read_chunk(&mut pair.nets[SERVER]).expect("it has come").expect("no end");
    drop(server);
    drop(chunk);
    pair.run_for(Duration::from_millis(1));
    assert_eq!(client.read(&mut pair.nets[CLIENT], &mut [0; 8]), Ok(0), "FIN and no RST");
}

/// No event names a stream that was dropped, though it had news before.
#[test]
fn a_dropped_stream_has_no_events() {
    let mut pair = Pair::new();
    let ends: Vec<_> = (80..84).map(|port| owned(&mut pair, port)).collect();
    for (client, _) in &ends {
        assert_eq!(client.write(&mut pair.nets[CLIENT], b"news"), Ok(4));
    }
    pair.nets[CLIENT].turn_at(pair.now);
    pair.nets[SERVER].turn_at(pair.now);
    let mut servers: Vec<_> = ends.into_iter().map(|(_, server)| server).collect();
    let mut named = 0;
    while let Some(event) = pair.nets[SERVER].next_event() {
        let Event::Stream(id, _) = event else { continue };
        assert!(servers.iter().any(|stream| stream.id() == id), "it was dropped");
        named += 1;
        servers.retain(|stream| stream.id() == id);
    }
    assert_eq!(named, 1, "the first event has ended the others");
}

/// A port is free again as soon as its socket is dropped.
#[test]
fn a_dropped_socket_frees_its_port_at_once() {
    let mut net = Net::new(NetConfig::default()).expect("memory");
    let local = "0.0.0.0:7".parse().expect("an address");
    for _ in 0..3 {
        drop(TcpListener::bind(&mut net, local).expect("free"));
        drop(UdpSocket::bind(&mut net, local).expect("free"));
    }
}

/// A socket that was given away outlives the value, until a value takes it over again.
#[test]
fn a_socket_that_was_given_away_stays_open() {
    let mut pair = Pair::new();
    let (client, server) = owned(&mut pair, 80);
    let id = client.into_id();
    pair.run_for(Duration::from_millis(10));
    assert_eq!(id.write(&mut pair.nets[CLIENT], b"open"), Ok(4));
    pair.run_for(Duration::from_millis(1));
    assert_eq!(server.read(&mut pair.nets[SERVER], &mut [0; 8]), Ok(4));
    drop(TcpStream::from_id(&mut pair.nets[CLIENT], id));
    pair.run_for(Duration::from_millis(1));
    assert_eq!(id.read(&mut pair.nets[CLIENT], &mut [0; 8]), Err(ReadError::NotOpen));
    assert_eq!(server.read(&mut pair.nets[SERVER], &mut [0; 8]), Ok(0));
}

/// A value whose socket was closed by its id does not close the next socket with the same index.
#[test]
fn a_late_drop_closes_no_other_socket() {
    let mut pair = Pair::new();
    let (client, _server) = owned(&mut pair, 80);
    client.id().close(&mut pair.nets[CLIENT]);
    let (next, _) = pair.connection(81);
    assert_eq!(next.index(), client.index(), "the index is used again");
    drop(client);
    pair.run_for(Duration::from_millis(1));
    assert_eq!(next.write(&mut pair.nets[CLIENT], b"open"), Ok(4));
}

/// Sockets that outlive their `Net` do nothing when they are dropped.
#[test]
fn sockets_may_outlive_their_net() {
    let mut pair = Pair::new();
    let (client, server) = owned(&mut pair, 80);
    drop(pair);
    drop(client);
    drop(server);
}
