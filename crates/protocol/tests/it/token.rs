//! Session tokens against forgers.

use std::time::Duration;

use model::{Rng, Timestamp};
use protocol::session::token::{
    Bearer, InvalidToken, KEYS_MAX, KeyError, KeyRing, TOKEN_BYTES_MAX,
};

const MUTATIONS: u64 = 100_000;

const BEARER: Bearer<'_> = Bearer { session_id: "s-1", worker_instance_id: "w-1", tenant: "t" };

fn now() -> Timestamp {
    Timestamp::from_millis(1_790_000_000_000)
}

fn expiry() -> Timestamp {
    now().after(Duration::from_hours(1))
}

fn ring() -> KeyRing {
    KeyRing::new("k1", &[7; 32]).expect("a long secret")
}

struct Dice(Rng);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        usize::try_from(self.0.below(below as u64)).expect("below a length")
    }
}

#[test]
fn no_mutation_of_a_token_is_accepted() {
    let ring = ring();
    let token = ring.issue(BEARER, now(), expiry());
    let others: Vec<String> = other_bearers()
        .iter()
        .map(|bearer| ring.issue(*bearer, now(), expiry()))
        .chain([ring.issue(BEARER, now(), now())])
        .collect();
    let mut dice = Dice(Rng::new(1));
    let mut n_tried = 0;
    for _ in 0..MUTATIONS {
        let mutated = mutate(&token, &others, &mut dice);
        if mutated != token {
            let verdict = ring.verify(&mutated, BEARER, now());
            assert_eq!(verdict, Err(InvalidToken), "{mutated} is accepted");
            n_tried += 1;
        }
    }
    assert!(n_tried > MUTATIONS * 9 / 10, "{n_tried} were really other tokens");
    assert_eq!(ring.verify(&token, BEARER, now()), Ok(()));
}

fn mutate(token: &str, others: &[String], dice: &mut Dice) -> String {
    let (claims, signature) = token.split_once('.').expect("two parts");
    let other = &others[dice.roll(others.len())];
    let (other_claims, other_signature) = other.split_once('.').expect("two parts");
    match dice.roll(9) {
        0 => flip_bit(token, dice),
        1 => token[..dice.roll(token.len())].to_owned(),
        2 => format!("{claims}.{other_signature}"),
        3 => format!("{other_claims}.{signature}"),
        4 => other.clone(),
        5 => change_letter(token, dice),
        6 => splice(token, other, dice),
        7 => repad(claims, signature, dice),
        _ => insert(token, dice),
    }
}

fn flip_bit(token: &str, dice: &mut Dice) -> String {
    let mut bytes = token.as_bytes().to_vec();
    let at = dice.roll(bytes.len());
    bytes[at] ^= 1 << dice.roll(7);
    String::from_utf8(bytes).expect("ASCII")
}

fn change_letter(token: &str, dice: &mut Dice) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut bytes = token.as_bytes().to_vec();
    let at = dice.roll(bytes.len());
    bytes[at] = LETTERS[dice.roll(LETTERS.len())];
    String::from_utf8(bytes).expect("ASCII")
}

/// The beginning of one with the end of another.
fn splice(token: &str, other: &str, dice: &mut Dice) -> String {
    let at = dice.roll(token.len().min(other.len()));
    format!("{}{}", &token[..at], &other[at..])
}

/// The same bytes in other letters: a token has one spelling.
fn repad(claims: &str, signature: &str, dice: &mut Dice) -> String {
    let standard = |part: &str| part.replace('-', "+").replace('_', "/");
    match dice.roll(5) {
        0 => format!("{claims}=.{signature}"),
        1 => format!("{claims}.{signature}="),
        2 => format!("{} .{signature}", standard(claims)),
        3 => format!("{claims}.{signature}."),
        _ => format!("{claims}.{signature}.{signature}"),
    }
}

fn insert(token: &str, dice: &mut Dice) -> String {
    let at = dice.roll(token.len() + 1);
    let what = ["=", ".", "A", " ", "\n", "é"][dice.roll(6)];
    format!("{}{what}{}", &token[..at], &token[at..])
}

