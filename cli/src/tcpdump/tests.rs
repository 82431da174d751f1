use ringway_shm::capture::Direction;

use super::*;

fn options(line: &str) -> Options {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    Options::read(&words).expect("a command line of the test")
}

fn passed(options: &Options) -> String {
    options.passed.iter().map(|word| word.to_str().expect("ASCII")).collect::<Vec<_>>().join(" ")
}

/// Options of the live source are taken out; all others reach tcpdump.
#[test]
fn the_source_is_ours_and_the_rest_is_tcpdumps() {
    let read = options("-nnei veth1 -c5 -s 96 -w out.pcap --name test tcp port 80");
    assert_eq!(passed(&read), "-n -n -e -c 5 -s 96 -w out.pcap tcp port 80");
    assert_eq!((read.interface.as_deref(), read.services.name.as_deref()), (Some("veth1"), Some("test")));
    assert!(!read.without_source);
}

#[test]
fn directions_are_filtered_here() {
    assert_eq!(options("-Q in").direction, Some(Direction::Received));
    assert_eq!(options("-Qout -n").direction, Some(Direction::Sent));
    assert_eq!(options("--direction=inout").direction, None);
    assert!(Options::read(&["-Q".into(), "up".into()]).is_err());
    assert!(Options::read(&["-i".into()]).is_err());
}

#[test]
fn help_and_files_need_no_service() {
    for (line, asked) in [("-h", Asked::Help), ("--help", Asked::Help), ("-D", Asked::Interfaces), ("-nD", Asked::Interfaces)] {
        assert_eq!(options(line).asked, Some(asked), "{line}");
    }
    for line in ["--version", "-r file.pcap", "-d tcp"] {
        let read = options(line);
        assert!(read.without_source, "{line}");
        assert_eq!(passed(&read), line);
    }
}

/// The file of `-w` is written here, with the filter, the count and the length that tcpdump would have used.
#[test]
fn files_are_ours_unless_only_tcpdump_can_write_them() {
    let read = options("-c5 -w out.pcapng -Os96 tcp port 80 -F more");
    assert_eq!(read.file().and_then(|file| file.to_str()), Some("out.pcapng"));
    assert_eq!((read.count, read.snaplen), (Some(5), Some(96)));
    let filter: Vec<&str> = read.filter.iter().map(|word| word.to_str().expect("ASCII")).collect();
    assert_eq!(filter, ["-O", "tcp", "port", "80", "-F", "more"]);
    assert_eq!(options("--snapshot-length 64 -w x").snaplen, Some(64));
    assert_eq!(options("--linktype EN10MB -w x tcp").filter, ["tcp"]);
    for line in ["-w out -C 5 -G 60", "-G 60 -w out", "-w out --print", "tcp"] {
        assert_eq!(options(line).file(), None, "{line}");
    }
    let turned = options("-w out -C 5 -W 10");
    assert_eq!((turned.file_bytes, turned.files, turned.file().is_some()), (Some(5_000_000), Some(10), true));
    for line in ["-c 0", "-c x", "-s x", "-C 0", "-C 1k", "-W 0"] {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        assert!(Options::read(&words).is_err(), "{line}");
    }
}

#[test]
fn a_missing_tcpdump_is_named_with_what_goes_without_it() {
    let said = cannot_start(&io::ErrorKind::NotFound.into()).to_string();
    assert!(said.contains("apt install tcpdump") && said.contains("ringway trace :PORT"), "{said}");
    assert!(cannot_start(&io::ErrorKind::PermissionDenied.into()).to_string().contains("permission denied"));
}
