//! Objects that are carried without being looked into.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// A JSON object of anything, kept as the text that it came as.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct OpenObject(Box<RawValue>);

impl OpenObject {
    /// `None` for JSON that is no object.
    pub fn new(raw: Box<RawValue>) -> Option<Self> {
        raw.get().trim_start().starts_with('{').then_some(Self(raw))
    }

    /// `{}`.
    pub fn empty() -> Self {
        Self(RawValue::from_string("{}".to_owned()).expect("an empty object is JSON"))
    }

    /// Its text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The same as a raw value.
    pub fn as_raw(&self) -> &RawValue {
        &self.0
    }

    /// The same as a raw value of one's own.
    pub fn into_raw(self) -> Box<RawValue> {
        self.0
    }
}

impl<'de> Deserialize<'de> for OpenObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::new(raw).ok_or_else(|| D::Error::custom("not an object"))
    }
}

impl PartialEq for OpenObject {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Default for OpenObject {
    fn default() -> Self {
        Self::empty()
    }
}
