use super::version;

#[test]
fn kernel_releases_are_read() {
    assert_eq!(version("6.12.0-rc1+"), Some((6, 12)));
    assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
    assert!(version("6.1.0-18-amd64") < Some((6, 6)));
    assert_eq!(version("unknown"), None);
}
