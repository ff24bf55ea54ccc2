//! Packages: bringing them, removing them, and what became of it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::super::codec::OpenObject;
use super::super::rule::{Rule, Sha256, Text, Uri};

/// The server wants a package to be installed.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Install {
    /// Which package.
    pub name: String,
    /// Which version of it.
    pub version: String,
    /// Where it is.
    #[serde(deserialize_with = "Uri::read")]
    pub url: Option<String>,
    /// The digest of its archive, in hexadecimal.
    #[serde(deserialize_with = "Sha256::read")]
    pub sha256: Option<String>,
}

/// The server wants a package to be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uninstall {
    /// Which package.
    pub name: String,
    /// Which version of it; if missing, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What became of an installation.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackageEvent {
    /// Which package.
    pub name: String,
    /// Which version of it.
    pub version: String,
    /// Whether it can be used.
    pub status: InstallOutcome,
    /// Where its log is.
    #[serde(deserialize_with = "Text::read")]
    pub log_url: Option<String>,
    /// Anything else.
    pub details: Option<Box<RawValue>>,
}

/// How an installation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstallOutcome {
    /// The package can be used.
    Installed,
    /// It cannot.
    Failed,
}

/// The packages that there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    /// All of them.
    pub packages: Vec<CatalogEntry>,
}

/// A package of a catalog.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CatalogEntry {
    /// Which package.
    pub name: String,
    /// Which version of it.
    pub version: String,
    /// Whether it can be used, in a word.
    pub status: String,
    /// Where it comes from.
    #[serde(deserialize_with = "Text::read")]
    pub source: Option<String>,
    /// What it contains.
    pub manifest: OpenObject,
    /// Whatever else is known about it.
    pub metadata: Option<OpenObject>,
}
