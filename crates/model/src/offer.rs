//! What a worker can do.

use std::collections::{BTreeMap, BTreeSet};

use crate::task::{Demand, PackageRef};
use crate::text::{QueueName, TagKey, TagValue, ToolName, TypeName};
use crate::version;

/// What a worker offers when it asks for work.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offer {
    /// The types it executes; `None` means every type.
    pub types: Option<BTreeSet<TypeName>>,
    /// The queues it serves; `None` means every queue.
    pub queues: Option<BTreeSet<QueueName>>,
    /// The tools it has.
    pub tools: BTreeSet<ToolName>,
    /// It does not say which tools it has, and is offered every task whatever tools it demands.
    pub all_tools: bool,
    /// The tags it carries.
    pub tags: BTreeMap<TagKey, TagValue>,
    /// The packages it has installed.
    pub packages: BTreeSet<PackageRef>,
    /// How many tasks of a type it takes at once; types without an entry have no limit of their
    /// own.
    pub limits: BTreeMap<TypeName, u32>,
}

impl Offer {
    /// The newest of its packages that is what a task asks for.
    pub fn package_for(&self, wanted: &PackageRef) -> Option<&PackageRef> {
        if !wanted.takes_newer() {
            return self.packages.get(wanted);
        }
        let fitting = self.packages.iter().filter(|installed| wanted.is_met_by(installed));
        fitting.max_by(|one, other| version::compare(one.version.as_str(), other.version.as_str()))
    }

    /// Whether a worker with this offer can take a task with that demand.
    pub fn covers(&self, demand: &Demand) -> bool {
        self.types.as_ref().is_none_or(|types| types.contains(&demand.task_type))
            && self.queues.as_ref().is_none_or(|queues| queues.contains(&demand.queue))
            && (self.all_tools || demand.tools.is_subset(&self.tools))
            && demand.tags.iter().all(|(key, value)| self.tags.get(key) == Some(value))
            && demand.package.as_ref().is_none_or(|package| self.package_for(package).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_least_version_is_met_by_it_and_by_newer_ones() {
        let package = |version: &str| PackageRef {
            name: "pdf".parse().expect("a name"),
            version: version.parse().expect("a version"),
        };
        let offer = |versions: &[&str]| Offer {
            packages: versions.iter().map(|version| package(version)).collect(),
            ..Offer::default()
        };
        for (installed, wanted, expected) in [
            (&["1.2.0"][..], "1.2.0", Some("1.2.0")),
            (&["1.2.0"], "1.1.0", None),
            (&["1.2.0"], "1.2.0+", Some("1.2.0")),
            (&["1.9.0", "1.10.0", "1.8.0"], "1.9.0+", Some("1.10.0")),
            (&["1.1.9"], "1.2.0+", None),
            (&[], "0+", None),
        ] {
            let offer = offer(installed);
            let found = offer.package_for(&package(wanted)).map(|found| found.version.as_str());
            assert_eq!(found, expected, "{installed:?} {wanted}");
        }
        let other = PackageRef { name: "ocr".parse().expect("a name"), ..package("1.0+") };
        assert_eq!(offer(&["2.0"]).package_for(&other), None);
    }
}
