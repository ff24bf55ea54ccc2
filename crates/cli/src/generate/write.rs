//! Which files are made, and from what.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{cli_page, config_page, redis_page};
use crate::embedded;

/// Writes every generated file below `root`.
pub(crate) fn write(root: &Path) -> Result<()> {
    put(root, "openapi/v1.json", &embedded::openapi())?;
    put(root, "docs/reference/cli.md", &cli_page::text())?;
    put(root, "docs/reference/config.md", &config_page::text())?;
    put(root, "docs/reference/redis.md", &redis_page::text())?;
    for (path, text) in embedded::reference_pages() {
        put(root, path, &text)?;
    }
    Ok(())
}

fn put(root: &Path, path: &str, text: &str) -> Result<()> {
    let path = root.join(path);
    let folder = path.parent().context("every file is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}
