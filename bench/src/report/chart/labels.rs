//! Labels under the horizontal axis: broken into lines, or turned, so that neighbors never touch.
//!
//! The browser's font is unknown; widths are estimated from an average letter of a sans-serif font.

/// Pixels from one line to the next.
pub(super) const LINE_HEIGHT: i32 = 14;
const SIZE: i32 = super::SMALL;
/// Width of an average letter, relative to the font size.
const LETTER: f64 = 0.58;
const LINES_MAX: usize = 4;

/// The labels of all categories.
pub(super) struct Labels {
    /// Lines of each category's label.
    pub(super) lines: Vec<Vec<String>>,
    /// True when the labels are vertical.
    pub(super) is_turned: bool,
}

/// Estimated width in pixels.
pub(super) fn width(text: &str, size: i32) -> f64 {
    text.chars().count() as f64 * f64::from(size) * LETTER
}

impl Labels {
    /// Breaks labels into lines of at most `room` pixels; turns all when a word is too wide or there are too many lines.
    pub(super) fn fit(labels: &[String], room: f64) -> Labels {
        let room = room - 6.0;
        let lines: Vec<Vec<String>> = labels.iter().map(|label| broken(label, room, SIZE)).collect();
        let fits = |lines: &Vec<String>| lines.len() <= LINES_MAX && lines.iter().all(|line| width(line, SIZE) <= room);
        if lines.iter().all(fits) {
            return Labels { lines, is_turned: false };
        }
        Labels { lines: labels.iter().map(|label| vec![label.clone()]).collect(), is_turned: true }
    }

    /// Height of the labels under the axis, pixels.
    pub(super) fn height(&self) -> u32 {
        let lines = self.lines.iter().map(Vec::len).max().unwrap_or(1) as u32;
        let widest = self.lines.iter().flatten().map(|line| width(line, SIZE)).fold(0.0, f64::max);
        if self.is_turned { widest.ceil() as u32 + 8 } else { lines * LINE_HEIGHT as u32 + 4 }
    }
}

/// Breaks a text at its spaces into lines of at most `room` pixels; longer words are not broken.
pub(super) fn broken(text: &str, room: f64, size: i32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(word, size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}
