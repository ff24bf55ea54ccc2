//! JSON whose form must be known before a parser reads it.

/// Whether JSON nests deeper than this; brackets inside texts do not count. Text that is no JSON
/// gets any answer.
///
/// Values that are not looked into are only skipped, so no parser would notice.
pub fn is_deeper_than(json: &[u8], depth_max: usize) -> bool {
    // Most texts have fewer brackets than they could be deep, which is quick to see.
    if n_opening(json) <= depth_max {
        return false;
    }
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => depth += 1,
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > depth_max {
            return true;
        }
    }
    false
}

/// How many opening brackets there are, counted in chunks whose sum fits a byte: so the compiler
/// looks at many bytes at once.
fn n_opening(bytes: &[u8]) -> usize {
    // The two brackets differ in one bit.
    let count = |sum: u8, byte: &u8| sum.wrapping_add(u8::from(*byte | 0x20 == b'{'));
    let in_chunk = |chunk: &[u8]| usize::from(chunk.iter().fold(0, count));
    bytes.chunks(usize::from(u8::MAX)).map(in_chunk).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_count_where_they_stand_in_no_text() {
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(!is_deeper_than(deep(64).as_bytes(), 64));
        assert!(is_deeper_than(deep(65).as_bytes(), 64));
        assert!(!is_deeper_than(br#"["[[[[\"[[", "\\"]"#, 1));
        assert!(is_deeper_than(br#"["[[[[\"[[", "\\", [1]]"#, 1));
        assert!(is_deeper_than(br#"{"a":{"b":[1,2,{}]}}"#, 3));
        assert!(!is_deeper_than(br#"{"a":{"b":[1,2,{}]}}"#, 4));
    }
}
