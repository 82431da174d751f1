//! Futures: with the executor of the API, with another one, and dropped in the middle.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use ringway_shm::{Duration, Instant};
use ringway_stack::{SocketSummary, State};

use super::harness::{CLIENT, Pair, SERVER, address, pattern};
use crate::futures::{Elapsed, Runtime, TcpListener, TcpStream, UdpSocket};
use crate::{ReadError, SocketError, WriteError};

/// Two runtimes on a wire in virtual time.
pub(super) struct Hosts {
    now: Instant,
    pub(super) runtimes: [Runtime; 2],
}

impl Hosts {
    pub(super) fn new() -> Hosts {
        let Pair { now, nets, .. } = Pair::new();
        Hosts { now, runtimes: nets.map(Runtime::new) }
    }

    fn step(&mut self) {
        let mut worked = false;
        for runtime in &self.runtimes {
            worked |= runtime.turn_at(self.now) | runtime.run_woken();
        }
        let next = self.now + Duration::from_micros(20);
        let due = self.runtimes.iter().filter_map(|runtime| runtime.with(|net| net.poll_timeout())).min();
        self.now = if worked { next } else { due.unwrap_or(next).max(next) };
    }

    pub(super) fn run_until(&mut self, mut done: impl FnMut() -> bool) {
        for _ in 0..1_000_000 {
            if done() {
                return;
            }
            self.step();
        }
        panic!("it takes too long");
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.runtimes.iter().for_each(Runtime::cancel_all);
    }
}

async fn echo(stream: TcpStream) -> Result<(), Box<dyn std::error::Error>> {
    while let Some(chunk) = stream.read_chunk().await? {
        stream.write_chunk(chunk).await?;
    }
    Ok(())
}

/// Ten clients with a megabyte each and a server with a task per connection: everything comes back, the server copies
/// nothing, and all tasks end.
#[test]
fn tasks_serve_many_connections() {
    let mut hosts = Hosts::new();
    let [server, client] = hosts.runtimes.clone();
    let listener = TcpListener::bind(&server, address(SERVER, 7)).expect("free");
    let spawner = server.clone();
    server.spawn_local(async move {
        while let Ok(stream) = listener.accept().await {
            spawner.spawn_local(async move { echo(stream).await.expect("no reset") });
        }
    });
    let finished = Rc::new(Cell::new(0));
    for seed in 0..10 {
        let (runtime, finished) = (client.clone(), finished.clone());
        client.spawn_local(async move {
            let stream = Rc::new(TcpStream::connect(&runtime, address(SERVER, 7)).await.expect("it listens"));
            let bytes = Rc::new(pattern(1 << 20, seed));
            let (writer, to_write) = (stream.clone(), bytes.clone());
            let writing = runtime.spawn_local(async move {
                writer.write_all(&to_write).await?;
                writer.shutdown_write();
                Ok::<(), WriteError>(())
            });
            let (mut got, mut buffer) = (Vec::new(), vec![0; 10_000]);
            loop {
                match stream.read(&mut buffer).await.expect("no reset") {
                    0 => break,
                    count => got.extend_from_slice(&buffer[..count]),
                }
            }
            assert!(got == *bytes);
            assert_eq!(writing.await, Ok(()));
            finished.set(finished.get() + 1);
        });
    }
    hosts.run_until(|| finished.get() == 10);
    assert_eq!(server.with(|net| net.copied_bytes()), 0);
}

