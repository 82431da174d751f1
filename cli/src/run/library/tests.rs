use std::path::Path;

use super::{asan_options, hexadecimal, preload};

#[test]
fn other_preloaded_libraries_stay_behind_ours() {
    let ours = Path::new("/opt/libringway_preload.so");
    assert_eq!(preload(ours, None), "/opt/libringway_preload.so");
    assert_eq!(preload(ours, Some("".into())), "/opt/libringway_preload.so");
    assert_eq!(preload(ours, Some("/a.so b.so".into())), "/opt/libringway_preload.so:/a.so b.so");
}

#[test]
fn a_sanitizers_other_options_stay() {
    assert_eq!(asan_options(None), "verify_asan_link_order=0");
    assert_eq!(asan_options(Some("".into())), "verify_asan_link_order=0");
    assert_eq!(asan_options(Some("detect_leaks=0".into())), "detect_leaks=0:verify_asan_link_order=0");
    assert_eq!(asan_options(Some("verify_asan_link_order=1".into())), "verify_asan_link_order=1");
}

#[test]
fn a_token_is_thirty_two_digits() {
    let mut token = [0; 16];
    token[0] = 0x0a;
    token[15] = 0xff;
    assert_eq!(hexadecimal(&token), "0a0000000000000000000000000000ff");
}
