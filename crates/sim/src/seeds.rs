//! Which seeds a sweep plays: those that once failed, a fixed block, and a block that is drawn from
//! a word, such as a commit's hash, so that each change meets histories that nobody has seen.

use crate::rng::scatter;

/// Seeds that once broke a promise, a world and a number a line.
const ONCE_FAILED: &str = include_str!("../seeds.txt");
/// Drawn seeds lie beyond the ones that people type.
const DRAWN_FROM: u64 = 1_000_000_000;
/// Drawn blocks begin within so many seeds, so that a number stays readable.
const DRAWN_WITHIN: u64 = 1_000_000_000_000;

/// The first seed of the block that a word draws.
pub fn drawn(word: &str) -> u64 {
    let hash = word.bytes().fold(0, |hash, byte| scatter(hash ^ u64::from(byte)));
    DRAWN_FROM + hash % DRAWN_WITHIN
}

/// Seeds of a world that once broke a promise.
pub fn once_failed(world: &str) -> Vec<u64> {
    read(ONCE_FAILED, world)
}

fn read(list: &str, world: &str) -> Vec<u64> {
    let lines = list.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let words = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == world).then(|| words.next())?
    });
    words.map(|word| word.parse().expect("a seed is a number")).collect()
}

/// All seeds of a sweep, each once, in the order in which they are played.
pub fn chosen(world: &str, from: u64, count: u64, draw: Option<&str>) -> Vec<u64> {
    let mut seeds: Vec<u64> = (from..from + count).collect();
    if let Some(text) = draw {
        let first = drawn(text);
        seeds.extend(first..first + count);
        seeds.extend(
            once_failed(world).into_iter().filter(|seed| !(from..from + count).contains(seed)),
        );
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_draws_a_block_of_its_own() {
        assert_eq!(drawn("abc"), drawn("abc"));
        assert_ne!(drawn("abc"), drawn("abd"));
        assert!(drawn("abc") >= DRAWN_FROM);
    }

    #[test]
    fn seeds_that_failed_are_played_beside_both_blocks() {
        let list = "# why\ntasks 7 it was stuck\nflows 9\ntasks 5000000\n";
        assert_eq!(read(list, "tasks"), [7, 5_000_000]);
        assert_eq!(read(list, "flows"), [9]);
        let seeds = chosen("tasks", 1, 3, Some("w"));
        assert_eq!(seeds[..3], [1, 2, 3]);
        assert_eq!(seeds[3], drawn("w"));
        assert_eq!(chosen("tasks", 4, 2, None), [4, 5], "one who names seeds gets no others");
    }
}
