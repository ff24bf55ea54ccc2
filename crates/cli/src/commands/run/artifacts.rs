//! `astra run artifacts`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::rest::runs::{Artifact, Run};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::AsyncWriteExt as _;

use super::selector;
use crate::context::Context;
use crate::failure::{ExitCode, Failure, Result};
use crate::format;
use crate::output::{self, Columns};
use crate::workflow_run::name_of;

/// A worker that sends nothing for so long is gone.
const SILENCE_MAX: Duration = Duration::from_mins(1);
/// Files of one name in one folder.
const SAME_NAME_MAX: usize = 10_000;
/// The longest name of a file, as most disks have it.
const NAME_BYTES_MAX: usize = 200;

/// List and fetch the artifacts that the nodes of a run left on workers.
#[derive(Debug, clap::Args)]
pub(super) struct ArtifactsArguments {
    /// The run: its number, its id, the first letters of it, `last` or `last~1`.
    run: String,
    /// Only artifacts of this node: its alias, label or id.
    #[arg(long)]
    node: Option<String>,
    /// Fetch the files into this folder, which is created if needed. No file is overwritten: a
    /// second file of the same name gets a number.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
}

pub(super) async fn artifacts(
    arguments: &ArtifactsArguments,
    context: &Context,
) -> Result<ExitCode> {
    let run = selector::workflow_run(context, &arguments.run).await?;
    let mut left = left_by(&run, arguments.node.as_deref())?;
    let Some(folder) = &arguments.save else {
        list(&left, context);
        return Ok(ExitCode::Success);
    };
    fs::create_dir_all(folder).await.map_err(|error| no_room(folder, &error))?;
    let mut exit = ExitCode::Success;
    for one in &mut left {
        match fetch(one, folder, context).await {
            Ok(path) => one.saved_as = Some(path.display().to_string()),
            // Whoever puts the content into the result need not keep a file of it.
            Err(failure) if one.is_inline() && failure.exit == ExitCode::NotFound => {
                let (name, node) = (one.name(), &one.node);
                context.output.note(format!("{name} stands in the result of node {node}"));
            }
            Err(failure) => {
                output::warn(format!("{} is not fetched: {}", one.name(), failure.message));
                exit = ExitCode::Failed;
            }
        }
    }
    list(&left, context);
    Ok(exit)
}

/// Everything that the nodes of a run left behind, or one of them.
fn left_by(run: &Run, node: Option<&str>) -> Result<Vec<OneLeft>> {
    let wanted = node.map(|text| selector::node(run, text)).transpose()?;
    let wanted = wanted.map(|node| node.node_id.as_str());
    let left = run
        .artifacts
        .iter()
        .flatten()
        .filter(|artifact| wanted.is_none() || artifact.node_id.as_deref() == wanted);
    let left = left.map(|artifact| {
        let node_id = artifact.node_id.as_deref();
        let of = run.nodes.iter().flatten().find(|node| Some(node.node_id.as_str()) == node_id);
        let node = of.map_or_else(|| node_id.unwrap_or("-").to_owned(), name_of);
        OneLeft { artifact: artifact.clone(), node, saved_as: None }
    });
    Ok(left.collect())
}

async fn fetch(one: &OneLeft, folder: &Path, context: &Context) -> Result<PathBuf> {
    let id = format::percent_encoded(&one.artifact.resource_id);
    let path = format!("/api/v1/resources/{id}/download");
    let mut pieces = context.ask(context.client.get_pieces(&path)).await?;
    let (path, mut file) = new_file(folder, &one.name()).await?;
    let written = async {
        while let Some(piece) = context.ask(pieces.next(SILENCE_MAX)).await? {
            file.write_all(&piece).await.map_err(|error| no_room(&path, &error))?;
        }
        file.flush().await.map_err(|error| no_room(&path, &error))
    };
    if let Err(failure) = written.await {
        // Half a file looks like a whole one.
        let _ = fs::remove_file(&path).await;
        return Err(failure);
    }
    Ok(path)
}

/// A file that was not there before, named like what it holds.
async fn new_file(folder: &Path, name: &str) -> Result<(PathBuf, File)> {
    for number in 1..=SAME_NAME_MAX {
        let path = folder.join(numbered(name, number));
        match OpenOptions::new().write(true).create_new(true).open(&path).await {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(no_room(&path, &error)),
        }
    }
    let message = format!("{} has too many files named {name}", folder.display());
    Err(Failure::new(ExitCode::Failed, message, "name another folder with --save"))
}

