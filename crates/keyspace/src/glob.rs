//! Patterns of names, as Redis matches them: `*`, `?`, `[a-z]`, `[^a]` and `\` before a byte.

use crate::call::Failure;

/// How many bytes all matches of one command may compare. A pattern with many stars costs up to
/// its length times the length of the name.
const STEPS_MAX: u64 = 100_000_000;

/// A pattern that counts what it costs.
#[derive(Debug)]
pub(crate) struct Glob<'a> {
    pattern: &'a [u8],
    steps_left: u64,
}

impl<'a> Glob<'a> {
    pub(crate) fn new(pattern: &'a [u8]) -> Self {
        Self { pattern, steps_left: STEPS_MAX }
    }

    /// Whether the name matches. Where a star was too short, only the last star takes one byte
    /// more: what the earlier ones left cannot match better.
    pub(crate) fn matches(&mut self, name: &[u8]) -> Result<bool, Failure> {
        if self.pattern == b"*" {
            return Ok(true);
        }
        if name.is_empty() {
            return Ok(self.pattern.is_empty());
        }
        let (mut pattern, mut at) = (self.pattern, 0);
        let mut last_star: Option<(&[u8], usize)> = None;
        loop {
            if let Some(rest) = pattern.strip_prefix(b"*") {
                (pattern, last_star) = (rest, Some((rest, at)));
                self.spend(1)?;
                continue;
            }
            if at == name.len() {
                return Ok(pattern.is_empty());
            }
            let step = one(pattern, name[at]);
            self.spend(step.length.max(1))?;
            if step.matches {
                (pattern, at) = (&pattern[step.length..], at + 1);
            } else if let Some((rest, start)) = last_star {
                (pattern, at, last_star) = (rest, start + 1, Some((rest, start + 1)));
            } else {
                return Ok(false);
            }
        }
    }

    fn spend(&mut self, steps: usize) -> Result<(), Failure> {
        let left = self.steps_left.checked_sub(steps as u64);
        self.steps_left = left.ok_or(Failure::new("ERR the pattern takes too many steps"))?;
        Ok(())
    }
}

/// One part of a pattern against one byte, and how long the part is.
struct Step {
    matches: bool,
    length: usize,
}

fn one(pattern: &[u8], byte: u8) -> Step {
    match pattern {
        [] => Step { matches: false, length: 0 },
        [b'?', ..] => Step { matches: true, length: 1 },
        [b'[', rest @ ..] => class(rest, byte),
        [b'\\', escaped, ..] => Step { matches: *escaped == byte, length: 2 },
        [literal, ..] => Step { matches: *literal == byte, length: 1 },
    }
}

/// What stands behind `[`. A class that does not end reaches to the end of the pattern.
fn class(class: &[u8], byte: u8) -> Step {
    let is_negated = class.first() == Some(&b'^');
    let mut rest = if is_negated { &class[1..] } else { class };
    let mut contains = false;
    loop {
        rest = match rest {
            [] => break,
            [b']', after @ ..] => {
                rest = after;
                break;
            }
            [b'\\', escaped, after @ ..] => {
                contains |= *escaped == byte;
                after
            }
            [one, b'-', two, after @ ..] => {
                contains |= (*one.min(two)..=*one.max(two)).contains(&byte);
                after
            }
            [one, after @ ..] => {
                contains |= *one == byte;
                after
            }
        };
    }
    Step { matches: contains != is_negated, length: 1 + class.len() - rest.len() }
}

/// Whether a name fits a pattern; a pattern that is too much work fits nothing.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    Glob::new(pattern).matches(name).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, name) in [
            ("*", "a"),
            ("a*", "a"),
            ("h?llo", "hello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[b-a]llo", "hallo"),
            ("h\\?llo", "h?llo"),
            ("a**c*", "abc"),
            ("*a*b", "xaxbab"),
            ("[a", "a"),
            ("[\\]]", "]"),
            ("a\\", "a\\"),
            ("", ""),
        ] {
            assert!(Glob::new(pattern.as_bytes()).matches(name.as_bytes()).unwrap(), "{pattern}");
        }
        for (pattern, name) in
            [("h?llo", "hllo"), ("[^a]", "a"), ("a", "ab"), ("ab", "a"), ("?", ""), ("[]", "a")]
        {
            assert!(!Glob::new(pattern.as_bytes()).matches(name.as_bytes()).unwrap(), "{pattern}");
        }
    }

    #[test]
    fn a_wicked_pattern_ends() {
        let (pattern, name) = (format!("*{}b", "a".repeat(1_000)), "a".repeat(100_000));
        let mut glob = Glob::new(pattern.as_bytes());
        let refused = (0..100).any(|_| glob.matches(name.as_bytes()).is_err());
        assert!(refused, "it is refused some time");
    }
}
