//! How a session begins, goes on and ends.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::alias;
use super::super::decode::DecodeError;
use super::super::quick::quick_ack;
use super::super::read::{Path, Value};
use super::exec::ExecError;

/// The worker names itself and shows its credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Handshake {
    /// The version of the protocol, from 1.
    pub protocol: u64,
    /// How the worker proves who it is.
    pub auth: Auth,
    /// Who it is.
    pub worker: WorkerIdentity,
}

impl Handshake {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            protocol: fields.required("protocol", Value::positive)?,
            auth: fields.required("auth", Auth::read)?,
            worker: fields.required("worker", WorkerIdentity::read)?,
        })
    }
}

/// How a worker proves who it is.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Auth {
    /// Which proof it offers.
    pub mode: AuthMode,
    /// The bearer token, in mode `token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The certificate's fingerprint, in mode `mtls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

impl std::fmt::Debug for Auth {
    // A token must never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Auth {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            mode: fields.required("mode", |mode| mode.word("token or mtls"))?,
            token: fields.optional("token", Value::text)?,
            fingerprint: fields.optional("fingerprint", Value::text)?,
        })
    }
}

/// The proofs that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthMode {
    /// A bearer token.
    Token,
    /// A client certificate.
    Mtls,
}

/// Who a worker is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerIdentity {
    /// The label that people see.
    pub worker_name: String,
    /// The identity that survives reconnects; if missing, the envelope's `sender.id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_instance_id: Option<String>,
    /// The version of the worker program.
    pub version: String,
    /// Where it runs.
    pub hostname: String,
}

impl WorkerIdentity {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            worker_name: fields.required(alias::WORKER_NAME, Value::name)?,
            worker_instance_id: fields.optional(alias::INSTANCE_ID, Value::name)?,
            version: fields.required("version", Value::text)?,
            hostname: fields.required("hostname", Value::text)?,
        })
    }
}

/// The server opens or continues a session.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Accept {
    /// Names the session.
    pub session_id: String,
    /// What the worker shows to resume it; opaque to the worker.
    pub session_token: String,
    /// Whose session it is.
    pub worker_instance_id: String,
    /// When the token ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Whether both windows go on; if missing, they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed: Option<bool>,
}

impl std::fmt::Debug for Accept {
    // A token must never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accept")
            .field("session_id", &self.session_id)
            .field("worker_instance_id", &self.worker_instance_id)
            .field("resumed", &self.resumed)
            .finish_non_exhaustive()
    }
}

impl Accept {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            session_id: fields.required("session_id", Value::name)?,
            session_token: fields.required("session_token", Value::name)?,
            worker_instance_id: fields.required(alias::INSTANCE_ID, Value::name)?,
            expires_at: fields.optional("expires_at", Value::moment)?,
            resumed: fields.optional("resumed", Value::flag)?,
        })
    }
}

/// The worker asks to go on with a session.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Resume {
    /// Which session.
    pub session_id: String,
    /// Its token.
    pub session_token: String,
    /// All frames up to this number have reached the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_seq: Option<u64>,
}

impl std::fmt::Debug for Resume {
    // A token must never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resume")
            .field("session_id", &self.session_id)
            .field("last_seen_seq", &self.last_seen_seq)
            .finish_non_exhaustive()
    }
}

impl Resume {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            session_id: fields.required("session_id", Value::name)?,
            session_token: fields.required("session_token", Value::name)?,
            last_seen_seq: fields.optional("last_seen_seq", Value::count)?,
        })
    }
}

/// The server ends a session; the worker begins anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reset {
    /// An error code.
    pub code: String,
    /// The same for people.
    pub reason: String,
    /// How long the worker should wait before it comes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Reset {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            code: fields.required("code", Value::name)?,
            reason: fields.required("reason", Value::text)?,
            retry_after_ms: fields.optional("retry_after_ms", Value::count)?,
        })
    }

    /// The same for a peer that knows errors only.
    pub(super) fn as_error(&self) -> ExecError {
        let (code, message) = (self.code.clone(), self.reason.clone());
        ExecError { code, message, remediation: None, context: None }
    }
}

/// The server asks the worker to finish and take nothing new.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drain {
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long the worker has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

impl Drain {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            reason: fields.optional("reason", Value::text)?,
            deadline_ms: fields.optional("deadline_ms", Value::count)?,
        })
    }
}

/// Either end confirms frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ack {
    /// Whether the frame was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// The id of the frame that asked.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// A word about it, such as a verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub info: Option<String>,
    /// All frames up to this number have arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_seq: Option<u64>,
    /// Which of the next frames are held: bit i stands for `ack_seq + 1 + i`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_bitmap: Option<u64>,
    /// How many frames after `ack_seq` are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recv_window: Option<u64>,
}

impl Ack {
    /// Reads an ack, of which there are as many as of all other frames together.
    pub(in super::super) fn of_frame(payload: &RawValue) -> Result<Self, DecodeError> {
        quick_ack(payload)
            .map_or_else(|| Self::read(&Value::new(payload, Path::root("payload"))), Ok)
    }

    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            ok: fields.optional("ok", Value::flag)?,
            of: fields.optional("for", Value::text)?,
            info: fields.optional("info", Value::text)?,
            ack_seq: fields.optional("ack_seq", Value::count)?,
            ack_bitmap: fields.optional("ack_bitmap", Value::bits)?,
            recv_window: fields.optional("recv_window", Value::positive)?,
        })
    }
}
