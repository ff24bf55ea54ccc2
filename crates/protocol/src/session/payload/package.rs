//! Packages: bringing them, removing them, and what became of it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::alias;
use super::super::decode::DecodeError;
use super::super::open::OpenObject;
use super::super::read::Value;

/// The server wants a package to be installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Install {
    /// Which package.
    pub name: String,
    /// Which version of it.
    pub version: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The digest of its archive, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Install {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        let url = |value: &Value<'_>| value.text_where("a URI", is_uri);
        let digest = |value: &Value<'_>| value.text_where("64 hexadecimal digits", is_sha256);
        Ok(Self {
            name: fields.required(alias::PACKAGE, Value::name)?,
            version: fields.required("version", Value::name)?,
            url: fields.optional("url", url)?,
            sha256: fields.optional("sha256", digest)?,
        })
    }
}

// The rule of the schema: a scheme, a colon, and printable ASCII.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
        && !rest.is_empty()
        && rest.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The server wants a package to be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Uninstall {
    /// Which package.
    pub name: String,
    /// Which version of it; if missing, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Uninstall {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            name: fields.required(alias::PACKAGE, Value::name)?,
            version: fields.optional("version", Value::name)?,
        })
    }
}

/// What became of an installation.
#[derive(Clone, Debug, Serialize)]
pub struct PackageEvent {
    /// Which package.
    pub name: String,
    /// Which version of it.
    pub version: String,
    /// Whether it can be used.
    pub status: InstallOutcome,
    /// Where its log is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_url: Option<String>,
    /// Anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<RawValue>>,
}

impl PackageEvent {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            name: fields.required(alias::PACKAGE, Value::name)?,
            version: fields.required("version", Value::name)?,
            status: fields.required("status", |status| status.word("installed or failed"))?,
            log_url: fields.optional("log_url", Value::text)?,
            details: fields.optional("details", Value::anything)?,
        })
    }
}

impl PartialEq for PackageEvent {
    fn eq(&self, other: &Self) -> bool {
        let known = |event: &Self| {
            let details = event.details.as_ref().map(|details| details.get().to_owned());
            (event.name.clone(), event.version.clone(), event.status, details)
        };
        known(self) == known(other) && self.log_url == other.log_url
    }
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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Catalog {
    /// All of them.
    pub packages: Vec<CatalogEntry>,
}

impl Catalog {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let packages = |value: &Value<'_>| value.list(CatalogEntry::read);
        Ok(Self { packages: value.object()?.required("packages", packages)? })
    }
}

/// A package of a catalog.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CatalogEntry {
    /// Which package.
    pub name: String,
    /// Which version of it.
    pub version: String,
    /// Whether it can be used, in a word.
    pub status: String,
    /// Where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What it contains.
    pub manifest: OpenObject,
    /// Whatever else is known about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<OpenObject>,
}

impl CatalogEntry {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            name: fields.required("name", Value::name)?,
            version: fields.required("version", Value::name)?,
            status: fields.required("status", Value::name)?,
            source: fields.optional("source", Value::text)?,
            manifest: fields.required("manifest", Value::open)?,
            metadata: fields.optional("metadata", Value::open)?,
        })
    }
}
