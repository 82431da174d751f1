use super::*;

fn flow(local: &str, remote: &str) -> Flow {
    let end = |text: &str| text.parse::<std::net::SocketAddr>().map(|end| (end.ip(), end.port())).expect("an address");
    Flow { local: end(local), remote: end(remote) }
}

fn end(ip: &str, port: u16) -> End {
    End { ip: (!ip.is_empty()).then(|| ip.parse().expect("an address")), port }
}

/// A wish is of connections in which the ends stand on either side; what travels in words comes out again.
#[test]
fn ends_name_connections_in_either_order() {
    let connection = flow("10.0.0.1:80", "10.0.0.2:4000");
    let v6 = flow("[2001:db8::1]:80", "[2001:db8::2]:4000");
    let cases = [
        (Ends { one: end("", 80), other: None }, true, true),
        (Ends { one: end("", 4000), other: None }, true, true),
        (Ends { one: end("10.0.0.2", 4000), other: None }, true, false),
        (Ends { one: end("10.0.0.1", 4000), other: None }, false, false),
        (Ends { one: end("10.0.0.2", 4000), other: Some(end("", 80)) }, true, false),
        (Ends { one: end("2001:db8::2", 4000), other: Some(end("2001:db8::1", 80)) }, false, true),
        (Ends { one: end("", 80), other: Some(end("", 81)) }, false, false),
        // One end cannot stand for both.
        (Ends { one: end("", 80), other: Some(end("", 80)) }, false, false),
    ];
    for (ends, of_v4, of_v6) in cases {
        assert_eq!((ends.are_of(&connection), ends.are_of(&v6)), (of_v4, of_v6), "{ends:?}");
        assert_eq!(Ends::decode(ends.encode()), Some(ends));
    }
    assert_eq!(Ends::decode([0; WORDS]), None);
}

#[test]
fn packets_without_a_connection_are_for_readers_of_all() {
    let connection = flow("10.0.0.1:80", "10.0.0.2:4000");
    let some = Wishes { all: false, connections: vec![Ends { one: end("", 80), other: None }] };
    assert!(some.are_of_connections() && some.include(Some(&connection)) && !some.include(None));
    assert!(!some.include(Some(&flow("10.0.0.1:81", "10.0.0.2:4000"))));
    let all = Wishes { all: true, connections: Vec::new() };
    assert!(all.include(None) && !all.observe(&connection) && !all.are_of_connections());
}
