use super::line;

#[test]
fn the_banner_says_what_where_and_how() {
    let notes = ["eth1 is down".to_owned()];
    assert_eq!(
        line("nginx", 42, "veth1 10.0.0.1 (af_packet, vnet headers)", &notes, &[]),
        "ringway: nginx[42]: accelerated TCP and UDP on veth1 10.0.0.1 (af_packet, vnet headers); loopback -> kernel; \
         eth1 is down; \"ringway ss\" to inspect"
    );
    assert_eq!(
        line("go", 7, "", &[], &["./go is statically linked".to_owned()]),
        "ringway: go[7]: not accelerated, everything -> kernel: ./go is statically linked"
    );
}