/// `a.txt`, `a-2.txt`, `a-3.txt`.
fn numbered(name: &str, number: usize) -> String {
    match name.rsplit_once('.') {
        _ if number == 1 => name.to_owned(),
        Some((stem, ending)) if !stem.is_empty() => format!("{stem}-{number}.{ending}"),
        _ => format!("{name}-{number}"),
    }
}

fn no_room(path: &Path, error: &io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}", path.display());
    Failure::new(ExitCode::Failed, message, "name a folder that you may write to with --save")
}

/// An artifact that a run left behind.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OneLeft {
    #[serde(flatten)]
    artifact: Artifact,
    /// The node's name, where it has one.
    node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    saved_as: Option<String>,
}

impl OneLeft {
    fn is_inline(&self) -> bool {
        self.artifact.inline == Some(true)
    }

    /// The name of its file: what its maker called it, as far as that is a name and no path.
    fn name(&self) -> String {
        let metadata = self.artifact.metadata.as_ref();
        let metadata = metadata.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
        let given = metadata.and_then(|all| Some(all.get("filename")?.as_str()?.to_owned()));
        let given = given.as_deref().and_then(plain_name);
        given
            .or_else(|| plain_name(&self.artifact.resource_id))
            .unwrap_or_else(|| "artifact".into())
    }
}

/// A name that stays in its folder, on any system.
fn plain_name(text: &str) -> Option<String> {
    let last = text.rsplit(['/', '\\']).next()?;
    let safe: String =
        last.chars().map(|c| if c.is_control() || c == ':' { '_' } else { c }).collect();
    let mut end = safe.len().min(NAME_BYTES_MAX);
    while !safe.is_char_boundary(end) {
        end -= 1;
    }
    let name = safe[..end].trim();
    (!name.is_empty() && name != "." && name != "..").then(|| name.to_owned())
}

fn list(left: &[OneLeft], context: &Context) {
    let columns = Columns {
        none: "nothing was left behind",
        id: |one: &OneLeft| one.saved_as.as_ref().unwrap_or(&one.artifact.resource_id).clone(),
        header: ["NODE", "FILE", "TYPE", "BYTES", "WORKER", "KEPT UNTIL"],
        row: |one| {
            let Artifact { artifact_type, size_bytes, worker_name, expires_at, .. } = &one.artifact;
            [
                one.node.clone(),
                one.saved_as.clone().unwrap_or_else(|| one.name()),
                format::or_dash(artifact_type.clone()),
                format::or_dash(size_bytes.map(format::thousands)),
                format::or_dash(worker_name.clone()),
                format::or_dash(expires_at.clone()),
            ]
        },
    };
    context.output.list(&json!({ "artifacts": left }), left, &columns);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leaves_its_folder() {
        for (given, name) in [
            ("a b.txt", Some("a b.txt")),
            ("../../etc/passwd", Some("passwd")),
            ("c:\\windows\\x.dll", Some("x.dll")),
            ("line\nbreak", Some("line_break")),
            ("a:b", Some("a_b")),
            ("..", None),
            ("x/..", None),
            (" ", None),
            ("", None),
        ] {
            assert_eq!(plain_name(given).as_deref(), name, "{given:?}");
        }
        let long = plain_name(&"ä".repeat(300)).expect("a name");
        assert!(long.len() <= NAME_BYTES_MAX && long.chars().all(|c| c == 'ä'));
    }

    #[test]
    fn a_second_file_of_a_name_gets_a_number() {
        assert_eq!(numbered("a.txt", 1), "a.txt");
        assert_eq!(numbered("a.txt", 2), "a-2.txt");
        assert_eq!(numbered("a", 3), "a-3");
        assert_eq!(numbered(".bashrc", 2), ".bashrc-2");
    }

    #[tokio::test]
    async fn nothing_is_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.txt"), "old").expect("writes");
        let (path, _) = new_file(folder.path(), "a.txt").await.expect("room");
        assert_eq!(path, folder.path().join("a-2.txt"));
        assert_eq!(std::fs::read(folder.path().join("a.txt")).expect("there"), b"old");
    }
}
