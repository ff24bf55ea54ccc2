//! `core.log`: says something to whoever watches.

use protocol::session::payload::feedback::Channel;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{raw, read};
use crate::executor::{Context, Outcome};
use crate::feedback::Status;

const WANTED: &str =
    "core.log wants {\"message\": \"...\", \"level\": \"info\", \"channel\": \"log\"}";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Log {
    message: String,
    level: Option<Level>,
    channel: Option<Channel>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        }
    }
}

pub(super) async fn run(parameters: &RawValue, context: &Context) -> Outcome {
    let Log { message, level, channel } = match read(parameters, WANTED) {
        Ok(log) => log,
        Err(outcome) => return outcome,
    };
    let line = match level {
        Some(level) => format!("{} {message}\n", level.name()),
        None => format!("{message}\n"),
    };
    context.feedback.write(channel.unwrap_or(Channel::Log), line).await;
    context.feedback.say(Status { message: Some(message), ..Status::default() });
    Outcome::done(raw(&json!({})))
}
