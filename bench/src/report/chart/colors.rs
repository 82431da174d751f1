//! Colors: one for each target, in all figures; series of one target are shades of it.

use plotters::style::RGBColor;

use super::super::series::Plot;

/// Okabe and Ito's colors, distinguishable with any color vision, and three grays for the kernel.
const TARGETS: [(&str, RGBColor); 7] = [
    ("linux", RGBColor(0x66, 0x66, 0x66)),
    ("linux-spin", RGBColor(0x99, 0x99, 0x99)),
    ("linux-uring", RGBColor(0x33, 0x33, 0x33)),
    ("preload", RGBColor(0x00, 0x72, 0xb2)),
    ("preload-bulk", RGBColor(0x56, 0xb4, 0xe9)),
    ("service", RGBColor(0x00, 0x9e, 0x73)),
    ("embedded", RGBColor(0xe6, 0x9f, 0x00)),
];
/// Of targets that are not in the table.
const OTHER: RGBColor = RGBColor(0xcc, 0x79, 0xa7);
const PIECES: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0xb0, 0xa8, 0x20),
    RGBColor(0x66, 0x66, 0x66),
];
/// Parts of the target's color in the shades of its series; the rest is white.
const SHADES: [f64; 4] = [1.0, 0.6, 0.35, 0.8];

/// Colors of the eight classes, then of unmapped samples.
pub(super) fn pieces() -> impl Iterator<Item = RGBColor> {
    PIECES.into_iter().chain(std::iter::repeat(super::INK))
}

/// Colors of the series.
pub(super) fn colors(plot: &Plot) -> Vec<RGBColor> {
    let of = |at: usize| {
        let target = &plot.series[at].target;
        let earlier = plot.series[..at].iter().filter(|series| series.target == *target).count();
        let color = TARGETS.iter().find(|(known, _)| known == target).map_or(OTHER, |(_, color)| *color);
        shade(color, SHADES[earlier % SHADES.len()])
    };
    (0..plot.series.len()).map(of).collect()
}

fn shade(RGBColor(red, green, blue): RGBColor, part: f64) -> RGBColor {
    let mix = |color: u8| (f64::from(color) * part + 255.0 * (1.0 - part)).round() as u8;
    RGBColor(mix(red), mix(green), mix(blue))
}
