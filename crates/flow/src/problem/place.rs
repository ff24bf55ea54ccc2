//! Where something stands in a definition; written out only when there is a problem with it.

use std::fmt;

/// A place in the document: a step below another place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'p> {
    above: Option<&'p Place<'p>>,
    step: Step<'p>,
    node: Option<&'p str>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'p> {
    /// A pointer that is already written.
    Pointer(&'p str),
    Key(&'p str),
    Index(usize),
}

impl<'p> Place<'p> {
    /// The place that a pointer names; empty is the whole document.
    pub(crate) fn root(pointer: &'p str) -> Self {
        Self { above: None, step: Step::Pointer(pointer), node: None }
    }

    /// A field of the object that stands here.
    pub(crate) fn key<'a>(&'a self, key: &'a str) -> Place<'a> {
        Place { above: Some(self), step: Step::Key(key), node: self.node }
    }

    /// An element of the list that stands here.
    pub(crate) fn index(&self, index: usize) -> Place<'_> {
        Place { above: Some(self), step: Step::Index(index), node: self.node }
    }

    /// What a pointer names from here on.
    pub(crate) fn pointer<'a>(&'a self, pointer: &'a str) -> Place<'a> {
        Place { above: Some(self), step: Step::Pointer(pointer), node: self.node }
    }

    /// The same place, which is about a node.
    pub(crate) fn about(self, node: &'p str) -> Self {
        let node = if node.is_empty() { self.node } else { Some(node) };
        Self { node, ..self }
    }

    /// The last step, for sentences: `nodes`, or `nodes[3]`.
    pub(crate) fn name(&self) -> String {
        match self.step {
            Step::Pointer(pointer) => pointer.rsplit('/').next().unwrap_or_default().to_owned(),
            Step::Key(key) => key.to_owned(),
            Step::Index(index) => {
                let above = self.above.map(Place::name).unwrap_or_default();
                format!("{above}[{index}]")
            }
        }
    }

    /// The node that the place is about.
    pub(crate) fn node(&self) -> Option<&'p str> {
        self.node
    }
}

/// As a JSON pointer.
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match self.step {
            Step::Pointer(pointer) => f.write_str(pointer),
            Step::Key(key) => write!(f, "/{}", key.replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => write!(f, "/{index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_as_a_pointer() {
        let root = Place::root("");
        assert_eq!(root.to_string(), "");
        let nodes = root.key("nodes");
        let node = nodes.index(3).about("a");
        let parameters = node.key("parameters");
        assert_eq!(parameters.key("a/b~c").to_string(), "/nodes/3/parameters/a~1b~0c");
        assert_eq!(parameters.pointer("/x/0").to_string(), "/nodes/3/parameters/x/0");
        assert_eq!(parameters.node(), Some("a"));
    }
}
