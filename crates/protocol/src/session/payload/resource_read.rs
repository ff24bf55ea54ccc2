//! Resources of workers, read part by part: the server asks for a part when it has room for it.

use serde::Serialize;

use super::super::decode::DecodeError;
use super::super::read::Value;

/// The largest part, before it is encoded.
pub const CHUNK_BYTES_MAX: u64 = 64 << 10;

/// The server wants a part of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReadRequest {
    /// Names the request within its session.
    pub request_id: String,
    /// Which resource.
    pub resource_id: String,
    /// From which byte on.
    pub offset: u64,
    /// How many bytes at most; a worker never sends more than [`CHUNK_BYTES_MAX`].
    pub length: u64,
}

impl ReadRequest {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            request_id: fields.required("request_id", Value::name)?,
            resource_id: fields.required("resource_id", Value::name)?,
            offset: fields.required("offset", Value::count)?,
            length: fields.required("length", Value::positive)?,
        })
    }
}

/// A part of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chunk {
    /// The request that is answered.
    pub request_id: String,
    /// From which byte on.
    pub offset: u64,
    /// The bytes, in base64.
    pub data: String,
    /// Whether nothing comes after them.
    pub eof: bool,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ReadError>,
}

impl Chunk {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            request_id: fields.required("request_id", Value::name)?,
            offset: fields.required("offset", Value::count)?,
            data: fields.required("data", Value::text)?,
            eof: fields.required("eof", Value::flag)?,
            error: fields.optional("error", ReadError::read)?,
        })
    }
}

/// Why a part cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReadError {
    /// A code, like `E.RESOURCE.MISSING`.
    pub code: String,
    /// The same for people.
    pub message: String,
}

impl ReadError {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            code: fields.required("code", Value::name)?,
            message: fields.required("message", Value::text)?,
        })
    }
}
