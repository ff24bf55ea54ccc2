//! Who wants to hear what.

use model::RunId;
use protocol::rest::events::EventKind;

use shard::projection::{Event, RunScope};

/// What one reader wants to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Only of this run.
    pub(crate) run: Option<RunId>,
    /// Only of these types, a bit for each.
    kinds: u16,
    /// Of the runs of this browser or program, and of those that belong to none.
    pub(crate) client: Option<String>,
}

/// No type has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no type of events")]
pub(crate) struct UnknownKind(String);

impl Filter {
    /// `types` is a list with commas: names, or beginnings of names with `*`; none is all.
    pub(crate) fn new(
        run: Option<RunId>,
        types: Option<&str>,
        client: Option<String>,
    ) -> Result<Self, UnknownKind> {
        let mut kinds = 0;
        for pattern in types.into_iter().flat_map(|types| types.split(',')).map(str::trim) {
            let named = kinds_named(pattern);
            if named == 0 && !pattern.is_empty() {
                return Err(UnknownKind(pattern.to_owned()));
            }
            kinds |= named;
        }
        if kinds == 0 {
            kinds = kinds_named("*");
        }
        Ok(Self { run, kinds, client })
    }

    /// The types that it lets through, a bit for each.
    pub(super) fn kinds(&self) -> u16 {
        self.kinds
    }

    pub(crate) fn wants_kind(&self, kind: EventKind) -> bool {
        self.kinds & kind.bit() != 0
    }

    pub(super) fn wants(&self, event: &Event) -> bool {
        self.wants_kind(event.kind()) && self.wants_run(event.run.as_deref())
    }

    fn wants_run(&self, of: Option<&RunScope>) -> bool {
        match of {
            None => self.run.is_none(),
            Some(scope) => {
                self.run.is_none_or(|run| run == scope.run)
                    && self.wants_client(scope.client.as_deref())
            }
        }
    }

    /// What belongs to no browser or program is for all, and who says none of them hears all.
    pub(crate) fn wants_client(&self, client: Option<&str>) -> bool {
        match (&self.client, client) {
            (Some(own), Some(client)) => own == client,
            (None, _) | (_, None) => true,
        }
    }
}

fn kinds_named(pattern: &str) -> u16 {
    let fits = |kind: &EventKind| match pattern.strip_suffix('*') {
        Some(start) => kind.name().starts_with(start),
        None => kind.name() == pattern,
    };
    EventKind::ALL.into_iter().filter(fits).map(EventKind::bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(types: Option<&str>) -> Vec<&'static str> {
        let filter = Filter::new(None, types, None).expect("types");
        EventKind::ALL
            .into_iter()
            .filter(|kind| filter.wants_kind(*kind))
            .map(EventKind::name)
            .collect()
    }

    #[test]
    fn types_are_named_or_begun() {
        assert_eq!(names(Some("run.status")), ["run.status"]);
        assert_eq!(
            names(Some(" run.* , artifact.ready,")),
            ["run.status", "run.snapshot", "artifact.ready"]
        );
        let of_nodes = names(Some("node.*"));
        assert_eq!(of_nodes.len(), 5);
        assert!(of_nodes.iter().all(|name| name.starts_with("node.")));
        assert_eq!(names(Some("node.result.*")), ["node.result.snapshot", "node.result.delta"]);
        for all in [None, Some(""), Some("*")] {
            assert_eq!(names(all).len(), EventKind::ALL.len());
        }
        let wrong = Filter::new(None, Some("run.status,node.stauts"), None);
        assert_eq!(wrong.expect_err("no type"), UnknownKind("node.stauts".to_owned()));
    }

    #[test]
    fn a_run_of_one_client_is_not_for_another() {
        let of =
            |client: Option<&str>| Filter::new(None, None, client.map(str::to_owned)).expect("one");
        assert!(of(Some("a")).wants_client(Some("a")));
        assert!(!of(Some("a")).wants_client(Some("b")));
        assert!(of(Some("a")).wants_client(None));
        assert!(of(None).wants_client(Some("b")));
    }
}
