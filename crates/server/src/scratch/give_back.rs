//! What undoes a pop whose element nobody took.

use bytes::Bytes;
use keyspace::Answer;

/// The command that puts back what this pop took, at the end from which it was taken. `None` when
/// nothing left the keyspace: a move keeps its element in the other list.
pub(super) fn undoing(command: &[Bytes], answer: &Answer) -> Option<Vec<Bytes>> {
    let is =
        |name: &str| command.first().is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    let push = match () {
        () if is("BLPOP") => "LPUSH",
        () if is("BRPOP") => "RPUSH",
        () => return None,
    };
    let Answer::Array(parts) = answer else { return None };
    let [Answer::Bulk(key), Answer::Bulk(element)] = parts.as_slice() else { return None };
    Some(vec![Bytes::from_static(push.as_bytes()), key.clone(), element.clone()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Bytes> {
        text.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
    }

    fn check(command: &str, answer: &Answer, expected: Option<&str>) {
        assert_eq!(undoing(&words(command), answer), expected.map(words), "{command}");
    }

    #[test]
    fn a_pop_is_undone_at_its_own_end() {
        let popped = Answer::Array(vec![Answer::Bulk("q".into()), Answer::Bulk("1".into())]);
        check("BLPOP p q 0", &popped, Some("LPUSH q 1"));
        check("brpop p q 0", &popped, Some("RPUSH q 1"));
        check("BRPOP p q 0", &Answer::NullArray, None);
        check("BRPOP p q 0", &Answer::Error("WRONGTYPE".into()), None);
        check("BLMOVE p q LEFT RIGHT 0", &Answer::Bulk("1".into()), None);
        check("BRPOPLPUSH p q 0", &Answer::Bulk("1".into()), None);
    }
}
