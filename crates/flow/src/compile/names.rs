//! Who is meant by a name: nodes of a graph, by id and by alias.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::compile::sources::Source;
use crate::definition::Node;
use crate::problem::{Place, Problems, Quoted, code};

/// How long a UUID is as people write it.
const UUID_LENGTH: usize = 36;

/// A UUID in its usual form, with hyphens.
pub(crate) fn uuid(text: &str) -> Option<Uuid> {
    if text.len() == UUID_LENGTH { Uuid::try_parse(text).ok() } else { None }
}

/// What makes two ids the same. Letters of a UUID may be large or small; what is no UUID is told
/// as a problem, and still found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IdKey<'a> {
    /// A UUID.
    Uuid(Uuid),
    /// Something else.
    Text(&'a str),
}

impl<'a> From<&'a str> for IdKey<'a> {
    fn from(text: &'a str) -> Self {
        uuid(text).map_or(Self::Text(text), Self::Uuid)
    }
}

/// The nodes of one graph by their names.
#[derive(Debug, Default)]
pub(crate) struct Names<'a> {
    ids: BTreeMap<IdKey<'a>, u32>,
    aliases: BTreeMap<&'a str, u32>,
}

impl<'s> Names<'s> {
    /// Gathers the names of a graph; two of a kind are a problem.
    pub(crate) fn gather(source: &'s Source<'s>, problems: &mut Problems) -> Self {
        let mut names = Self::default();
        let mut seen = BTreeSet::new();
        let root = source.place();
        let nodes = root.key("nodes");
        for (index, node) in source.nodes() {
            let place = nodes.index(index as usize).about(node.id.text());
            names.ids.entry(IdKey::from(node.id.text())).or_insert(index);
            unique_id(node, &mut seen, &place, problems);
            let alias = node.alias.text();
            if !alias.is_empty() && names.aliases.insert(alias, index).is_some() {
                duplicate(&place.key("alias"), "alias", alias, problems);
            }
            let inner = place.key("middlewares");
            for (level, middleware) in node.middlewares.items().iter().enumerate() {
                let Some(middleware) = middleware.given() else { continue };
                unique_id(middleware, &mut seen, &inner.index(level), problems);
            }
        }
        names
    }

    /// The node with this id.
    pub(crate) fn by_id(&self, id: &str) -> Option<u32> {
        self.ids.get(&IdKey::from(id)).copied()
    }

    /// The node with this alias, else with this id.
    pub(crate) fn by_name(&self, name: &str) -> Option<u32> {
        self.aliases.get(name).copied().or_else(|| self.by_id(name))
    }

    /// Some aliases, in the order of the alphabet, for those who mistyped one.
    pub(crate) fn some_aliases(&self) -> Vec<&'s str> {
        let mut aliases: Vec<_> = self.aliases.keys().copied().collect();
        aliases.sort_unstable();
        aliases.truncate(ALIASES_TOLD_MAX);
        aliases
    }
}

/// So many aliases are offered to who mistyped one.
const ALIASES_TOLD_MAX: usize = 5;

/// Nodes and middlewares share their ids: both are shown, and found, by them.
fn unique_id<'s>(
    node: &'s Node<'_>,
    seen: &mut BTreeSet<IdKey<'s>>,
    place: &Place<'_>,
    problems: &mut Problems,
) {
    let id = node.id.text();
    if !id.is_empty() && !seen.insert(IdKey::from(id)) {
        duplicate(&place.key("id"), "id", id, problems);
    }
}

fn duplicate(place: &Place<'_>, what: &str, name: &str, problems: &mut Problems) {
    let name = Quoted(name);
    let message = format_args!(
        "the {what} {name} is used twice in this graph; give each node and middleware its own"
    );
    problems.error(code::DUPLICATE_ID, place, message);
}
