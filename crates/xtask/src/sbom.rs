//! `cargo xtask sbom`: the list of everything that `astra` links, as `CycloneDX`.
//!
//! `cargo cyclonedx` writes one file beside each `Cargo.toml`, so it works on a copy of the tree.
//! It lists what the features of a crate could pull in, which is a little more than what they do.

use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::copy::Copy;
use crate::release_gate;
use crate::tools::{self, Tool};

/// Without the ending that the tool adds.
const FILE: &str = "astra.cdx";
/// The crate of the binary, and what builds it but is not linked is left out.
const ARGUMENTS: [&str; 8] = [
    "cyclonedx",
    "--quiet",
    "--manifest-path=crates/cli/Cargo.toml",
    "--format=json",
    "--spec-version=1.5",
    "--no-build-deps",
    "--override-filename",
    FILE,
];

#[derive(Deserialize)]
struct Bill {
    components: Vec<Component>,
}

#[derive(Deserialize)]
struct Component {
    name: String,
}

pub(crate) fn run() -> Result<()> {
    Tool::CargoCycloneDx.require()?;
    let copy = Copy::at("sbom")?;
    copy.write(&tools::repository_root()?, &[], |_| None)?;
    let status = copy.cargo().args(ARGUMENTS).status().context("cannot start cargo")?;
    if !status.success() {
        bail!("`cargo cyclonedx` ended with {status}");
    }
    let name = format!("{FILE}.json");
    let text = fs::read_to_string(copy.tree.join("crates/cli").join(&name))?;
    let n_components = read(&text)?;
    let folder = tools::workspace()?.target_directory.join(release_gate::FOLDER);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(&name), text)?;
    println!("sbom: {n_components} components in {}", folder.join(&name).display());
    Ok(())
}

/// How many components are listed; a list without our own crates is of something else.
fn read(text: &str) -> Result<usize> {
    let bill: Bill = serde_json::from_str(text).context("cannot read the bill of materials")?;
    if !bill.components.iter().any(|component| component.name == "coordinator") {
        bail!("the bill of materials does not list the coordinator");
    }
    Ok(bill.components.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_lists_components_and_our_own_crates_among_them() {
        let bill = r#"{"components": [{"name": "coordinator"}, {"name": "tokio"}]}"#;
        assert_eq!(read(bill).unwrap(), 2);
        assert!(read(r#"{"components": [{"name": "tokio"}]}"#).is_err());
        assert!(read("no bill").is_err());
    }
}
