//! A workflow as it is written: in a file, on stdin, or kept by a server.

use std::path::Path;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use super::selector;
use crate::commands::task::read_file;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::words;

const HINT: &str = "a workflow is a JSON object with `id`, `metadata`, `nodes` and `edges`; begin \
                    one with `astra flow new FILE`";

/// What a word of the command line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// A file, or stdin.
    File(String),
    /// A workflow that a server keeps: its id, the first letters of it, or its name.
    Kept(String),
}

impl Named {
    /// What is there as a file is one; so is what looks like one.
    pub(super) fn of(text: &str) -> Self {
        let ends_like_one =
            Path::new(text).extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
        if text == "-" || ends_like_one || Path::new(text).is_file() {
            Self::File(text.into())
        } else {
            Self::Kept(text.into())
        }
    }
}

/// A workflow's text, as authored.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// Where it came from, for people.
    pub(super) origin: String,
    pub(super) source: String,
    /// The kept version, if it is one.
    pub(super) version: Option<u64>,
}

impl Document {
    pub(super) fn of_file(file: &str) -> Result<Self> {
        let origin = if file == "-" { "stdin".into() } else { file.to_owned() };
        Ok(Self { origin, source: read_file(file)?, version: None })
    }

    /// The version that is asked for, or the newest.
    pub(super) async fn kept(text: &str, version: Option<u64>, context: &Context) -> Result<Self> {
        let found = selector::workflow(context, text).await?;
        let version = version.unwrap_or(found.version);
        let id = words::percent_encoded(&found.workflow_id);
        let path = format!("/api/v1/workflows/{id}?version={version}");
        let source = context.ask(context.client.get_text(&path)).await?;
        Ok(Self { origin: found.name, source, version: Some(version) })
    }

    /// The text as it goes to a server, which is told JSON from nonsense here already.
    pub(super) fn raw(&self) -> Result<Box<RawValue>> {
        serde_json::from_str(&self.source)
            .map_err(|error| Failure::usage(format!("{} is not JSON: {error}", self.origin), HINT))
    }

    /// For a look at single fields; `null` where it is no JSON.
    pub(super) fn value(&self) -> Value {
        serde_json::from_str(&self.source).unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes::from(self.source.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_file_is_one() {
        for file in ["-", "a.json", "dir/b.JSON"] {
            assert_eq!(Named::of(file), Named::File(file.into()));
        }
        for kept in ["nightly", "0ec2393a", "a.b"] {
            assert_eq!(Named::of(kept), Named::Kept(kept.into()));
        }
    }
}
