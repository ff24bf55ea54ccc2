//! Names of runs.

use model::RunName;
use uuid::Uuid;

/// RFC 4648, in lower case: no letter looks like a digit.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Forty bits: a thousand runs share no name with a chance of two million to one.
const LETTERS: usize = 8;

/// A name that no other run has.
pub(super) fn fresh() -> RunName {
    let random = Uuid::new_v4().as_u128();
    let letter = |place: usize| {
        let index = (random >> (5 * place)) & 31;
        char::from(ALPHABET[usize::try_from(index).expect("five bits")])
    };
    let name: String = (0..LETTERS).map(letter).collect();
    name.parse().expect("eight letters and digits")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_short_and_differ() {
        let names: BTreeSet<String> = (0..1_000).map(|_| fresh().to_string()).collect();
        assert_eq!(names.len(), 1_000);
        let is_plain = |name: &String| {
            name.len() == LETTERS && name.bytes().all(|byte| ALPHABET.contains(&byte))
        };
        assert!(names.iter().all(is_plain), "{names:?}");
    }
}