/// A refused connection is an error of `connect`, a reset one of `read`.
#[test]
fn failures_end_futures() {
    let mut hosts = Hosts::new();
    let [server, client] = hosts.runtimes.clone();
    let runtime = client.clone();
    let refused = client.spawn_local(async move { TcpStream::connect(&runtime, address(SERVER, 9)).await.err() });
    let mut error = None;
    hosts.run_until(|| {
        error = refused.take().flatten();
        error.is_some()
    });
    assert_eq!(error.map(|error| error.kind()), Some(std::io::ErrorKind::ConnectionRefused));
    let listener = TcpListener::bind(&server, address(SERVER, 7)).expect("free");
    server.spawn_local(async move { listener.accept().await.expect("one comes").abort() });
    let runtime = client.clone();
    let reset = client.spawn_local(async move {
        let stream = TcpStream::connect(&runtime, address(SERVER, 7)).await.expect("it listens");
        stream.read(&mut [0; 8]).await
    });
    let mut answer = None;
    hosts.run_until(|| {
        answer = reset.take();
        answer.is_some()
    });
    assert_eq!(answer, Some(Err(ReadError::Failed(SocketError::Reset))));
}

/// A read, an accept and a sleep that time out have taken nothing: all later data is there.
#[test]
fn futures_that_are_dropped_lose_nothing() {
    let mut hosts = Hosts::new();
    let [server, client] = hosts.runtimes.clone();
    let listener = TcpListener::bind(&server, address(SERVER, 7)).expect("free");
    let runtime = server.clone();
    let got = server.spawn_local(async move {
        let ms = std::time::Duration::from_millis;
        assert!(matches!(runtime.timeout(ms(5), listener.accept()).await, Err(Elapsed)));
        let stream = listener.accept().await.expect("one comes");
        let (mut tries, mut got, mut buffer) = (0, Vec::new(), [0; 3]);
        while got.len() < 6 {
            match runtime.timeout(ms(2), stream.read(&mut buffer)).await {
                Ok(count) => got.extend_from_slice(&buffer[..count.expect("no reset")]),
                Err(Elapsed) => tries += 1,
            }
        }
        assert!(tries >= 2, "it has waited in vain before");
        assert!(runtime.timeout(ms(1), runtime.sleep(ms(100))).await.is_err());
        got
    });
    let runtime = client.clone();
    client.spawn_local(async move {
        runtime.sleep(std::time::Duration::from_millis(10)).await;
        let stream = TcpStream::connect(&runtime, address(SERVER, 7)).await.expect("it listens");
        for part in [b"abc", b"def"] {
            runtime.sleep(std::time::Duration::from_millis(10)).await;
            stream.write_all(part).await.expect("it is open");
        }
        stream.read(&mut [0; 1]).await.ok();
    });
    let mut answer = None;
    hosts.run_until(|| {
        answer = got.take();
        answer.is_some()
    });
    assert_eq!(answer.as_deref(), Some(&b"abcdef"[..]));
    let due = server.with(|net| net.parts().0.timers.poll_timeout());
    assert_eq!(due, None, "the timers of the futures that were dropped are stopped");
}

