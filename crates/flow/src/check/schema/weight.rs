//! What a schema costs at most, found before it is used.

use std::collections::BTreeMap;

use serde_json::Value;

/// Steps that a schema may take for one value. References that meet again and again multiply.
pub(crate) const STEPS_MAX: usize = 20_000;
/// References behind references behind references.
pub(crate) const REFERENCE_DEPTH_MAX: usize = 128;

/// What a schema costs at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    /// Steps for one value.
    pub(crate) steps: usize,
    /// Patterns to make ready.
    pub(crate) n_patterns: usize,
}

/// Why a schema is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It refers to another document.
    Remote(String),
    /// Something else, as the rest of a sentence.
    Other(&'static str),
}

/// Weighs a schema.
pub(crate) fn weigh(root: &Value) -> Result<Weight, Unfit> {
    let mut scale = Scale { root, known: BTreeMap::new(), n_patterns: 0 };
    let steps = scale.weigh(root, 0)?;
    Ok(Weight { steps, n_patterns: scale.n_patterns })
}

struct Scale<'r> {
    root: &'r Value,
    /// By the place in memory; `None` while it is being weighed.
    known: BTreeMap<*const Value, Option<usize>>,
    n_patterns: usize,
}

impl<'r> Scale<'r> {
    fn weigh(&mut self, schema: &'r Value, depth: usize) -> Result<usize, Unfit> {
        if depth > REFERENCE_DEPTH_MAX {
            return Err(Unfit::Other("its references lead too deep"));
        }
        let Value::Object(keywords) = schema else { return Ok(1) };
        match self.known.get(&std::ptr::from_ref(schema)) {
            Some(Some(steps)) => return Ok(*steps),
            Some(None) => return Err(Unfit::Other("it refers to itself")),
            None => {}
        }
        self.known.insert(schema, None);
        let mut steps = 1_usize;
        for (keyword, value) in keywords {
            let more = self.keyword((keyword, value), depth)?;
            steps = steps.saturating_add(more);
        }
        if steps > STEPS_MAX {
            return Err(Unfit::Other("it takes too many steps"));
        }
        self.known.insert(schema, Some(steps));
        Ok(steps)
    }

    fn keyword(
        &mut self,
        (keyword, value): (&str, &'r Value),
        depth: usize,
    ) -> Result<usize, Unfit> {
        match (keyword, value) {
            ("$ref", Value::String(reference)) => {
                let target = self.target(reference)?;
                self.weigh(target, depth + 1)
            }
            ("$dynamicRef" | "$recursiveRef", _) => {
                Err(Unfit::Other("its references depend on who asks"))
            }
            ("$id" | "id", Value::String(_)) if depth > 0 => {
                Err(Unfit::Other("it holds a schema with an id of its own"))
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
            _ => self.applied((keyword, value), depth),
        }
    }

    /// Keywords that apply other schemas.
    fn applied(
        &mut self,
        (keyword, value): (&str, &'r Value),
        depth: usize,
    ) -> Result<usize, Unfit> {
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
            (
                "items"
                | "additionalItems"
                | "unevaluatedItems"
                | "contains"
                | "not"
                | "if"
                | "then"
                | "else"
                | "propertyNames"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "contentSchema",
                schema,
            ) => self.weigh(schema, depth + 1),
            _ => Ok(1),
        }
    }

    fn all(
        &mut self,
        schemas: impl Iterator<Item = &'r Value>,
        depth: usize,
    ) -> Result<usize, Unfit> {
        let mut steps = 1_usize;
        for schema in schemas {
            steps = steps.saturating_add(self.weigh(schema, depth + 1)?);
        }
        Ok(steps)
    }

    fn target(&self, reference: &str) -> Result<&'r Value, Unfit> {
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err(Unfit::Remote(reference.to_owned()));
        };
        if fragment.contains('%') || !(fragment.is_empty() || fragment.starts_with('/')) {
            return Err(Unfit::Other("it refers to a name and not to a place"));
        }
        self.root.pointer(fragment).ok_or(Unfit::Other("it refers to a place that is not there"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reason(schema: &Value) -> String {
        match weigh(schema) {
            Ok(weight) => format!("{} steps", weight.steps),
            Err(Unfit::Remote(reference)) => format!("remote {reference}"),
            Err(Unfit::Other(reason)) => reason.to_owned(),
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
