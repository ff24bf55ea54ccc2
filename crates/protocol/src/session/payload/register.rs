//! What a worker can do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::decode::DecodeError;
use super::super::open::OpenObject;
use super::super::read::Value;

/// The worker says what it can do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Register {
    /// What it can do.
    pub capabilities: Capabilities,
    /// The business frames that it understands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_types: Option<Vec<String>>,
    /// The packages on its disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages: Option<Vec<RegisteredPackage>>,
    /// The manifests of its packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifests: Option<Vec<RegisteredManifest>>,
    /// The feedback channels that it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<String>>,
}

impl Register {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        let texts = |value: &Value<'_>| value.list(Value::text);
        Ok(Self {
            capabilities: fields.required("capabilities", Capabilities::read)?,
            payload_types: fields.optional("payload_types", texts)?,
            packages: fields.optional("packages", |value| value.list(RegisteredPackage::read))?,
            manifests: fields
                .optional("manifests", |value| value.list(RegisteredManifest::read))?,
            channels: fields.optional("channels", texts)?,
        })
    }
}

/// What a worker can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// How much at once.
    pub concurrency: Concurrency,
    /// The runtimes it has, at least one.
    pub runtimes: Vec<String>,
    /// What else it knows.
    pub features: Vec<String>,
}

impl Capabilities {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        let runtimes = |value: &Value<'_>| match value.list(Value::text)? {
            empty if empty.is_empty() => Err(value.refuse("a list of at least one")),
            runtimes => Ok(runtimes),
        };
        Ok(Self {
            concurrency: fields.required("concurrency", Concurrency::read)?,
            runtimes: fields.required("runtimes", runtimes)?,
            features: fields.required("features", |value| value.list(Value::text))?,
        })
    }
}

/// How much a worker does at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Concurrency {
    /// At most so many tasks.
    pub max_parallel: u64,
    /// At most so many tasks of one node type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_node_limits: Option<BTreeMap<String, u64>>,
}

impl Concurrency {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        let limits = |value: &Value<'_>| value.map(Value::positive);
        Ok(Self {
            max_parallel: fields.required("max_parallel", Value::positive)?,
            per_node_limits: fields.optional("per_node_limits", limits)?,
        })
    }
}

/// A package on a worker's disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegisteredPackage {
    /// Which package.
    pub name: String,
    /// Which version of it.
    pub version: String,
    /// Whether it can be used.
    pub status: PackageStatus,
}

impl RegisteredPackage {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        let status = |value: &Value<'_>| value.word("installed, missing or failed");
        Ok(Self {
            name: fields.required("name", Value::name)?,
            version: fields.required("version", Value::name)?,
            status: fields.required("status", status)?,
        })
    }
}

/// Whether a package can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageStatus {
    /// It can.
    Installed,
    /// It is not there.
    Missing,
    /// Its installation failed.
    Failed,
}

/// The manifest of a package on a worker's disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegisteredManifest {
    /// Which package.
    pub name: String,
    /// Which version of it.
    pub version: String,
    /// What it contains.
    pub manifest: OpenObject,
}

impl RegisteredManifest {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            name: fields.required("name", Value::name)?,
            version: fields.required("version", Value::name)?,
            manifest: fields.required("manifest", Value::open)?,
        })
    }
}
