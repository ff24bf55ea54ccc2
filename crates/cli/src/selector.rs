//! Which of several things is meant.

use crate::failure::{ExitCode, Failure, Result};

/// A way to name a thing: an id, a name, the first letters of an id.
pub(crate) type Way<'a, T> = &'a dyn Fn(&T) -> bool;

/// What `text` names, by the first way that finds anything; two of a kind with different ids are a
/// question.
pub(crate) fn choose<'a, T>(
    (noun, text): (&str, &str),
    all: &'a [T],
    ways: &[Way<'_, T>],
    id: impl Fn(&T) -> &str,
    hint: &str,
) -> Result<&'a T> {
    for is_it in ways {
        let found: Vec<&T> = all.iter().filter(|one| is_it(one)).collect();
        let Some(last) = found.last() else { continue };
        if let Some(other) = found.iter().find(|one| id(one) != id(last)) {
            let message = format!("several {noun}s go by {text}");
            let hint = format!("give the id: {} or {}", id(other), id(last));
            return Err(Failure::usage(message, hint));
        }
        return Ok(last);
    }
    Err(Failure::new(ExitCode::NotFound, format!("no {noun} goes by {text}"), hint))
}
