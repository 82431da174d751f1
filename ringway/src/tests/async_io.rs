//! Code that takes any `AsyncRead` and `AsyncWrite`, over streams of a `Net` and of a service.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;

use futures_io::{AsyncRead, AsyncWrite};

use super::futures::Hosts;
use super::harness::{CLIENT, SERVER, address, pattern};
use crate::futures::{TcpListener, TcpStream};

/// Sends back everything until the end; then closes.
pub(crate) async fn echo(mut reader: impl AsyncRead + Unpin, mut writer: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut buffer = [0; 3_000];
    loop {
        let count = poll_fn(|context| Pin::new(&mut reader).poll_read(context, &mut buffer)).await?;
        if count == 0 {
            return poll_fn(|context| Pin::new(&mut writer).poll_close(context)).await;
        }
        write_all(&mut writer, &buffer[..count]).await?;
        poll_fn(|context| Pin::new(&mut writer).poll_flush(context)).await?;
    }
}

/// Writes everything in two parts.
pub(crate) async fn write_all(mut writer: impl AsyncWrite + Unpin, bytes: &[u8]) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        let (head, tail) = bytes[sent..].split_at((bytes.len() - sent) / 2);
        let parts = [IoSlice::new(head), IoSlice::new(tail)];
        sent += poll_fn(|context| Pin::new(&mut writer).poll_write_vectored(context, &parts)).await?;
    }
    Ok(())
}

/// Reads, into two buffers, until the end.
pub(crate) async fn read_to_end(mut reader: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let (mut all, mut first, mut second) = (Vec::new(), [0; 100], [0; 1_000]);
    loop {
        let mut parts = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        let count = poll_fn(|context| Pin::new(&mut reader).poll_read_vectored(context, &mut parts)).await?;
        if count == 0 {
            return Ok(all);
        }
        all.extend_from_slice(&first[..count.min(100)]);
        all.extend_from_slice(&second[..count.saturating_sub(100)]);
    }
}

/// Half a megabyte, more than the buffers hold, goes there and back while one task reads and another writes.
#[test]
fn any_stream_will_do() {
    let mut hosts = Hosts::new();
    let [server, client] = hosts.runtimes.clone();
    let listener = TcpListener::bind(&server, address(SERVER, 7)).expect("free");
    server.spawn_local(async move {
        let stream = listener.accept().await.expect("one comes");
        echo(&stream, &stream).await
    });
    let bytes = pattern(500_000, 3);
    let (sent, runtime) = (bytes.clone(), client.clone());
    let answer = hosts.runtimes[CLIENT].spawn_local(async move {
        let stream = std::rc::Rc::new(TcpStream::connect(&runtime, address(SERVER, 7)).await.expect("it listens"));
        let writer = stream.clone();
        runtime.spawn_local(async move {
            write_all(&*writer, &sent).await.expect("it is open");
            poll_fn(|context| Pin::new(&mut &*writer).poll_close(context)).await.expect("it is open");
        });
        read_to_end(&*stream).await
    });
    let mut got = None;
    hosts.run_until(|| {
        got = answer.take();
        got.is_some()
    });
    assert!(got.expect("run_until waited for it").expect("no reset") == bytes);
}

/// A stream that has failed gives the error of `std::net`.
#[test]
fn a_failure_is_an_io_error() {
    let mut hosts = Hosts::new();
    let [server, client] = hosts.runtimes.clone();
    let listener = TcpListener::bind(&server, address(SERVER, 7)).expect("free");
    server.spawn_local(async move { listener.accept().await.expect("one comes").abort() });
    let runtime = client.clone();
    let answer = client.spawn_local(async move {
        let stream = TcpStream::connect(&runtime, address(SERVER, 7)).await.expect("it listens");
        read_to_end(stream).await.map_err(|error| error.kind())
    });
    let mut got = None;
    hosts.run_until(|| {
        got = answer.take();
        got.is_some()
    });
    assert_eq!(got, Some(Err(io::ErrorKind::ConnectionReset)));
}
