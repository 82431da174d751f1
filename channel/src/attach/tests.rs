//! Messages that are not as they should be.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread;

use super::*;
use crate::{Attachment, CONTEXTS};

const SHAPE: Shape =
    Shape { slots: 128, rx_large: 1, rx_small: 1, tx_large: 1, tx_small: 1, tx_bulk: 1, rx_bulk: 4, rx_middle: 4 };

struct Pair {
    service: ControlConnection,
    application: OwnedFd,
}

fn pair() -> Pair {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("ringway-attach-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    let listener = ControlListener::bind(&path).expect("the path is free");
    let application = sys::connect_local(&path).expect("it listens");
    let service = listener.accept().expect("somebody connected");
    std::fs::remove_file(&path).expect("it was bound");
    Pair { service, application }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("proc is mounted").count()
}

fn expect_nonsense(pair: &Pair, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> &'static str {
    sys::send_message(pair.application.as_fd(), bytes, fds).expect("it listens");
    match pair.service.receive().expect("something came") {
        ClientMessage::Nonsense(text, _) => text,
        other => panic!("taken for good: {other:?}"),
    }
}

const APPLICANT: Applicant =
    Applicant { token: [0; 16], membership: Membership { owner: 33, seal: [5; 16] }, wanted: None, program: Some(PROGRAM) };
const PROGRAM: ProgramFile = ProgramFile { device: 0xfe00, inode: 1 << 40 };

#[test]
fn messages_of_wrong_length_version_or_kind_are_nonsense() {
    let pair = pair();
    assert!(expect_nonsense(&pair, b"hello?", &[]).contains("short"));
    assert!(expect_nonsense(&pair, &[0; MESSAGE_BYTES + 1], &[]).contains("long"));
    assert!(expect_nonsense(&pair, &[0; MESSAGE_BYTES], &[]).contains("not a Ringway"));
    let mut old = Message::new(KIND_HELLO, &[NONE]);
    old.set(1, VERSION + 1);
    assert!(expect_nonsense(&pair, &old.0, &[]).contains("versions"));
    assert!(expect_nonsense(&pair, &Message::new(77, &[]).0, &[]).contains("unknown"));
    let wake_fd = sys::event_descriptor().expect("event descriptors work here");
    let far = Message::new(KIND_CONTEXT, &[CONTEXTS]);
    assert!(expect_nonsense(&pair, &far.0, &[]).contains("numbers"));
    // Wake descriptors are the service's: one that an application brings is nonsense.
    assert!(expect_nonsense(&pair, &Message::new(KIND_CONTEXT, &[0]).0, &[wake_fd.as_fd()]).contains("descriptors"));
    drop(pair.application);
    assert!(matches!(pair.service.receive(), Ok(ClientMessage::Gone)));
}

#[test]
fn descriptors_that_do_not_belong_are_closed() {
    let pair = pair();
    let wake_fd = sys::event_descriptor().expect("event descriptors work here");
    let hello = Message::new(KIND_HELLO, &[NONE]);
    let context = Message::new(KIND_CONTEXT, &[0]);
    // Other tests of this process open descriptors too: so ask about the files, not about the count.
    let (ours, theirs) = UnixStream::pair().expect("local sockets work here");
    ours.set_nonblocking(true).expect("a plain flag");
    for message in [&hello.0[..], &[1, 2, 3]] {
        expect_nonsense(&pair, message, &[theirs.as_fd(), theirs.as_fd()]);
    }
    expect_nonsense(&pair, &Message::new(KIND_CLAIM, &[0, 0, 5]).0, &[theirs.as_fd()]);
    expect_nonsense(&pair, &Message::new(KIND_CLAIM, &[0, 0, 1]).0, &[]);
    expect_nonsense(&pair, &Message::new(KIND_SETTLE, &[]).0, &[theirs.as_fd()]);
    expect_nonsense(&pair, &context.0, &[theirs.as_fd(), wake_fd.as_fd()]);
    drop(theirs);
    use std::io::Read;
    assert_eq!((&ours).read(&mut [0; 1]).expect("end of stream, since nobody has the other end"), 0);
    assert!(open_descriptors() > 0);
}

#[test]
fn a_refusal_arrives_with_its_text() {
    let pair = pair();
    let text = "no: ".to_string() + &"ä".repeat(200);
    pair.service.refuse(&text).expect("it listens");
    let error = greet(pair.application, APPLICANT, 0).err().expect("it was refused");
    match error {
        AttachError::Refused(said) => assert!(text.starts_with(&said) && said.len() > 150, "{said}"),
        other => panic!("{other}"),
    }
    let pair = self::pair();
    pair.service.deny("a rule").expect("it listens");
    let error = greet(pair.application, APPLICANT, 0).err().expect("it was denied");
    assert!(matches!(&error, AttachError::Denied(said) if said == "a rule"), "{error}");
}

#[test]
fn a_service_that_lies_is_refused() {
    let (_worker, region) = Attachment::create(SHAPE).expect("memory files work here");
    let wake_fd = sys::event_descriptor().expect("event descriptors work here");
    let other_shape = Shape { slots: 256, ..SHAPE };
    let no_shape = Shape { slots: 100, ..SHAPE };
    for (shape, process, file) in [
        (other_shape, 0, region.as_fd()),
        (no_shape, 0, region.as_fd()),
        (SHAPE, PROCESSES, region.as_fd()),
        (SHAPE, 0, wake_fd.as_fd()),
    ] {
        let pair = pair();
        pair.service.welcome(shape, process, file, wake_fd.as_fd()).expect("it listens");
        assert!(greet(pair.application, APPLICANT, 0).is_err(), "{shape:?} {process}");
    }
    let pair = pair();
    pair.service.done().expect("it listens");
    assert!(matches!(greet(pair.application, APPLICANT, 0), Err(AttachError::Protocol(_))));
}

#[test]
fn a_service_that_dies_leaves_no_process_waiting() {
    let pair = pair();
    let Pair { service, application } = pair;
    thread::scope(|scope| {
        let greeting = scope.spawn(move || greet(application, APPLICANT, 0).err());
        while !matches!(service.receive(), Ok(ClientMessage::Hello { program: Some(PROGRAM), .. })) {
            thread::yield_now();
        }
        drop(service);
        let error = greeting.join().expect("it came back");
        assert!(matches!(error, Some(AttachError::ServiceGone | AttachError::System(_))));
    });
}

/// A service that is full answers before it reads: on either side of the hello the program learns why.
#[test]
fn a_refusal_is_told_although_the_service_has_read_nothing() {
    let refused = |answer: Option<AttachError>| {
        assert!(matches!(&answer, Some(AttachError::Refused(said)) if said == "full"), "{answer:?}")
    };
    let Pair { service, application } = pair();
    service.refuse("full").expect("there is room");
    drop(service);
    refused(greet(application, APPLICANT, 0).err());
    let Pair { service, application } = pair();
    sys::send_message(application.as_fd(), &Message::new(KIND_HELLO, &[]).0, &[]).expect("there is room");
    service.refuse("full").expect("there is room");
    drop(service);
    refused(receive_answer(application.as_fd()).err());
}

#[test]
fn descriptors_go_above_the_floor() {
    let (_worker, region) = Attachment::create(SHAPE).expect("memory files work here");
    let wake_fd = sys::event_descriptor().expect("event descriptors work here");
    let pair = pair();
    pair.service.welcome(SHAPE, 3, region.as_fd(), wake_fd.as_fd()).expect("it listens");
    let welcome = greet(pair.application, APPLICANT, 500).expect("all is well");
    assert!(welcome.wake_fd.as_raw_fd() >= 500 && welcome.control.as_raw_fd() >= 500);
    assert_eq!(welcome.process, 3);
}
