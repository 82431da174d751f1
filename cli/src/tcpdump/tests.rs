use super::*;
use ringway_shm::Instant;

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
    assert_eq!((read.interface.as_deref(), read.name.as_deref()), (Some("veth1"), Some("test")));
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
    for line in ["--version", "-h", "-r file.pcap", "-d tcp", "-D"] {
        let read = options(line);
        assert!(read.without_source, "{line}");
        assert_eq!(passed(&read), line);
    }
}

/// The stream's layout, byte for byte (pcap-savefile(5)).
#[test]
fn packets_become_a_pcap_stream() {
    let header = pcap::file_header(pcap::LINK_ETHERNET, 0x1_0040);
    assert_eq!(header, [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 1, 0, 1, 0, 0, 0]);
    let packet = Packet {
        number: 0,
        time: Instant::from_nanos(0),
        interface: 0,
        direction: Direction::Sent,
        original_len: 1500,
        bytes: vec![7, 8, 9],
    };
    let mut stream = Vec::new();
    pcap::append_packet(&mut stream, 2_000_000_005, &packet);
    assert_eq!(stream, [2, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 0xdc, 5, 0, 0, 7, 8, 9]);
}
