//! Callers without a right, of another version, or that talk nonsense start nothing.
use super::*;

/// What the agent of a port with this token answers to these lines.
fn heard(token: &str, lines: &str) -> (io::Result<()>, Vec<Reply>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let (served, _) = listener.accept().expect("it is connected");
    let port = Port { token: token.into(), measures: Mutex::new(()), callers: AtomicUsize::new(1) };
    (&client).write_all(lines.as_bytes()).expect("there is room");
    client.shutdown(std::net::Shutdown::Write).expect("it is connected");
    let end = serve(&served, &port);
    drop(served);
    let mut from = BufReader::new(client);
    (end, std::iter::from_fn(|| take(&mut from).expect("lines of the agent's")).collect())
}

fn hello(protocol: u32, token: &str) -> String {
    format!("{{\"Hello\":{{\"protocol\":{protocol},\"token\":\"{token}\"}}}}\n")
}

fn refused(lines: &str) -> String {
    match heard("a token of sixteen", lines).1.as_slice() {
        [Reply::Failed(why)] => why.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_caller_without_the_token_is_refused_whatever_it_says() {
    let start = "{\"Clock\":null}\n";
    for token in ["", "a token of sixteem", "a token of sixteen and more"] {
        assert!(refused(&(hello(PROTOCOL, token) + start)).contains("not the agent's token"), "{token}");
    }
    assert!(refused("\"Clock\"\n").contains("Hello"));
}

#[test]
fn another_form_is_named() {
    assert!(refused(&hello(PROTOCOL + 1, "a token of sixteen")).contains("use the same ringway"));
}

#[test]
fn a_session_answers_in_order_and_says_what_it_cannot_do() {
    let calls = "\"Clock\"\n\"Used\"\n{\"Stop\":{\"connections\":1}}\n{\"Order\":\"Release\"}\n\"Counts\"\n";
    let calls = hello(PROTOCOL, "a token of sixteen") + calls;
    let (end, replies) = heard("a token of sixteen", &calls);
    end.expect("it ends with the caller");
    let [Reply::Welcome { .. }, Reply::Clock(now), failed @ .., Reply::Counted(_)] = &replies[..] else { panic!("{replies:?}") };
    let failed: Vec<_> =
        failed.iter().map(|reply| if let Reply::Failed(why) = reply { why } else { panic!("{reply:?}") }).collect();
    assert!(*now > 0 && failed == ["no server runs", "no server runs", "no client runs"], "{failed:?}");
}

#[test]
fn nonsense_and_endless_lines_end_the_connection() {
    // The last one is as long as a line may be: what is unread at the end would make it a reset.
    let hello = hello(PROTOCOL, "a token of sixteen");
    for lines in ["{\"Run\":\"/bin/sh\"}\n".to_string(), "\"Clock\"".into(), "x".repeat(1 << 16)] {
        let (end, replies) = heard("a token of sixteen", &(hello.clone() + &lines));
        assert_eq!(end.expect_err("no call").kind(), io::ErrorKind::InvalidData, "{:.40}", lines);
        assert_eq!(replies.len(), 1, "Welcome alone");
    }
}

#[test]
fn one_measurement_runs_at_a_time() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let mut client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let (served, _) = listener.accept().expect("it is connected");
    let port = Port { token: "a token of sixteen".into(), measures: Mutex::new(()), callers: AtomicUsize::new(1) };
    let _running = port.measures.lock().expect("nothing has panicked");
    client.write_all(hello(PROTOCOL, &port.token).as_bytes()).expect("there is room");
    serve(&served, &port).expect("it was told");
    let reply: Option<Reply> = take(&mut BufReader::new(client)).expect("a line");
    assert_eq!(reply, Some(Reply::Failed("another measurement runs here".into())));
}
