//! A file holds what `check-trace` and the tcpdump program read; what cannot be written is said with its name.
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use ringway_device::Medium;
use ringway_shm::capture::Direction;
use ringway_trace::capture;

use super::*;

const INTERFACES: [Interface<'static>; 2] =
    [Interface { name: "eth0", medium: Medium::Ethernet }, Interface { name: "eth1", medium: Medium::Ethernet }];

/// A frame with UDP without payload, from port 9 to this one.
fn datagram(port: u8) -> Vec<u8> {
    let ip = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 9, 0, port, 0, 8, 0, 0];
    [&[0; 12][..], &[8, 0], &ip].concat()
}

struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        Temporary(std::env::temp_dir().join(format!("ringway-sink-{}-{name}", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let removed = if self.0.is_dir() { std::fs::remove_dir(&self.0) } else { std::fs::remove_file(&self.0) };
        removed.expect("the test made it");
    }
}

fn open(line: &str, file: &std::path::Path) -> io::Result<Sink> {
    let words = line.split_whitespace().map(OsString::from).chain(["-w".into(), file.into()]);
    Sink::open(&Options::read(&words.collect::<Vec<_>>()).expect("a command line of the test"), &INTERFACES, 65_600)
}

/// Writes datagrams to the ports 1 to 4 and ends the file.
fn fill(mut sink: Sink) -> (u32, bool) {
    let mut written = 0;
    for port in 1..=4 {
        let direction = Some(if port % 2 == 0 { Direction::Sent } else { Direction::Received });
        let packet = datagram(port);
        let record = Record { interface: u32::from(port) % 2, direction, ..Record::whole(u64::from(port), &packet) };
        written += u32::from(sink.write(&record).expect("a temporary file"));
    }
    let open = sink.is_open().expect("no program is asked");
    assert!(sink.finish(9, 3).expect("a temporary file").is_none(), "no tcpdump");
    (written, open)
}

/// Reads the times, which are the ports, and how the file ended.
fn read(bytes: &[u8]) -> (Vec<u64>, capture::Ending) {
    let mut seen = Vec::new();
    let ending = capture::read(bytes, &mut |packet| seen.push(packet.nanos)).expect("a capture file");
    (seen, ending)
}

#[test]
fn files_are_read_by_us_and_by_tcpdump() {
    let file = Temporary::new("all");
    assert_eq!(fill(open("", &file.0).expect("a temporary file")), (4, true));
    let bytes = std::fs::read(&file.0).expect("it was written");
    assert_eq!(read(&bytes), (vec![1, 2, 3, 4], capture::Ending { truncated: false, dropped: 3 }));
    let (seen, ending) = read(&bytes[..bytes.len() - 60]);
    assert!(ending.truncated && seen.len() < 4, "a file that was cut off");
    let printed = Command::new("tcpdump").args(["-nr"]).arg(&file.0).output().expect("tcpdump is installed");
    let printed = String::from_utf8_lossy(&[printed.stdout, printed.stderr].concat()).into_owned();
    assert_eq!(printed.matches("IP 10.0.0.1.9 > 10.0.0.2.").count(), 4, "{printed}");
}

#[test]
fn filters_counts_and_lengths_are_kept() {
    let file = Temporary::new("filtered");
    assert_eq!(fill(open("dst port 2 or dst port 4", &file.0).expect("tcpdump is installed")), (2, true));
    assert_eq!(read(&std::fs::read(&file.0).expect("it was written")).0, [2, 4]);
    let file = Temporary::new("counted");
    assert_eq!(fill(open("-c 3 -s 20", &file.0).expect("a temporary file")), (3, false));
    let bytes = std::fs::read(&file.0).expect("it was written");
    capture::read(&bytes[..], &mut |packet| assert_eq!((packet.bytes.len(), packet.original_len), (20, 42))).expect("whole");
}

#[test]
fn what_cannot_be_written_is_named() {
    for (file, reason) in [("/dev/full", "No space left on device"), ("/nonexistent/file", "No such file or directory")] {
        let error = open("", file.as_ref()).err().expect("it cannot be written").to_string();
        assert!(error.starts_with(&format!("cannot write {file}: {reason}")), "{error}");
    }
}

/// A pipe whose reader goes away after the first write. A real one may stay open: a child that another test starts has its
/// ends until exec.
struct Leaving(bool);

impl Write for Leaving {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if std::mem::replace(&mut self.0, true) { Err(ErrorKind::BrokenPipe.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The reader of a pipe may go away: that ends the capture and is no error.
#[test]
fn a_closed_pipe_ends_the_capture() {
    let mut sink = Sink::new(Counted::new(Box::new(Leaving(false))), "-".into(), &INTERFACES, 65_600).expect("the pipe is open");
    assert!(sink.is_open().expect("no program is asked"));
    assert!(sink.write(&Record::whole(1, &datagram(1))).expect("buffered"));
    sink.flush().expect("no error");
    assert!(!sink.is_open().expect("no program is asked"));
}

/// A file takes one packet here.
#[test]
fn full_files_are_followed_by_others_and_written_anew() {
    let folder = Temporary::new("turned");
    std::fs::create_dir(&folder.0).expect("it is the test's own");
    for (line, expected) in [
        ("-C 1", &[("out", 1), ("out1", 2), ("out2", 3), ("out3", 4)][..]),
        ("-C 1 -W 3", &[("out0", 4), ("out1", 2), ("out2", 3)]),
        ("-C 1 -W 10", &[("out00", 1), ("out01", 2), ("out02", 3), ("out03", 4)]),
    ] {
        let mut sink = open(line, &folder.0.join("out")).expect("a temporary file");
        sink.files.as_mut().expect("there is a size").shrink();
        assert_eq!(fill(sink), (4, true));
        for (name, port) in expected {
            let file = folder.0.join(name);
            let (seen, _) = read(&std::fs::read(&file).unwrap_or_else(|error| panic!("{line}: {name}: {error}")));
            assert_eq!(seen, [*port], "{line}: {name}");
            std::fs::remove_file(file).expect("it is there");
        }
    }
    assert_eq!(std::fs::read_dir(&folder.0).expect("it is there").count(), 0, "no other file was made");
    let words: Vec<OsString> = ["-C", "1", "-w", "-"].map(OsString::from).to_vec();
    assert!(Sink::open(&Options::read(&words).expect("words"), &INTERFACES, 65_600).is_err());
}
