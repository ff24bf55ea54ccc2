//! Which of two versions is the newer one.

use std::cmp::Ordering;

/// Compares versions part by part: `2025.9.1` is older than `2025.10.0`, and `1.0.0-rc.1` is older
/// than `1.0.0`. What follows a `+` says how it was built, and is not looked at.
pub(crate) fn compare(one: &str, other: &str) -> Ordering {
    let ((one, one_before), (other, other_before)) = (split(one), split(other));
    parts(one, other).then_with(|| match (one_before, other_before) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(one), Some(other)) => parts(one, other),
    })
}

/// The release, and what it is a preview of it, if it is one.
fn split(version: &str) -> (&str, Option<&str>) {
    let version = version.split('+').next().unwrap_or_default();
    match version.split_once('-') {
        Some((release, before)) => (release, Some(before)),
        None => (version, None),
    }
}

/// A part that is missing is as good as a zero.
fn parts(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one.split('.'), other.split('.'));
    loop {
        let (left, right) = (one.next(), other.next());
        if left.is_none() && right.is_none() {
            return Ordering::Equal;
        }
        let order = part(left.unwrap_or("0"), right.unwrap_or("0"));
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Numbers by their value, however long they are; a number is older than a word.
fn part(one: &str, other: &str) -> Ordering {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match (is_number(one), is_number(other)) {
        (true, true) => {
            let (one, other) = (one.trim_start_matches('0'), other.trim_start_matches('0'));
            one.len().cmp(&other.len()).then_with(|| one.cmp(other))
        }
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => one.cmp(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_are_greater() {
        let rising = [
            "0.9",
            "1.0.0-alpha",
            "1.0.0-rc.1",
            "1.0.0-rc.2",
            "1.0.0-rc.10",
            "1.0.0",
            "1.0.1",
            "1.2",
            "1.10",
            "2025.9.1",
            "2025.10.0",
            "99999999999999999999999.1",
            "v2",
        ];
        for (place, one) in rising.iter().enumerate() {
            for (other_place, other) in rising.iter().enumerate() {
                assert_eq!(compare(one, other), place.cmp(&other_place), "{one} {other}");
            }
        }
        for (one, other) in [("1", "1.0.0"), ("1.0+7", "1.0+8"), ("1.02", "1.2")] {
            assert_eq!(compare(one, other), Ordering::Equal, "{one} {other}");
        }
    }
}
