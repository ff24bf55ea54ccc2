//! The JSON Schemas that nodes bring along. They are strangers' code: what they may cost is known
//! before they are used, and they never reach beyond themselves.

mod weight;

use std::collections::BTreeMap;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::shape::is_deeper_than;
use weight::{Unfit, Weight, weigh};

/// The longest schema of one node.
pub const SCHEMA_BYTES_MAX: usize = 256 * 1024;
/// How deep a schema nests.
pub const SCHEMA_DEPTH_MAX: usize = 64;
/// All different schemas of a definition together.
pub const SCHEMAS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// All patterns in them.
pub const PATTERNS_MAX: usize = 2_000;
/// What one pattern may take when it is ready for use.
pub const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// A schema that was read.
#[derive(Debug)]
pub(crate) struct Known {
    /// As authored.
    pub(crate) value: Value,
    /// Whether it can be used to check something, and how.
    pub(crate) usable: Result<Usable, Unusable>,
}

/// A schema that can be used.
#[derive(Debug)]
pub(crate) struct Usable {
    /// Says yes or no.
    pub(crate) validator: Validator,
    /// How many steps one value takes at most.
    pub(crate) steps: usize,
}

/// Why a schema is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It refers to another document, which is refused.
    Remote(String),
    /// It is odd, or does more than we let it; it is passed over.
    PassedOver(String),
}

/// Schemas by their text. Thousands of nodes share a few.
#[derive(Debug, Default)]
pub(crate) struct Schemas<'s> {
    known: BTreeMap<&'s str, Known>,
    n_bytes: usize,
    n_patterns: usize,
}

impl<'s> Schemas<'s> {
    /// Reads a schema, or finds it again.
    pub(crate) fn of(&mut self, text: &'s str) -> &Known {
        if !self.known.contains_key(text) {
            let known = self.read(text);
            self.known.insert(text, known);
        }
        &self.known[text]
    }

    fn read(&mut self, text: &str) -> Known {
        self.n_bytes = self.n_bytes.saturating_add(text.len());
        let too_much = if text.len() > SCHEMA_BYTES_MAX {
            Some(format!("it has {} bytes, at most {SCHEMA_BYTES_MAX} are read", text.len()))
        } else if is_deeper_than(text.as_bytes(), SCHEMA_DEPTH_MAX) {
            Some(format!("it nests more than {SCHEMA_DEPTH_MAX} levels deep"))
        } else if self.n_bytes > SCHEMAS_BYTES_MAX {
            Some(format!("the schemas together have more than {SCHEMAS_BYTES_MAX} bytes"))
        } else {
            None
        };
        if let Some(reason) = too_much {
            return Known { value: Value::Null, usable: Err(Unusable::PassedOver(reason)) };
        }
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let usable = self.usable(&value);
        Known { value, usable }
    }

    fn usable(&mut self, schema: &Value) -> Result<Usable, Unusable> {
        let Weight { steps, n_patterns } = weigh(schema).map_err(|unfit| match unfit {
            Unfit::Remote(reference) => Unusable::Remote(reference),
            Unfit::Other(reason) => Unusable::PassedOver(reason.to_owned()),
        })?;
        self.n_patterns += n_patterns;
        if self.n_patterns > PATTERNS_MAX {
            let reason = format!("the schemas together have more than {PATTERNS_MAX} patterns");
            return Err(Unusable::PassedOver(reason));
        }
        // Patterns that could take forever to match are not accepted by this engine.
        let patterns =
            PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
        let validator = jsonschema::options()
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(patterns)
            .build(schema)
            .map_err(|error| Unusable::PassedOver(format!("it is no JSON Schema: {error}")))?;
        Ok(Usable { validator, steps })
    }
}
