use std::net::TcpListener;
use std::thread::spawn;

use super::*;

fn arguments(server: SocketAddr, connections: u32) -> Arguments {
    Arguments { language: Language::Memcached, server, connections, seconds: 1, short: false, once: false }
}

/// Serves one connection: answers each read with `reply`, until the peer closes.
fn serve(listener: &TcpListener, reply: impl Fn(&[u8]) -> Vec<u8>) {
    let (mut stream, _) = listener.accept().expect("a client connects");
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&reply(&buffer[..count])).is_err() {
            break;
        }
    }
}

#[test]
fn a_right_answer_is_taken_and_a_wrong_one_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let server = listener.local_addr().expect("it is bound");
    let dialogue = Language::Memcached.dialogue();
    let right = dialogue.reply.clone();
    let thread = spawn(move || {
        serve(&listener, |_| right.clone());
        serve(&listener, |_| vec![b'x'; right.len()]);
    });
    once(server, &dialogue.request, &dialogue.reply).expect("the right reply");
    let error = once(server, &dialogue.request, &dialogue.reply).expect_err("a wrong reply").to_string();
    assert!(error.starts_with("the reply is wrong: \"xxx"), "{error}");
    thread.join().expect("the server ends with its connections");
}

#[test]
fn a_closed_loop_counts_only_whole_and_right_replies() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let server = listener.local_addr().expect("it is bound");
    let dialogue = Language::Memcached.dialogue();
    let right = dialogue.reply.clone();
    let thread = spawn(move || serve(&listener, |_| right.clone()));
    let mut asker = Asker::new(&arguments(server, 1), &dialogue).expect("connected");
    let mut events = Events::with_capacity(8);
    while asker.latencies.count() < 3 {
        asker.poll.poll(&mut events, Some(LONGEST_WAIT)).expect("events come");
        assert!(!events.is_empty(), "no reply came");
        for event in &events {
            asker.advance(event.token().0).expect("all replies are right");
        }
    }
    drop(asker);
    thread.join().expect("the server ends with its connection");
}
