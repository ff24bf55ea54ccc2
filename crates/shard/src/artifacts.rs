//! What attempts leave behind: references to things on workers, checked at the doors.

use bytes::Bytes;
use protocol::session::payload::resource::Artifact;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

/// Limit: artifacts of one attempt.
const ARTIFACTS_MAX: usize = 1_000;
/// Limit: artifacts whose data stands in the result, all of one attempt together.
const INLINE_BYTES_MAX: usize = 2 << 20;

/// Why artifacts are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    #[error("{0} artifacts are more than the {ARTIFACTS_MAX} that one attempt may leave")]
    TooMany(usize),
    #[error(
        "inline artifacts of {0} bytes are more than the {INLINE_BYTES_MAX} bytes that a result \
         may hold"
    )]
    TooLarge(u64),
}

/// What to do about artifacts that are not taken.
pub const HINT: &str = "register large data as a resource of the worker and return its \
                               reference, with `inline` false";

/// An artifact as it is kept and shown.
#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Kept<'a> {
    resource_id: &'a str,
    worker_name: &'a str,
    r#type: &'a str,
    size_bytes: Option<u64>,
    inline: Option<bool>,
    expires_at: Option<&'a str>,
    metadata: Option<&'a RawValue>,
}

/// Artifacts as they are kept: a JSON array; `None` where there are none.
pub fn kept(artifacts: &[Artifact]) -> Result<Option<Bytes>, ArtifactError> {
    if artifacts.is_empty() {
        return Ok(None);
    }
    if artifacts.len() > ARTIFACTS_MAX {
        return Err(ArtifactError::TooMany(artifacts.len()));
    }
    let inline = artifacts.iter().filter(|artifact| artifact.inline == Some(true));
    let bytes = inline.fold(0_u64, |sum, one| sum.saturating_add(one.size_bytes.unwrap_or(0)));
    if u64::try_from(INLINE_BYTES_MAX).is_ok_and(|bytes_max| bytes > bytes_max) {
        return Err(ArtifactError::TooLarge(bytes));
    }
    let kept: Vec<_> = artifacts.iter().map(keep).collect();
    Ok(Some(Bytes::from(serde_json::to_vec(&kept).expect("plain values become JSON"))))
}

fn keep(artifact: &Artifact) -> Kept<'_> {
    Kept {
        resource_id: &artifact.resource_id,
        worker_name: &artifact.worker_name,
        r#type: &artifact.resource_type,
        size_bytes: artifact.size_bytes,
        inline: artifact.inline,
        expires_at: artifact.expires_at.as_deref(),
        metadata: artifact.metadata.as_ref().map(protocol::session::codec::OpenObject::as_raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_kept_in_the_words_of_the_surface() {
        let kept = kept(&[artifact(Some(7), true)]).expect("good").expect("some");
        let text =
            r#"[{"resourceId":"r","workerName":"w","type":"file","sizeBytes":7,"inline":true}]"#;
        assert_eq!(kept, text.as_bytes());
        assert_eq!(super::kept(&[]), Ok(None));
    }

    #[test]
    fn large_inline_artifacts_are_refused_and_large_references_are_not() {
        let bytes_max = u64::try_from(INLINE_BYTES_MAX).expect("fits");
        let half = artifact(Some(bytes_max / 2), true);
        assert!(kept(&[half.clone(), half.clone()]).is_ok());
        let refused = kept(&[half.clone(), half, artifact(Some(1), true)]);
        assert_eq!(refused, Err(ArtifactError::TooLarge(bytes_max + 1)));
        assert!(kept(&[artifact(Some(u64::MAX), false)]).is_ok());
        assert_eq!(
            kept(&vec![artifact(None, false); ARTIFACTS_MAX + 1]),
            Err(ArtifactError::TooMany(ARTIFACTS_MAX + 1))
        );
    }

    fn artifact(size_bytes: Option<u64>, inline: bool) -> Artifact {
        Artifact {
            resource_id: "r".into(),
            worker_name: "w".into(),
            resource_type: "file".into(),
            size_bytes,
            inline: Some(inline),
            expires_at: None,
            metadata: None,
        }
    }
}
