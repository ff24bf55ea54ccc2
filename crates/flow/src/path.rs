//! Paths into parameters and results.

use crate::program::Root;

/// A path as people write it in the binding of a port. `None` when it is not one.
pub(crate) fn parse(text: &str) -> Option<(Root, Vec<String>)> {
    let mut segments: Vec<String> = match text.strip_prefix('/') {
        Some(pointer) => pointer.split('/').map(str::to_owned).collect(),
        None => text.split('.').map(str::to_owned).collect(),
    };
    let root = match segments.first()?.as_str() {
        "parameters" => Root::Parameters,
        "results" => Root::Results,
        _ => return None,
    };
    segments.remove(0);
    Some((root, segments))
}