fn other_bearers() -> [Bearer<'static>; 6] {
    [
        Bearer { session_id: "s-2", ..BEARER },
        Bearer { worker_instance_id: "w-2", ..BEARER },
        Bearer { tenant: "other", ..BEARER },
        Bearer { session_id: "", ..BEARER },
        Bearer { session_id: "w-1", worker_instance_id: "s-1", ..BEARER },
        Bearer { session_id: "s-1\",\"tenant\":\"t", ..BEARER },
    ]
}

#[test]
fn a_token_opens_one_session_of_one_worker_of_one_tenant() {
    let ring = ring();
    let token = ring.issue(BEARER, now(), expiry());
    for other in other_bearers() {
        assert_eq!(ring.verify(&token, other, now()), Err(InvalidToken), "{other:?}");
    }
}

#[test]
fn a_token_ends_at_its_second() {
    let ring = ring();
    let token = ring.issue(BEARER, now(), expiry());
    let before = Timestamp::from_millis(expiry().as_millis() - 1);
    assert_eq!(ring.verify(&token, BEARER, before), Ok(()));
    assert_eq!(ring.verify(&token, BEARER, expiry()), Err(InvalidToken));
    assert_eq!(ring.verify(&token, BEARER, Timestamp::MAX), Err(InvalidToken));
}

#[test]
fn keys_overlap_while_they_rotate() {
    let mut ring = ring();
    let old = ring.issue(BEARER, now(), expiry());
    ring.rotate("k2", &[8; 32]).unwrap();
    let new = ring.issue(BEARER, now(), expiry());
    assert_ne!(old, new);
    assert_eq!(ring.verify(&old, BEARER, now()), Ok(()));
    assert_eq!(ring.verify(&new, BEARER, now()), Ok(()));
    ring.retire("k1");
    assert_eq!(ring.verify(&old, BEARER, now()), Err(InvalidToken), "retired");
    assert_eq!(ring.verify(&new, BEARER, now()), Ok(()));
    ring.retire("k2");
    assert_eq!(ring.verify(&new, BEARER, now()), Ok(()), "the key that signs stays");
}

#[test]
fn the_name_of_a_key_is_not_its_secret() {
    let foreign = KeyRing::new("k1", &[9; 32]).unwrap();
    let token = foreign.issue(BEARER, now(), expiry());
    assert_eq!(ring().verify(&token, BEARER, now()), Err(InvalidToken));
    // The secret of another key under this name.
    let renamed = KeyRing::new("k9", &[7; 32]).unwrap();
    let token = renamed.issue(BEARER, now(), expiry());
    assert_eq!(ring().verify(&token, BEARER, now()), Err(InvalidToken));
}

#[test]
fn a_ring_is_bounded_and_takes_no_weak_keys() {
    let mut ring = ring();
    let oldest = ring.issue(BEARER, now(), expiry());
    assert_eq!(ring.rotate("k2", &[1; 31]), Err(KeyError::TooShort { bytes: 31 }));
    assert_eq!(ring.rotate("k1", &[1; 32]), Err(KeyError::IdTaken));
    for n in 0..KEYS_MAX {
        assert_eq!(ring.verify(&oldest, BEARER, now()), Ok(()));
        ring.rotate(&format!("next-{n}"), &[1; 32]).unwrap();
    }
    assert_eq!(ring.verify(&oldest, BEARER, now()), Err(InvalidToken), "forgotten");
}

#[test]
fn long_tokens_are_not_looked_at() {
    let ring = ring();
    let token = ring.issue(BEARER, now(), expiry());
    let long = format!("{}{token}", "A".repeat(TOKEN_BYTES_MAX));
    assert_eq!(ring.verify(&long, BEARER, now()), Err(InvalidToken));
}

#[test]
fn no_secret_is_in_a_debug_text() {
    let text = format!("{:?}", KeyRing::new("k1", b"0123456789abcdef0123456789abcdef").unwrap());
    assert_eq!(text, "[\"k1\"]");
}
