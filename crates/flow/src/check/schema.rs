//! The JSON Schemas that nodes bring along. They are strangers' code: what they may cost is known
//! before they are used, and they never reach beyond themselves.

use std::collections::BTreeMap;

use jsonschema::{PatternOptions, Validator};
use model::is_deeper_than;
use serde_json::Value;

/// Limit: the schema of one node; a larger one is passed over.
const SCHEMA_BYTES_MAX: usize = 256 * 1024;
/// Limit: how deep a schema nests.
const SCHEMA_DEPTH_MAX: usize = 64;
/// Limit: all different schemas of a definition together.
const SCHEMAS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Limit: patterns in the schemas of a workflow, all together.
const PATTERNS_MAX: usize = 2_000;
/// Limit: what one pattern may take when it is ready for use.
const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// Steps that a schema may take for one value. References that meet again and again multiply.
const STEPS_MAX: usize = 20_000;
/// References behind references behind references.
const REFERENCE_DEPTH_MAX: usize = 128;
/// Keywords that apply one schema.
const APPLYING: [&str; 12] = [
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
    "additionalProperties",
    "unevaluatedProperties",
    "contentSchema",
];
/// So many choices are told.
const OPTIONS_TOLD_MAX: usize = 10;

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
#[derive(Debug)]
pub(crate) enum Unusable {
    /// It refers to another document, which is refused.
    Remote(String),
    /// It is odd, or does more than we let it; it is passed over. The rest of a sentence.
    PassedOver(String),
}

impl From<&str> for Unusable {
    fn from(reason: &str) -> Self {
        Self::PassedOver(reason.to_owned())
    }
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
            format!("it has {} bytes, at most {SCHEMA_BYTES_MAX} are read", text.len())
        } else if is_deeper_than(text.as_bytes(), SCHEMA_DEPTH_MAX) {
            format!("it nests more than {SCHEMA_DEPTH_MAX} levels deep")
        } else if self.n_bytes > SCHEMAS_BYTES_MAX {
            format!("the schemas together have more than {SCHEMAS_BYTES_MAX} bytes")
        } else {
            let value: Value = serde_json::from_str(text).unwrap_or_default();
            let usable = self.usable(&value);
            return Known { value, usable };
        };
        Known { value: Value::Null, usable: Err(Unusable::PassedOver(too_much)) }
    }

    fn usable(&mut self, schema: &Value) -> Result<Usable, Unusable> {
        let (steps, n_patterns) = weigh(schema)?;
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

/// What a schema costs at most: steps for one value, and patterns to make ready.
fn weigh(root: &Value) -> Result<(usize, usize), Unusable> {
    let mut scale = Scale { root, known: BTreeMap::new(), n_patterns: 0 };
    let steps = scale.weigh(root, 0)?;
    Ok((steps, scale.n_patterns))
}

struct Scale<'r> {
    root: &'r Value,
    /// By the place in memory; `None` while it is being weighed.
    known: BTreeMap<*const Value, Option<usize>>,
    n_patterns: usize,
}

impl<'r> Scale<'r> {
    fn weigh(&mut self, schema: &'r Value, depth: usize) -> Result<usize, Unusable> {
        if depth > REFERENCE_DEPTH_MAX {
            return Err("its references lead too deep".into());
        }
        let Value::Object(keywords) = schema else { return Ok(1) };
        match self.known.get(&std::ptr::from_ref(schema)) {
            Some(Some(steps)) => return Ok(*steps),
            Some(None) => return Err("it refers to itself".into()),
            None => {}
        }
        self.known.insert(schema, None);
        let mut steps = 1_usize;
        for (keyword, value) in keywords {
            steps = steps.saturating_add(self.keyword(keyword, value, depth)?);
        }
        if steps > STEPS_MAX {
            return Err("it takes too many steps".into());
        }
        self.known.insert(schema, Some(steps));
        Ok(steps)
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &'r Value,
        depth: usize,
    ) -> Result<usize, Unusable> {
        match (keyword, value) {
            ("$ref", Value::String(reference)) => {
                let target = self.target(reference)?;
                self.weigh(target, depth + 1)
            }
            ("$dynamicRef" | "$recursiveRef", _) => Err("its references depend on who asks".into()),
            ("$id" | "id", Value::String(_)) if depth > 0 => {
                Err("it holds a schema with an id of its own".into())
            }
            ("pattern", _) => {
                self.n_patterns += 1;
                Ok(1)
            }
            ("enum" | "required", Value::Array(items)) => Ok(items.len()),
            // Not used unless something refers to them, yet they may not reach out either.
            ("$defs" | "definitions", Value::Object(schemas)) => {
                self.all(schemas.values(), depth).map(|_| 1)
            }
            _ => self.applied(keyword, value, depth),
        }
    }

