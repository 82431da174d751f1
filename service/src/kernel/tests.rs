//! Releases of distributions and of developers are read alike.
use super::*;

#[test]
fn releases_are_compared_by_number() {
    assert_eq!(version("6.12.0-rc1+"), Some((6, 12)));
    assert!(is_tcx_release("6.12.0-rc1+"));
    assert!(!is_tcx_release("6.1.0-18-amd64"));
    assert!(!is_tcx_release("unknown"));
}
