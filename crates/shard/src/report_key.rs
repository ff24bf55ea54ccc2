//! How a report is recognised when it is sent again.

use std::fmt::Write;

use aws_lc_rs::digest;
use bytes::Bytes;
use model::{ReportKey, ReportedOutcome, ResultExtra};

/// Limit: why an attempt failed, in characters.
pub const REASON_CHARS_MAX: usize = 4_096;
/// Limit: the code of a failure, in characters.
pub const CODE_CHARS_MAX: usize = 128;

/// Optional parts of a result; `None` where this one has none.
pub fn extra(is_skipped: bool, artifacts: Option<Bytes>) -> Option<Box<ResultExtra>> {
    let has_some = is_skipped || artifacts.is_some();
    has_some.then(|| Box::new(ResultExtra { is_skipped, artifacts }))
}

/// Recognises a report by the worker's own name for it.
pub fn named_key(report_id: &str) -> ReportKey {
    key_of(&digest_of(b"astra.report.id.v1", &[report_id.as_bytes()]))
}

/// Recognises a report that has no name by what it says.
pub fn content_key(outcome: &ReportedOutcome) -> ReportKey {
    key_of(&match outcome {
        ReportedOutcome::Completed { result, extra: None } => {
            digest_of(b"astra.report.complete.v1", &[result])
        }
        ReportedOutcome::Completed { result, extra: Some(extra) } => {
            let is_skipped = [u8::from(extra.is_skipped)];
            let artifacts = extra.artifacts.as_deref().unwrap_or_default();
            digest_of(b"astra.report.complete.v2", &[result, &is_skipped, artifacts])
        }
        ReportedOutcome::Failed { failure, retryable } => {
            let retryable = [u8::from(*retryable)];
            let mut parts = vec![failure.code.as_bytes(), failure.reason.as_bytes(), &retryable];
            // Only where there are any, so that reports of older versions keep their keys.
            parts.extend(failure.details.as_deref());
            digest_of(b"astra.report.fail.v1", &parts)
        }
    })
}

/// Recognises a request that is sent again under the same key.
pub fn fingerprint(domain: &[u8], parts: &[&[u8]]) -> u64 {
    let digest = digest_of(domain, parts);
    u64::from_be_bytes(*digest.first_chunk().expect("32 bytes"))
}

/// Bytes as text, in lower case.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a String takes everything");
    }
    text
}

/// SHA-256 over a domain and parts, each with its length in front, so that no two different lists
/// of parts give the same bytes.
pub fn digest_of(domain: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // One call over one buffer: a context that takes the parts one by one costs more to set up
    // than all of it, for the short texts that reports mostly are.
    let length = parts.iter().map(|part| size_of::<u64>() + part.len()).sum::<usize>();
    let mut buffer = Vec::with_capacity(domain.len() + length);
    buffer.extend_from_slice(domain);
    for part in parts {
        buffer.extend_from_slice(&(part.len() as u64).to_be_bytes());
        buffer.extend_from_slice(part);
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, &buffer).as_ref());
    bytes
}

fn key_of(digest: &[u8; 32]) -> ReportKey {
    let (first, _) = digest.split_first_chunk().expect("32 bytes");
    ReportKey(u128::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_cut_elsewhere_give_another_digest() {
        let digest = |parts: &[&[u8]]| digest_of(b"astra.test.v1", parts);
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
        assert_ne!(digest(&[b"ab"]), digest(&[b"ab", b""]));
    }

    /// Keys are stored: a report that is sent again after an upgrade must be recognised.
    #[test]
    fn the_key_of_a_report_never_changes() {
        assert_eq!(named_key("report-1").0, 0x597d_8cc9_6089_61a0_996a_42c0_fa7e_1aa0);
    }
}
