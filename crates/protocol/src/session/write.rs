//! Writes frames as JSON: exactly the keys of the schema, straight into the caller's buffer.

use std::fmt::Write;

use super::decode::FRAME_BYTES_MAX;
use super::encode::EncodeError;
use super::envelope::{AckMark, Envelope, SenderRole};

/// Room for the keys, quotes and moments of most envelopes.
const ENVELOPE_BYTES: usize = 320;

impl Envelope {
    /// Writes the frame, or refuses one that its peer would not take.
    pub fn to_text(&self) -> Result<String, EncodeError> {
        let mut text = String::with_capacity(ENVELOPE_BYTES + self.payload.get().len());
        self.write_to(&mut text)?;
        Ok(text)
    }

    /// Writes the frame after what is in `out`; a frame that its peer would not take leaves no
    /// trace there.
    pub fn write_to(&self, out: &mut String) -> Result<(), EncodeError> {
        let from = out.len();
        self.write(out);
        let bytes = out.len() - from;
        if bytes > FRAME_BYTES_MAX {
            out.truncate(from);
            return Err(EncodeError::TooLarge { id: self.id.clone(), bytes });
        }
        Ok(())
    }

    fn write(&self, out: &mut String) {
        out.push_str("{\"type\":");
        write_text(out, &self.kind);
        out.push_str(",\"id\":");
        write_text(out, &self.id);
        out.push_str(",\"ts\":");
        write_text(out, &self.ts);
        out.push_str(",\"tenant\":");
        write_text(out, &self.tenant);
        out.push_str(match self.sender.role {
            SenderRole::Scheduler => ",\"sender\":{\"role\":\"scheduler\",\"id\":",
            SenderRole::Worker => ",\"sender\":{\"role\":\"worker\",\"id\":",
        });
        write_text(out, &self.sender.id);
        out.push('}');
        if let Some(corr) = &self.corr {
            out.push_str(",\"corr\":");
            write_text(out, corr);
        }
        write_number(out, ",\"seq\":", self.seq);
        write_number(out, ",\"session_seq\":", self.session_seq);
        if let Some(ack) = &self.ack {
            write_ack(out, ack);
        }
        if let Some(flags) = &self.flags {
            write_flags(out, flags);
        }
        out.push_str(",\"payload\":");
        out.push_str(self.payload.get());
        out.push('}');
    }
}

fn write_ack(out: &mut String, ack: &AckMark) {
    out.push_str(",\"ack\":{");
    if let Some(of) = &ack.of {
        out.push_str("\"for\":");
        write_text(out, of);
    }
    if let Some(request) = ack.request {
        out.push_str(if ack.of.is_some() { ",\"request\":" } else { "\"request\":" });
        out.push_str(if request { "true" } else { "false" });
    }
    out.push('}');
}

fn write_flags(out: &mut String, flags: &[String]) {
    out.push_str(",\"flags\":[");
    for (idx, flag) in flags.iter().enumerate() {
        if idx > 0 {
            out.push(',');
        }
        write_text(out, flag);
    }
    out.push(']');
}

pub(super) fn write_number(out: &mut String, key: &str, number: Option<u64>) {
    if let Some(number) = number {
        out.push_str(key);
        write!(out, "{number}").expect("writing to a string cannot fail");
    }
}

pub(super) fn write_text(out: &mut String, text: &str) {
    // Without a way out of the loop the compiler looks at many bytes at once.
    let is_special = |byte: u8| u8::from(matches!(byte, 0..0x20 | b'"' | b'\\'));
    let any_special = text.bytes().fold(0, |any, byte| any | is_special(byte));
    if any_special == 0 {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&serde_json::to_string(text).expect("text is always JSON"));
    }
}
