//! Whatever comes in, nothing panics.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::super::envelope::Envelope;
use super::super::kind::{Kind, Payload};
use super::golden::goldens;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_bytes_are_refused_quietly(bytes in vec(any::<u8>(), 0..300)) {
        swallow(&bytes);
    }

    #[test]
    fn random_json_like_text_is_refused_quietly(
        text in r#"([\[\]{},:"\\ 0-9eE+.-]|null|true|"type"|"id"|"payload"){0,60}"#,
    ) {
        swallow(text.as_bytes());
    }

    #[test]
    fn damaged_frames_are_refused_quietly(
        golden in any::<Index>(),
        damages in vec((any::<Index>(), any::<u8>(), 0_usize..3), 1..6),
    ) {
        let goldens = goldens();
        let mut bytes = golden.get(&goldens).1.clone().into_bytes();
        for (at, byte, what) in damages {
            let at = at.index(bytes.len());
            match what {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at.max(1)),
            }
        }
        swallow(&bytes);
    }
}

/// Reads as far as it goes; the payload as every kind that there is.
fn swallow(bytes: &[u8]) {
    match Envelope::from_bytes(bytes) {
        Ok(frame) => {
            for kind in Kind::all() {
                let _ = Payload::decode(kind, &frame.payload);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
