//! What a worker can do.

use std::collections::{BTreeMap, BTreeSet};

use crate::task::{Demand, PackageRef};
use crate::text::{QueueName, TagKey, TagValue, ToolName, TypeName};

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
    /// Whether a worker with this offer can take a task with that demand.
    pub fn covers(&self, demand: &Demand) -> bool {
        self.types.as_ref().is_none_or(|types| types.contains(&demand.task_type))
            && self.queues.as_ref().is_none_or(|queues| queues.contains(&demand.queue))
            && (self.all_tools || demand.tools.is_subset(&self.tools))
            && demand.tags.iter().all(|(key, value)| self.tags.get(key) == Some(value))
            && demand.package.as_ref().is_none_or(|package| self.packages.contains(package))
    }
}
