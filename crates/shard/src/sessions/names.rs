//! Names of workers: what they call themselves, made unique and writable.

use model::WorkerId;

/// The longest name; some room is left for what makes it unique.
const NAME_CHARS_MAX: usize = 55;

/// The name that a worker gave itself, with every letter that a name may not have replaced.
pub(super) fn writable(given: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = given.chars().take(NAME_CHARS_MAX).map(letter).collect();
    if name.is_empty() { "worker".to_owned() } else { name }
}

/// The first name that is free: the one it gave itself, or that with a piece of its instance id.
pub(super) fn unique(
    given: &str,
    instance_id: &str,
    is_free: impl Fn(&WorkerId) -> bool,
) -> WorkerId {
    let name = writable(given);
    let marks: String = instance_id.chars().filter(char::is_ascii_alphanumeric).collect();
    let candidates = std::iter::once(name.clone())
        .chain((1..=2).map(|n| format!("{name}-{}", marks.chars().take(4 * n).collect::<String>())))
        .chain((2..).map(|n| format!("{name}-{n}")));
    candidates
        .filter_map(|name| name.parse().ok())
        .find(|name| is_free(name))
        .expect("some number is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_writable_and_unique() {
        assert_eq!(writable("gpu box.local"), "gpu-box-local");
        assert_eq!(writable(""), "worker");
        assert_eq!(writable("ä".repeat(99).as_str()).len(), NAME_CHARS_MAX);
        let taken = ["w1", "w1-9f3a"];
        let is_free = |name: &WorkerId| !taken.contains(&name.as_str());
        assert_eq!(unique("w1", "9f3a-77c0", is_free).as_str(), "w1-9f3a77c0");
        assert_eq!(unique("w2", "9f3a-77c0", is_free).as_str(), "w2");
        assert_eq!(unique("w1", "", |name| name.as_str() == "w1-2").as_str(), "w1-2");
    }
}
