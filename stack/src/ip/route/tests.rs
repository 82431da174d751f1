use super::*;
use alloc::vec;

fn route(ip: [u8; 4], prefix_len: u8, interface: u32, metric: u32) -> Route {
    Route { destination: Cidr { ip: ip.into(), prefix_len }, gateway: None, interface, metric, source: None }
}

/// The longest prefix wins, then the metric, then the order; without a default there may be no route.
#[test]
fn longest_prefix_wins() {
    let mut table = RouteTable::default();
    assert_eq!(table.lookup([10, 0, 0, 1].into()), None);
    table.replace(vec![
        route([10, 0, 0, 0], 8, 1, 0),
        route([10, 1, 0, 0], 16, 2, 100),
        route([10, 1, 0, 0], 16, 3, 50),
        route([10, 1, 0, 0], 16, 4, 50),
        route([10, 1, 2, 3], 32, 5, 0),
        route([192, 168, 0, 77], 24, 6, 0),
    ]);
    let interface = |ip: [u8; 4]| table.lookup(ip.into()).map(|route| route.interface);
    assert_eq!(interface([10, 1, 2, 3]), Some(5));
    assert_eq!(interface([10, 1, 2, 4]), Some(3));
    assert_eq!(interface([10, 2, 0, 0]), Some(1));
    assert_eq!(interface([192, 168, 0, 1]), Some(6));
    assert_eq!(interface([192, 168, 1, 1]), None);
    assert_eq!(table.lookup([0u16; 8].into()), None);
}

/// Agrees with the definition: for random tables and addresses, the same answer as testing every route.
#[test]
fn agrees_with_the_definition() {
    let mut state = 42u64;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as u32) % below
    };
    for _ in 0..50 {
        let address = |random: &mut dyn FnMut(u32) -> u32| [10, random(2) as u8, random(4) as u8, random(8) as u8];
        let routes: Vec<Route> = (0..40)
            .map(|interface| route(address(&mut random), [0, 8, 16, 22, 24, 30, 32][random(7) as usize], interface, random(3)))
            .collect();
        let mut table = RouteTable::default();
        table.replace(routes.clone());
        for _ in 0..100 {
            let ip: IpAddr = address(&mut random).into();
            let fitting = routes.iter().filter(|route| route.destination.contains(ip));
            let best = fitting.min_by_key(|route| (u8::MAX - route.destination.prefix_len, route.metric, route.interface));
            assert_eq!(table.lookup(ip), best);
        }
    }
}