    /// Keywords that apply other schemas.
    fn applied(
        &mut self,
        keyword: &str,
        value: &'r Value,
        depth: usize,
    ) -> Result<usize, Unusable> {
        match (keyword, value) {
            ("patternProperties", Value::Object(schemas)) => {
                self.n_patterns += schemas.len();
                self.all(schemas.values(), depth)
            }
            ("properties" | "dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                self.all(schemas.values(), depth)
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(schemas)) => {
                self.all(schemas.iter(), depth)
            }
            (keyword, schema) if APPLYING.contains(&keyword) => self.weigh(schema, depth + 1),
            _ => Ok(1),
        }
    }

    fn all(
        &mut self,
        mut schemas: impl Iterator<Item = &'r Value>,
        depth: usize,
    ) -> Result<usize, Unusable> {
        schemas
            .try_fold(1_usize, |sum, schema| Ok(sum.saturating_add(self.weigh(schema, depth + 1)?)))
    }

    fn target(&self, reference: &str) -> Result<&'r Value, Unusable> {
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err(Unusable::Remote(reference.to_owned()));
        };
        if fragment.contains('%') || !(fragment.is_empty() || fragment.starts_with('/')) {
            return Err("it refers to a name and not to a place".into());
        }
        self.root.pointer(fragment).ok_or("it refers to a place that is not there".into())
    }
}

/// The choices of an `enum`.
pub(crate) fn options(all: &[Value]) -> String {
    let mut told: Vec<String> = all.iter().take(OPTIONS_TOLD_MAX).map(Value::to_string).collect();
    if all.len() > told.len() {
        told.push(format!("{} more", all.len() - told.len()));
    }
    told.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reason(schema: &Value) -> String {
        match weigh(schema) {
            Ok((steps, _)) => format!("{steps} steps"),
            Err(Unusable::Remote(reference)) => format!("remote {reference}"),
            Err(Unusable::PassedOver(reason)) => reason,
        }
    }

    #[test]
    fn schemas_that_call_themselves_or_others_are_found() {
        assert_eq!(reason(&json!({"$ref": "#"})), "it refers to itself");
        assert_eq!(reason(&json!({"properties": {"next": {"$ref": "#"}}})), "it refers to itself");
        let remote = json!({"properties": {"a": {"items": {"$ref": "http://a/b"}}}});
        assert_eq!(reason(&remote), "remote http://a/b");
        let unused = json!({"$defs": {"a": {"$ref": "other.json"}}});
        assert_eq!(reason(&unused), "remote other.json");
        // A property of that name is no reference.
        assert_eq!(reason(&json!({"properties": {"$ref": {"type": "string"}}})), "4 steps");
    }

    #[test]
    fn laughter_that_doubles_is_not_heard_out() {
        let mut definitions = serde_json::Map::new();
        for n in 0..40 {
            let next = json!({"$ref": format!("#/$defs/l{}", n + 1)});
            definitions.insert(format!("l{n}"), json!({"allOf": [next, next]}));
        }
        definitions.insert("l40".to_owned(), json!({"type": "string"}));
        let schema = json!({"$defs": definitions, "$ref": "#/$defs/l0"});
        assert_eq!(reason(&schema), "it takes too many steps");
    }

    #[test]
    fn long_chains_of_references_end() {
        let mut definitions = serde_json::Map::new();
        for n in 0..5_000 {
            let next = json!({"$ref": format!("#/$defs/l{}", n + 1)});
            definitions.insert(format!("l{n}"), next);
        }
        definitions.insert("l5000".to_owned(), json!(true));
        let schema = json!({"$defs": definitions});
        assert_eq!(reason(&schema), "its references lead too deep");
    }
}
