//! Valid and invalid values on the command line.
use super::*;

#[test]
fn sizes_have_units() {
    assert_eq!([size("64"), size("16k"), size("2M"), size("1G")], [Ok(64), Ok(16 << 10), Ok(2 << 20), Ok(1 << 30)]);
    for wrong in ["", "K", "15", "2G", "64kk", "-1", "1.5M", "99999999999999999999", "18446744073709551615G"] {
        assert!(size(wrong).is_err(), "{wrong}");
    }
    assert_eq!([size_name(64), size_name(65_536), size_name(2 << 20), size_name(1500)], ["64 B", "64 KiB", "2 MiB", "1500 B"]);
}

#[test]
fn seconds_have_bounds() {
    assert_eq!(seconds("0.5"), Ok(0.5));
    assert!(["0", "-1", "nan", "inf", "601", "x"].iter().all(|wrong| seconds(wrong).is_err()));
}

#[test]
fn several_workers_stand_on_veth_alone() {
    let parse = |words: &[&str]| crate::options::Options::parse(words).targets();
    assert!(parse(&["--workers", "2", "--target", "linux,embedded"]).is_ok());
    assert!(parse(&["--workers", "2", "--wire", "memory"]).is_err_and(|text| text.contains("veth")));
    assert!(parse(&["--workers", "1", "--wire", "memory"]).is_ok());
}
