//! The `Range` header (RFC 9110 section 14): one range of bytes; of several, all is sent.

use std::ops::Range;

use axum::http::HeaderValue;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// All of it.
    All,
    /// These bytes.
    Part(Range<u64>),
    /// Bytes that there are none of.
    Nothing,
}

/// Reads the header; one that makes no sense is passed over, as the standard wants it.
pub(super) fn asked(header: Option<&HeaderValue>, size: u64) -> Asked {
    let text = header.and_then(|value| value.to_str().ok());
    let Some(spec) = text.and_then(|text| text.trim().strip_prefix("bytes=")) else {
        return Asked::All;
    };
    let Some((first, last)) = spec.trim().split_once('-') else { return Asked::All };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number that is too large for us is beyond every end.
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    match (number(first.trim()), number(last.trim())) {
        (Some(first), Some(last)) if last < first => Asked::All,
        (Some(first), _) if first >= size && is_end(last) => Asked::Nothing,
        (Some(first), Some(last)) => Asked::Part(first..last.saturating_add(1).min(size)),
        (Some(first), None) if last.trim().is_empty() => Asked::Part(first..size),
        (None, Some(0)) if first.trim().is_empty() => Asked::Nothing,
        (None, Some(_)) if first.trim().is_empty() && size == 0 => Asked::Nothing,
        (None, Some(length)) if first.trim().is_empty() => {
            Asked::Part(size.saturating_sub(length)..size)
        }
        (Some(_) | None, _) => Asked::All,
    }
}

fn is_end(text: &str) -> bool {
    text.trim().bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_understood_in_all_its_forms() {
        for (text, expected) in [
            ("bytes=0-9", Asked::Part(0..10)),
            ("bytes=5-5", Asked::Part(5..6)),
            ("bytes=90-", Asked::Part(90..100)),
            ("bytes=-10", Asked::Part(90..100)),
            ("bytes=-1000", Asked::Part(0..100)),
            ("bytes=0-99999999999999999999999", Asked::Part(0..100)),
            (" bytes=0-0 ", Asked::Part(0..1)),
            ("bytes=100-", Asked::Nothing),
            ("bytes=100-200", Asked::Nothing),
            ("bytes=99999999999999999999999-", Asked::Nothing),
            ("bytes=-0", Asked::Nothing),
            ("bytes=9-1", Asked::All),
            ("bytes=0-1,5-6", Asked::All),
            ("bytes=a-b", Asked::All),
            ("bytes=-", Asked::All),
            ("bytes", Asked::All),
            ("lines=1-2", Asked::All),
        ] {
            let header = HeaderValue::from_str(text).expect("a header");
            assert_eq!(asked(Some(&header), 100), expected, "{text}");
        }
        assert_eq!(asked(None, 100), Asked::All);
        let header = HeaderValue::from_static("bytes=-5");
        assert_eq!(asked(Some(&header), 0), Asked::Nothing);
    }
}
