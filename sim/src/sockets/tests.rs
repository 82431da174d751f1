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
