//! Agentic units: programs that say of themselves what they do (seed 004 section 10).

use std::process::Stdio;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::runner::environment::{find_program, scrubbed};

/// What a unit is asked.
const DESCRIBE: &str = "--describe";
/// How long it may take to say it.
const DESCRIBE_WITHIN: Duration = Duration::from_secs(5);
/// How much of it is kept.
pub const DESCRIPTION_BYTES_MAX: u64 = 16 * 1024;

/// A program that a job may demand by name, like a tool.
#[derive(Clone, Debug)]
pub struct Unit {
    /// What jobs call it.
    pub name: String,
    /// What it says of itself: its JSON, or its words as a JSON text.
    pub description: Option<Box<RawValue>>,
}

/// Asks every unit what it does. One that does not say it is offered all the same.
pub async fn describe_all(names: Vec<String>) -> Vec<Unit> {
    let mut units = Vec::with_capacity(names.len());
    for name in names {
        let description = match timeout(DESCRIBE_WITHIN, describe(&name)).await {
            Ok(Ok(said)) => json_of(&said),
            Ok(Err(why)) => {
                tracing::warn!(unit = name, why, "the unit does not describe itself");
                None
            }
            Err(_) => {
                tracing::warn!(unit = name, "the unit takes too long to describe itself");
                None
            }
        };
        units.push(Unit { name, description });
    }
    units
}

async fn describe(name: &str) -> Result<String, String> {
    let environment = scrubbed(std::env::vars_os());
    let program = find_program(name, None, &environment).map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .arg(DESCRIBE)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdout = child.stdout.take().expect("it is a pipe");
    let mut said = Vec::new();
    let read = (&mut stdout).take(DESCRIPTION_BYTES_MAX + 1).read_to_end(&mut said).await;
    read.map_err(|error| error.to_string())?;
    if said.len() as u64 > DESCRIPTION_BYTES_MAX {
        return Err(format!("it says more than {DESCRIPTION_BYTES_MAX} bytes"));
    }
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("{DESCRIBE} ended with {status}"));
    }
    String::from_utf8(said).map_err(|_| "what it says is not text".to_owned())
}

/// JSON as it is, anything else as a text; nothing if nothing was said.
fn json_of(said: &str) -> Option<Box<RawValue>> {
    let said = said.trim();
    if said.is_empty() {
        return None;
    }
    RawValue::from_string(said.to_owned()).or_else(|_| serde_json::value::to_raw_value(said)).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn units_say_what_they_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = vec![
            program(folder.path(), "ocr", "echo '{\"does\": \"reads pictures\"}'"),
            program(folder.path(), "words", "echo counts \"$1\""),
            program(folder.path(), "silent", "true"),
            program(folder.path(), "broken", "echo no; exit 3"),
            program(folder.path(), "endless", "exec yes"),
            program(folder.path(), "secretive", "echo \"[$ASTRA_TOKEN]\""),
            "/nowhere/agx-none".to_owned(),
        ];
        let units = describe_all(names).await;
        let said: Vec<Option<&str>> =
            units.iter().map(|unit| unit.description.as_deref().map(RawValue::get)).collect();
        let expected = [
            Some(r#"{"does": "reads pictures"}"#),
            Some(r#""counts --describe""#),
            None,
            None,
            None,
            Some("[]"),
            None,
        ];
        assert_eq!(said, expected);
    }

    fn program(folder: &Path, name: &str, script: &str) -> String {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, executable).expect("set");
        path.to_string_lossy().into_owned()
    }
}
