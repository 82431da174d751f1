use super::*;

fn round(rate: f64, server_ns: u64) -> Round {
    let figures = Figures { requests: 1000.0, requests_per_s: rate, p50_us: 10.0, p99_us: 20.0 };
    Round { figures, server_ns, client_ns: 500_000, resent: 1, ..Round::default() }
}

#[test]
fn the_ratio_compares_rounds_and_the_cpu_is_per_request() {
    let linux = vec![round(100.0, 4_000_000), round(200.0, 4_000_000), round(150.0, 4_000_000)];
    let ours = vec![round(150.0, 2_000_000), round(300.0, 2_000_000), round(150.0, 2_000_000)];
    let rows = Setting::new(2.0).rows("nginx keep-alive", 64, &[Stack::Linux, Stack::Preload], &[linux, ours]);
    assert_eq!((rows[0].ratio, rows[1].ratio), (Some(1.0), Some(1.5)));
    assert_eq!((rows[0].server_cpu_ratio, rows[1].server_cpu_ratio), (Some(1.0), Some(0.5)));
    assert_eq!((rows[1].value, rows[1].server_cpu_us_per_request, rows[1].cycles_per_request), (150.0, Some(2.0), Some(4000.0)));
    assert_eq!((rows[1].client_cpu_us_per_request, rows[1].retransmissions, rows[1].rounds), (Some(0.5), Some(3), 3));
}

#[test]
fn segments_of_the_kernel_are_confessed_and_absence_is_a_row() {
    let mut stray = round(1.0, 1);
    stray.kernel_segments = 7;
    let rows = Setting::new(2.0).rows("x", 1, &[Stack::Preload], &[vec![stray]]);
    assert_eq!(rows[0].ratio, None);
    assert!(rows[0].note.starts_with("the kernel's TCP received 7 segments"), "{}", rows[0].note);
    let absent = Setting::new(2.0).absent("x", Stack::Linux, "nginx is not installed");
    assert!(!absent.is_measured());
    assert!(line(&absent).ends_with("not measured: nginx is not installed\n"));
}
