//! Names that programs and files give themselves, for a terminal.
//!
//! Promises: no control character is left, so a terminal obeys nothing in a name. Does not do: quoting.

/// Returns the text with a question mark for each control character.
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests;
