use super::*;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1));

fn machine() -> Machine {
    Machine::new(LOCAL, 1_500, &Sysctl::default())
}

#[test]
fn a_connect_sends_a_syn_and_waits() {
    let mut machine = machine();
    let fd = machine.socket(libc::AF_INET, libc::SOCK_STREAM, 0).value as i32;
    let mut call = Call::Connect { fd, to: "192.0.2.1:8080".parse().expect("an address"), begun: false };
    assert_eq!(machine.attempt(&mut call), None);
    let syn = machine.next_sent().expect("a SYN");
    assert_eq!(syn.bytes[33], 2, "SYN alone");
    assert_eq!(&syn.bytes[12..16], &[192, 168, 0, 1]);
}

#[test]
fn time_runs_timers_at_their_time() {
    let mut machine = machine();
    let start = machine.now();
    let fd = machine.socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0).value as i32;
    let mut call = Call::Connect { fd, to: "192.0.2.1:8080".parse().expect("an address"), begun: false };
    assert_eq!(machine.attempt(&mut call), Some(Answer::error(libc::EINPROGRESS)));
    assert_eq!(machine.next_sent().expect("a SYN").at, start);
    machine.advance(start + Duration::from_secs(2));
    let waited = machine.next_sent().expect("the SYN again").at.since(start);
    assert!(waited.as_millis().abs_diff(1_000) <= 2, "RFC 6298 §2.1: after {} ms", waited.as_millis());
}

#[test]
fn options_that_are_not_there_are_refused() {
    let mut machine = machine();
    let fd = machine.socket(libc::AF_INET, libc::SOCK_STREAM, 0).value as i32;
    assert_eq!(machine.set_option(fd, libc::IPPROTO_TCP, 200, &1_i32.to_ne_bytes()), Answer::error(libc::ENOPROTOOPT));
    for name in [libc::SO_ZEROCOPY, libc::SO_TIMESTAMPING, libc::SO_TXTIME] {
        assert_eq!(machine.set_option(fd, libc::SOL_SOCKET, name, &1_i32.to_ne_bytes()), Answer::error(libc::ENOPROTOOPT));
    }
    assert_eq!(machine.set_option(99, libc::IPPROTO_TCP, libc::TCP_NODELAY, &[1]), Answer::error(libc::EBADF));
    assert_eq!(machine.option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE), Ok(7_200_i32.to_ne_bytes().to_vec()));
}

#[test]
fn tcp_info_is_laid_out_as_linux_does() {
    let mut machine = machine();
    let fd = machine.socket(libc::AF_INET, libc::SOCK_STREAM, 0).value as i32;
    let fields = machine.info_fields(fd).expect("a socket");
    let offset = |name| fields.iter().take_while(|(field, ..)| *field != name).map(|(_, len, _)| len).sum::<usize>();
    // include/uapi/linux/tcp.h
    assert_eq!(offset("tcpi_rto"), 8);
    assert_eq!(offset("tcpi_snd_cwnd"), 80);
    assert_eq!(offset("tcpi_pacing_rate"), 104);
    assert_eq!(offset("tcpi_delivery_rate"), 160);
    assert_eq!(offset("tcpi_bytes_sent"), 200);
    assert_eq!(offset("tcpi_snd_wnd"), 228);
}

#[test]
fn settings_are_read_in_the_notations_of_scripts() {
    let mut sysctl = Sysctl::default();
    sysctl.set("net.ipv4.tcp_fastopen", "0x602 \\");
    sysctl.set("/proc/sys/net/ipv4/tcp_notsent_lowat".trim_start_matches("/proc/sys/"), "16384\\");
    sysctl.set("tcp_rto_min_us", "5000");
    let mut tcp = ringway_stack::TcpConfig::default();
    sysctl.apply(&mut tcp);
    assert!(tcp.fast_open.server && tcp.fast_open.server_without_cookie && !tcp.fast_open.client);
    assert_eq!(tcp.rto_min, Duration::from_millis(5));
    assert_eq!(sysctl.options().not_sent_low_water, 16_384);
    sysctl.set("tcp_notsent_lowat", "4294967295");
    assert_eq!(sysctl.options().not_sent_low_water, 0, "no limit");
}

/// Makes a SYN of a peer at 192.0.2.1:8080 to 192.168.0.1:80, or a later segment.
fn segment(flags: u8, sequence: u32, ack: u32, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0_u8; 40];
    packet.extend_from_slice(payload);
    let len = packet.len() as u16;
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    (packet[8], packet[9]) = (64, 6);
    packet[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 168, 0, 1]);
    packet[20..24].copy_from_slice(&[0x1f, 0x90, 0, 80]);
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    packet[28..32].copy_from_slice(&ack.to_be_bytes());
    (packet[32], packet[33]) = (5 << 4, flags);
    packet[34..36].copy_from_slice(&60_000_u16.to_be_bytes());
    let sum = |bytes: &[u8], start: u32| {
        let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
        let total = words.fold(start, |total, word| total + word);
        !((total & 0xffff) + (total >> 16)) as u16
    };
    let header = sum(&packet[..20], 0);
    packet[10..12].copy_from_slice(&header.to_be_bytes());
    let transport = sum(&packet[12..], 6 + u32::from(len) - 20);
    packet[36..38].copy_from_slice(&transport.to_be_bytes());
    packet
}

/// SO_MEMINFO counts unread data, wherever it is stored.
#[test]
fn memory_is_told() {
    let mut machine = machine();
    let listener = machine.socket(libc::AF_INET, libc::SOCK_STREAM, 0).value as i32;
    machine.bind(listener, "0.0.0.0:80".parse().expect("an address"));
    machine.listen(listener, 1);
    machine.deliver(&segment(2, 0, 0, &[]));
    let answer = machine.next_sent().expect("a SYN-ACK").bytes;
    let ack = u32::from_be_bytes(answer[24..28].try_into().expect("four bytes")).wrapping_add(1);
    machine.deliver(&segment(16, 1, ack, &[]));
    machine.deliver(&segment(16, 1, ack, &[7; 300]));
    let fd = machine.attempt(&mut Call::Accept { fd: listener, flags: 0 }).expect("one waits").value as i32;
    let bytes = machine.option(fd, libc::SOL_SOCKET, libc::SO_MEMINFO).expect("it is there");
    assert_eq!((bytes.len(), bytes.first_chunk()), (36, Some(&300_u32.to_ne_bytes())));
    machine.attempt(&mut Call::Receive { fd, count: 100, flags: 0 }).expect("there is something");
    let bytes = machine.option(fd, libc::SOL_SOCKET, libc::SO_MEMINFO).expect("it is there");
    assert_eq!(bytes.first_chunk(), Some(&200_u32.to_ne_bytes()));
}

/// The machine asks the caller for each descriptor number, and the caller closes it.
#[test]
fn descriptors_have_numbers_of_the_callers() {
    let mut machine = machine();
    machine.number_by(|| Some(70));
    assert_eq!(machine.socket(libc::AF_INET, libc::SOCK_STREAM, 0).value, 70);
    assert_eq!(machine.close(70), Answer::value(0));
}
