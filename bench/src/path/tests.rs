//! Command-line values become the path's settings.
use super::*;

#[test]
fn losses_are_shares_or_every_so_many() {
    let said = ["0", "0%", "1%", "0.015", "1.5 %", "0.015%", "1/100"];
    let expected = [
        Loss::None,
        Loss::None,
        Loss::Random(10_000),
        Loss::Random(15_000),
        Loss::Random(15_000),
        Loss::Random(150),
        Loss::Every(100),
    ];
    for (text, expected) in said.into_iter().zip(expected) {
        assert_eq!(loss(text), Ok(expected), "{text}");
    }
    for text in ["", "%", "-1%", "51%", "1", "NaN", "inf", "1/1", "1/0", "2/100", "1/x", "0.0000001"] {
        assert!(loss(text).is_err(), "{text} was taken");
    }
}

#[test]
fn times_and_rates_have_units() {
    assert_eq!([time_us("20ms"), time_us("300us"), time_us("0.1s"), time_us("0s")], [Ok(20_000), Ok(300), Ok(100_000), Ok(0)]);
    assert_eq!(
        [bandwidth("1gbit"), bandwidth("100Mbit"), bandwidth("2.5gbit")],
        [Ok(1_000_000_000), Ok(100_000_000), Ok(2_500_000_000)]
    );
    for text in ["20", "ms", "-1ms", "3s", "NaNs"] {
        assert!(time_us(text).is_err(), "{text} was taken");
    }
    for text in ["1", "gbit", "1kbit", "-1gbit", "200gbit", "infgbit"] {
        assert!(bandwidth(text).is_err(), "{text} was taken");
    }
}

#[test]
fn the_queue_holds_the_bandwidth_delay_product_and_a_hundred_packets_at_least() {
    let queue = |rtt_us, bits| Path::new(rtt_us, Loss::None, Some(bits), None).queue_packets;
    // 20 ms at 1 Gbit/s: 2,500,000 bytes.
    assert_eq!(queue(20_000, 1_000_000_000), 1652);
    assert_eq!(queue(0, 1_000_000_000), 100);
    assert_eq!(queue(2_000_000, 100_000_000_000), QUEUE_PACKETS_MAX);
    assert_eq!(Path::new(20_000, Loss::None, None, Some(7)).queue_packets, 7);
}

#[test]
fn each_direction_has_half_of_the_round_trip_and_all_of_the_loss() {
    let path = Path::new(20_000, Loss::Random(150), None, None);
    let impairments = path.impairments();
    assert_eq!((impairments.delay.as_micros(), impairments.loss_ppm, impairments.rate_bits), (10_000, 150, 1_000_000_000));
    assert_eq!(path.label(), "loss 0.015 %, rtt 20 ms");
    assert_eq!(path.numbers()[0], ("loss", 0.000_15));
    assert_eq!(Path::new(0, Loss::Every(100), None, None).impairments().loss_every, 100);
}
