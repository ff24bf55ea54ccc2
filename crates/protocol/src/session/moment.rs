//! The form of moments on the wire: RFC 3339, never without an offset.

/// Whether `text` has the form `2026-01-31T12:00:00.5+01:00` or `...Z`.
///
/// It is the rule of the schemas, which knows no calendar: whoever counts with the moment parses it.
pub(super) fn is_moment(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some((date_time, rest)) = bytes.split_at_checked(19) else { return false };
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    let in_place = marks.iter().all(|(at, mark)| date_time[*at] == *mark);
    in_place
        && date_time[10].eq_ignore_ascii_case(&b'T')
        && date_time[..4].iter().all(u8::is_ascii_digit)
        && is_pair(&date_time[5..7], 1, 12)
        && is_pair(&date_time[8..10], 1, 31)
        && is_pair(&date_time[11..13], 0, 23)
        && is_pair(&date_time[14..16], 0, 59)
        && is_pair(&date_time[17..19], 0, 60)
        && after_fraction(rest).is_some_and(is_offset)
}

fn is_pair(digits: &[u8], min: u8, max: u8) -> bool {
    match digits {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
            (min..=max).contains(&((tens - b'0') * 10 + (ones - b'0')))
        }
        _ => false,
    }
}

fn after_fraction(rest: &[u8]) -> Option<&[u8]> {
    let Some(fraction) = rest.strip_prefix(b".") else { return Some(rest) };
    let n_digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (n_digits > 0).then(|| &fraction[n_digits..])
}

fn is_offset(offset: &[u8]) -> bool {
    match offset {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', hours @ .., b':', tens, ones] => {
            is_pair(hours, 0, 23) && is_pair(&[*tens, *ones], 0, 59)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_an_offset() {
        for good in [
            "2026-01-31T12:00:00Z",
            "2026-01-31t12:00:60.000001z",
            "2026-01-31T12:00:00+05:30",
            "0000-12-01T23:59:59.9-23:59",
        ] {
            assert!(is_moment(good), "{good}");
        }
        for bad in [
            "",
            "2026-01-31T12:00:00",
            "2026-01-31 12:00:00Z",
            "2026-13-31T12:00:00Z",
            "2026-00-31T12:00:00Z",
            "2026-01-32T12:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00+0100",
            "2026-01-31T12:00:00+1:00",
            "2026-01-31T12:00:00ZZ",
            "2026-01-31T12:00:00é",
            "ééééééééééééééé",
        ] {
            assert!(!is_moment(bad), "{bad}");
        }
    }
}
