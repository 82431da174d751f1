use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use super::*;

/// Writes what waits in `queue`; returns what standard error has got, and what the record has.
pub(in crate::log) fn written(queue: &Queue, directory: &Path) -> (String, String) {
    let (mut reader, writer) = pipe();
    let path = directory.join("x.log");
    let lines = lock(&queue.waiting).take().expect("no thread has it");
    let mut ours = Writer::new(Some(Record::open(&path).expect("a folder of ours")), queue.lost.clone());
    let mut errors = File::from(writer);
    ours.drain(&lines, &mut errors);
    drop(errors);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("a pipe");
    (text, std::fs::read_to_string(path).expect("a record"))
}

fn pipe() -> (File, OwnedFd) {
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    (File::from(reader), writer)
}

fn line(sink: Sink, text: &str) -> Line {
    Line { sink, text: format!("{text}\n"), level: Level::INFO, target: String::new(), left_out: 0 }
}

pub(in crate::log) fn folder(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("ringway-log-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a folder of ours");
    path
}

#[test]
fn standard_error_that_is_full_costs_the_record_nothing_and_says_so_later() {
    let (mut reader, writer) = pipe();
    let mut errors = File::from(writer);
    let folder = folder("full");
    let mut ours = Writer::new(Some(Record::open(&folder.join("x.log")).expect("a folder of ours")), Arc::default());
    // More than a pipe holds.
    for _ in 0..200 {
        ours.take(Message::Line(line(Sink::Errors, &"x".repeat(1_000))), &mut errors);
        ours.take(Message::Line(line(Sink::Record, "kept")), &mut errors);
    }
    assert_eq!(std::fs::read_to_string(folder.join("x.log")).expect("a record").lines().count(), 200);
    let unread = ours.unread;
    let mut text = vec![0; 1 << 16];
    let read = reader.read(&mut text).expect("a pipe");
    assert!(unread > 0 && read as u64 == (200 - unread) * 1_001, "{unread} lines");
    let said = said_while(|| ours.take(Message::Line(line(Sink::Errors, "later")), &mut errors));
    assert!(said.contains(&format!("{unread} lines were lost there")), "{said}");
    std::fs::remove_dir_all(folder).expect("a folder of ours");
}

/// What the log says of itself during `work`.
fn said_while(work: impl FnOnce()) -> String {
    let queue = Queue::new();
    let layer = tracing_subscriber::fmt::layer().with_writer(Door::new(&queue, Sink::Errors, Form::Plain));
    use tracing_subscriber::layer::SubscriberExt;
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
    waiting_in(&queue)
}

/// The text that waits in `queue`, whatever it is for.
pub(in crate::log) fn waiting_in(queue: &Queue) -> String {
    let lines = lock(&queue.waiting).take().expect("no thread has it");
    lines.try_iter().map(|message| if let Message::Line(line) = message { line.text } else { String::new() }).collect()
}

#[test]
fn what_was_left_out_or_found_no_room_is_said() {
    let (_reader, writer) = pipe();
    let mut errors = File::from(writer);
    let mut ours = Writer::new(None, Arc::default());
    let left_out = |target: &str| Line { left_out: 3, target: target.to_owned(), ..line(Sink::Record, "the next") };
    let said = said_while(|| ours.take(Message::Line(left_out("ringway::attach")), &mut errors));
    assert!(said.contains(" WARN ") && said.contains("3 lines of ringway::attach were left out"), "{said}");
    // Those that only the record has are no matter for standard error.
    let quiet = Line { level: Level::DEBUG, ..left_out("ringway::attach") };
    let said = said_while(|| ours.take(Message::Line(quiet), &mut errors));
    assert!(said.contains("DEBUG ") && said.contains("3 lines of ringway::attach were left out"), "{said}");
    // Of its own lines it says nothing, so that this has an end.
    assert_eq!(said_while(|| ours.take(Message::Line(left_out(OWN_TARGET)), &mut errors)), "");
    let (_sender, none) = sync_channel(1);
    ours.lost.store(7, Ordering::Relaxed);
    let said = said_while(|| ours.drain(&none, &mut errors));
    assert!(said.contains("7 lines of the log were lost"), "{said}");
}

#[test]
fn a_flood_of_lines_returns_at_once_and_is_counted() {
    let queue = Queue::new();
    (0..CAPACITY * 3).for_each(|_| queue.push(line(Sink::Errors, "one of very many")));
    assert_eq!(queue.lost.load(Ordering::Relaxed) as usize, CAPACITY * 2);
}

#[test]
fn the_record_is_bounded() {
    let folder = folder("bounded");
    let path = folder.join("x.log");
    let mut record = Record::open(&path).expect("a folder of ours");
    let text = format!("{}\n", "x".repeat(99_999));
    (0..35).for_each(|_| record.write(&text).expect("a disk with room"));
    let size = |path: &Path| std::fs::metadata(path).expect("a file").len();
    assert_eq!((size(&path), size(&crate::log::record_before(&path))), (500_000, 1_000_000));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    std::fs::remove_dir_all(folder).expect("a folder of ours");
}

#[test]
fn what_the_journal_does_not_take_is_a_line_on_standard_error() {
    let folder = folder("entries");
    let path = folder.join("socket");
    let (mut reader, writer) = pipe();
    let mut errors = File::from(writer);
    let mut ours = Writer::new(None, Arc::default());
    ours.journal = Journal::at(&path);
    let entry = line(Sink::Journal, "MESSAGE=said\nPRIORITY=6\nRINGWAY_PID=7");
    ours.take(Message::Line(entry), &mut errors);
    let socket = std::os::unix::net::UnixDatagram::bind(&path).expect("a folder of ours");
    ours.take(Message::Line(line(Sink::Journal, "MESSAGE=entered")), &mut errors);
    drop(errors);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("a pipe");
    assert_eq!(text, "<6>said\n");
    let mut room = [0; 64];
    let len = socket.recv(&mut room).expect("it was sent");
    assert_eq!(room[..len], *b"MESSAGE=entered\n");
    std::fs::remove_dir_all(folder).expect("a folder of ours");
}
