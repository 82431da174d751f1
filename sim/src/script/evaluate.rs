//! Assertions: the Python expressions over the fields of TCP_INFO that scripts use.

use super::arguments::constant;

/// Runs the statements between `%{` and `}%`; names that are not constants are looked up in `fields`.
pub(super) fn check(code: &str, fields: &dyn Fn(&str) -> Option<i64>) -> Result<(), String> {
    for statement in code.split(['\n', ';']).map(str::trim).filter(|statement| !statement.is_empty()) {
        let Some(claim) = statement.strip_prefix("assert") else { continue };
        let mut reader = Reader { words: words(claim)?, at: 0, fields };
        let value = reader.expression(0)?;
        if value == 0 {
            let shown = reader.names().into_iter().map(|(name, value)| format!("{name} is {value}")).collect::<Vec<_>>();
            return Err(format!("assert{claim}: {}", shown.join(", ")));
        }
    }
    Ok(())
}

struct Reader<'a> {
    words: Vec<String>,
    at: usize,
    fields: &'a dyn Fn(&str) -> Option<i64>,
}

fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let len = if first == '"' || first == '\'' {
            rest[1..].find(first).map_or(rest.len(), |at| at + 2)
        } else if is_name(first) {
            rest.find(|c| !is_name(c)).unwrap_or(rest.len())
        } else if ["==", "!=", "<=", ">=", "//", "<<", ">>"].iter().any(|two| rest.starts_with(two)) {
            2
        } else {
            first.len_utf8()
        };
        words.push(rest[..len].to_string());
        rest = rest[len..].trim_start();
    }
    if words.is_empty() { Err("nothing to assert".into()) } else { Ok(words) }
}

/// Returns the precedence of an operator; the lowest binds loosest.
fn strength(word: &str) -> Option<usize> {
    const LEVELS: [&[&str]; 9] = [
        &["or"],
        &["and"],
        &["==", "!=", "<", ">", "<=", ">="],
        &["|"],
        &["&"],
        &["<<", ">>"],
        &["+", "-"],
        &["*", "/", "//", "%"],
        &[],
    ];
    LEVELS.iter().position(|level| level.contains(&word))
}

impl Reader<'_> {
    fn peek(&self) -> &str {
        self.words.get(self.at).map_or("", String::as_str)
    }

    fn take(&mut self) -> String {
        self.at += 1;
        self.words.get(self.at - 1).cloned().unwrap_or_default()
    }

    fn expression(&mut self, least: usize) -> Result<i64, String> {
        let mut left = self.operand()?;
        // Python's a < b < c: result of the comparisons so far.
        let mut chain = true;
        while let Some(level) = strength(self.peek()).filter(|level| *level >= least) {
            let sign = self.take();
            let right = self.expression(level + 1)?;
            let number = apply(&sign, left, right)?;
            let compares = level == 2;
            if compares && strength(self.peek()) == Some(2) {
                chain &= number != 0;
                left = right;
            } else {
                left = if compares { i64::from(chain && number != 0) } else { number };
            }
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<i64, String> {
        let word = self.take();
        match word.as_str() {
            "not" => Ok(i64::from(self.expression(2)? == 0)),
            "-" => Ok(-self.operand()?),
            "(" => {
                let value = self.expression(0)?;
                if self.take() == ")" { Ok(value) } else { Err("a parenthesis does not close".into()) }
            }
            "True" => Ok(1),
            "False" => Ok(0),
            _ => self.value(&word).ok_or_else(|| format!("unexpected {word}")),
        }
    }

    fn value(&self, word: &str) -> Option<i64> {
        let plain = word.parse().ok();
        let hex = || word.strip_prefix("0x").and_then(|digits| i64::from_str_radix(digits, 16).ok());
        plain.or_else(hex).or_else(|| (self.fields)(word)).or_else(|| constant(word))
    }

    fn names(&self) -> Vec<(String, i64)> {
        let mut names: Vec<_> = self.words.iter().filter_map(|word| Some((word.clone(), (self.fields)(word)?))).collect();
        names.dedup();
        names
    }
}

fn apply(sign: &str, left: i64, right: i64) -> Result<i64, String> {
    Ok(match sign {
        "or" => i64::from(left != 0 || right != 0),
        "and" => i64::from(left != 0 && right != 0),
        "==" => i64::from(left == right),
        "!=" => i64::from(left != right),
        "<" => i64::from(left < right),
        ">" => i64::from(left > right),
        "<=" => i64::from(left <= right),
        ">=" => i64::from(left >= right),
        "|" => left | right,
        "&" => left & right,
        "<<" => left.checked_shl(right as u32).unwrap_or(0),
        ">>" => left.checked_shr(right as u32).unwrap_or(0),
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" | "//" => left.checked_div(right).ok_or("division by zero")?,
        "%" => left.checked_rem(right).ok_or("division by zero")?,
        _ => return Err(format!("unexpected {sign}")),
    })
}
