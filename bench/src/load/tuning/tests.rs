//! Options survive the command line and reach the sockets.
use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    tuning: Tuning,
}

#[test]
fn arguments_read_back_as_they_were() {
    let all = Congestion::value_variants().iter().map(|&congestion| Some(congestion));
    for congestion in std::iter::once(None).chain(all) {
        for receive_buffer in [None, Some(100_000)] {
            let tuning = Tuning { congestion, receive_buffer };
            let words = std::iter::once("role".to_string()).chain(tuning.arguments());
            assert_eq!(Line::parse_from(words).tuning, tuning);
        }
    }
}

#[test]
fn options_of_our_sockets_say_the_same() {
    let mut net = Net::new(ringway::NetConfig::default()).expect("memory is there");
    let timely = add_timely(&mut net);
    let options = Tuning { congestion: Some(Congestion::Bbr), receive_buffer: Some(65_536) }.options(timely);
    assert_eq!(
        (options.congestion_control, options.receive_buffer_bytes, options.no_delay),
        (CongestionControl::Bbr, 65_536, true)
    );
    let options = Tuning { congestion: Some(Congestion::Timely), receive_buffer: None }.options(timely);
    assert_eq!(options.congestion_control, timely);
    let options = Tuning::default().options(timely);
    assert_eq!(options, TcpOptions { no_delay: true, ..TcpOptions::default() });
}
