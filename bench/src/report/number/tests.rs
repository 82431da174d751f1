use super::*;

#[test]
fn values_keep_three_digits_that_mean_something() {
    let shown = [0.0, 0.0123, 0.98, 3.25, 17.0, 340.4, 9_000.0, 12_345.0, 1_520_000.0, 2.5e9].map(value);
    assert_eq!(shown, ["0", "0.0123", "0.98", "3.25", "17.0", "340", "9000", "12.3 k", "1.52 M", "2.50 G"]);
}

#[test]
fn amounts_are_shown_as_they_were_chosen() {
    let shown = [1.0, 64.0, 1024.0, 4800.0, 10_000.0, 65_536.0, 2_097_152.0, 0.015].map(amount);
    assert_eq!(shown, ["1", "64", "1024", "4800", "10 k", "64 Ki", "2 Mi", "0.015"]);
}

#[test]
fn ticks_have_no_empty_digits() {
    assert_eq!([0.0, 0.5, 5.0, 25.0, 80_000.0, 1_500_000.0, 100.0].map(tick), ["0", "0.5", "5", "25", "80 k", "1.5 M", "100"]);
}

#[test]
fn bytes_ratios_and_units_are_written_one_way() {
    assert_eq!(
        [0.0, 64.0, 1024.0, 4000.0, 65_536.0, 2_097_152.0].map(bytes),
        ["0 B", "64 B", "1024 B", "4000 B", "64 KiB", "2 MiB"]
    );
    assert_eq!([0.534, 1.2, 13.44].map(ratio), ["0.53", "1.20", "13.4"]);
    assert_eq!([unit("us"), unit("Gbit/s")], ["µs", "Gbit/s"]);
}
