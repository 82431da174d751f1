use super::*;

fn claim(local: &str, dual_stack: bool) -> Claim {
    let local = local.parse().expect("an address");
    Claim { purpose: Purpose::Listen, local, dual_stack, kept: Arc::new(()) }
}

#[test]
fn a_claim_covers_what_the_kernel_socket_is_bound_to() {
    let [v4, other, v6]: [IpAddr; 3] = ["10.0.0.1", "10.0.0.2", "fd00::1"].map(|ip| ip.parse().expect("an address"));
    let one = claim("10.0.0.1:80", false);
    assert!(one.covers(Purpose::Listen, v4, 80));
    assert!(!one.covers(Purpose::Listen, v4, 81) && !one.covers(Purpose::Listen, other, 80));
    assert!(!one.covers(Purpose::Connect, v4, 80) && !one.covers(Purpose::Datagrams, v4, 80));
    let all = claim("0.0.0.0:80", false);
    assert!(all.covers(Purpose::Listen, v4, 80) && !all.covers(Purpose::Listen, v6, 80));
    assert!(!one.covers(Purpose::Listen, "0.0.0.0".parse().expect("an address"), 80), "one address is not all");
    let v6_only = claim("[::]:80", false);
    assert!(v6_only.covers(Purpose::Listen, v6, 80) && !v6_only.covers(Purpose::Listen, v4, 80));
    let both = claim("[::]:80", true);
    assert!(both.covers(Purpose::Listen, v6, 80) && both.covers(Purpose::Listen, v4, 80));
}