/// Dropping a connecting future gives up the attempt; dropping a stream closes it.
#[test]
fn dropping_closes() {
    let mut hosts = Hosts::new();
    let [server, client] = hosts.runtimes.clone();
    let mut connecting = Box::pin(TcpStream::connect(&client, address(SERVER, 7)));
    assert!(connecting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(connecting);
    let listener = TcpListener::bind(&server, address(SERVER, 8)).expect("free");
    let ended = server.spawn_local(async move {
        let stream = listener.accept().await.expect("one comes");
        stream.read(&mut [0; 8]).await
    });
    let runtime = client.clone();
    client.spawn_local(async move {
        let stream = TcpStream::connect(&runtime, address(SERVER, 8)).await.expect("it listens");
        // Also where the `Net` is borrowed.
        runtime.with(|_| drop(stream));
    });
    let mut answer = None;
    hosts.run_until(|| {
        answer = ended.take();
        answer.is_some()
    });
    assert_eq!(answer, Some(Ok(0)));
    let end = hosts.now + Duration::from_secs(1);
    while hosts.now < end {
        hosts.step();
    }
    for runtime in &hosts.runtimes {
        let mut open = 0;
        let count = &mut |socket: &SocketSummary| open += u32::from(socket.state != State::TimeWait);
        runtime.with(|net| net.stack().for_each_socket(count));
        assert_eq!(open, 0, "connections and the listener are closed");
    }
}

/// Datagrams as futures.
#[test]
fn datagrams_can_be_awaited() {
    let mut hosts = Hosts::new();
    let [server, client] = hosts.runtimes.clone();
    let socket = UdpSocket::bind(&server, address(SERVER, 53)).expect("free");
    server.spawn_local(async move {
        while let Ok(question) = socket.recv_chunk().await {
            socket.send_to(&question.bytes(), question.from()).await.expect("room");
        }
    });
    let runtime = client.clone();
    let answer = client.spawn_local(async move {
        let socket = UdpSocket::bind(&runtime, address(CLIENT, 0)).expect("free");
        socket.send_to(b"anybody?", address(SERVER, 53)).await.expect("room");
        let mut buffer = [0; 100];
        let (count, from) = socket.recv_from(&mut buffer).await.expect("it is open");
        assert_eq!(from, address(SERVER, 53));
        buffer[..count].to_vec()
    });
    let mut got = None;
    hosts.run_until(|| {
        got = answer.take();
        got.is_some()
    });
    assert_eq!(got.as_deref(), Some(&b"anybody?"[..]));
}

/// An executor that knows nothing of Ringway: it polls one future each time its flag was raised.
struct Foreign {
    raised: Arc<Flag>,
    future: RefCell<Pin<Box<dyn Future<Output = Vec<u8>>>>>,
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The same futures work in another executor that calls `turn`, and are polled only when something has happened.
#[test]
fn futures_work_in_another_executor() {
    let mut hosts = Hosts::new();
    let [server, client] = hosts.runtimes.clone();
    let listener = TcpListener::bind(&server, address(SERVER, 7)).expect("free");
    server.spawn_local(async move { echo(listener.accept().await.expect("one comes")).await.expect("no reset") });
    let foreign = Foreign {
        raised: Arc::new(Flag(AtomicBool::new(true))),
        future: RefCell::new(Box::pin(async move {
            let stream = TcpStream::connect(&client, address(SERVER, 7)).await.expect("it listens");
            stream.write_all(b"hello").await.expect("it is open");
            stream.shutdown_write();
            let mut got = Vec::new();
            while let Some(chunk) = stream.read_chunk().await.expect("no reset") {
                got.extend_from_slice(&chunk);
            }
            got
        })),
    };
    let (mut polls, mut answer) = (0, None);
    hosts.run_until(|| {
        if foreign.raised.0.swap(false, Ordering::SeqCst) {
            polls += 1;
            let waker = Waker::from(foreign.raised.clone());
            if let Poll::Ready(got) = foreign.future.borrow_mut().as_mut().poll(&mut Context::from_waker(&waker)) {
                answer = Some(got);
            }
        }
        answer.is_some()
    });
    assert_eq!(answer.as_deref(), Some(&b"hello"[..]));
    assert!(polls <= 5, "polled {polls} times");
}

/// `block_on` sleeps until a waker is used on another thread, and polls only woken tasks.
#[test]
fn a_wake_from_another_thread_ends_the_sleep() {
    let [net, _] = Pair::new().nets;
    let runtime = Runtime::new(net);
    let flag = Arc::new(AtomicBool::new(false));
    let (seen, polls, waking) = (flag.clone(), Rc::new(Cell::new(0)), Cell::new(None));
    let counted = polls.clone();
    let answer = runtime.block_on(std::future::poll_fn(move |context| {
        counted.set(counted.get() + 1);
        if seen.load(Ordering::SeqCst) {
            return Poll::Ready(42);
        }
        let (waker, flag) = (context.waker().clone(), flag.clone());
        waking.set(Some(std::thread::spawn(move || {
            flag.store(true, Ordering::SeqCst);
            waker.wake();
        })));
        Poll::Pending
    }));
    assert_eq!(answer.ok(), Some(42));
    assert_eq!(polls.get(), 2);
    runtime.cancel_all();
}
