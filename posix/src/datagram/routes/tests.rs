//! Questions that the worker is asked once, and when they are asked again.

use super::*;

fn ms(time: u64) -> Instant {
    Instant::from_millis(time)
}

#[test]
fn a_way_is_a_destination_with_its_source_and_interface() {
    for remote in ["192.0.2.1", "2001:db8::1"] {
        let remote: IpAddr = remote.parse().expect("an address");
        let routes = Routes::default();
        let plain = Way::from(remote);
        let through = Way { interface: 7, ..plain };
        let from = Way { source: Some(remote), ..plain };
        routes.note(plain, true, ms(10));
        routes.note(through, false, ms(10));
        assert_eq!([plain, through, from].map(|way| routes.look_up(way, ms(9))), [Some(true), Some(false), None]);
        assert_eq!([plain, through].map(|way| routes.look_up(way, ms(10))), [None, None], "not for ever");
        routes.note(plain, false, ms(20));
        assert_eq!(routes.look_up(plain, ms(19)), Some(false), "what is newer counts");
    }
}

#[test]
fn so_many_are_remembered() {
    let routes = Routes::default();
    let way = |number: u32| Way { interface: number, ..Way::from(IpAddr::from([192, 0, 2, 1])) };
    (0..=ROUTES_MAX as u32).for_each(|number| routes.note(way(number), true, ms(10)));
    assert_eq!(routes.look_up(way(0), ms(1)), None);
    assert_eq!(routes.look_up(way(1), ms(1)), Some(true));
}
