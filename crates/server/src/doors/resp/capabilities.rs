//! `CAPABILITY.SEARCH`: which tools and units there are, by words in their names and in what they
//! say of themselves (seed 004 section 10).

use std::collections::BTreeMap;

use bytes::Bytes;
use coordinator::{WorkerHealth, WorkerView};
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;
use serde::Serialize;
use serde_json::value::RawValue;

use super::connection::Connection;
use super::jobs::text_of;
use crate::resp_workers::registration;

/// Capabilities that one search gives, by name.
pub(crate) const FOUND_MAX: usize = 100;
/// Workers that are named with one capability.
const WORKERS_NAMED_MAX: usize = 100;

/// A tool or a unit that some worker has.
#[derive(Default, Serialize)]
struct Found {
    capability: String,
    workers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<Box<RawValue>>,
}

impl Found {
    /// Whether every word stands in its name or in its description, in whichever case.
    fn has_all(&self, words: &[String]) -> bool {
        let description = self.description.as_ref().map_or("", |description| description.get());
        let text = format!("{}\n{description}", self.capability).to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    }
}

impl Connection {
    pub(super) async fn on_capability_search(&self, request: &Request) -> Result<Reply, Reply> {
        let mut words = Vec::new();
        for argument in &request.arguments[1..] {
            words.extend(text_of(argument)?.split_whitespace().map(str::to_lowercase));
        }
        let mut known: BTreeMap<String, Found> = BTreeMap::new();
        for view in &self.worker_views().await? {
            if view.health != WorkerHealth::Lost {
                let metadata = self.member().workers().metadata(&view.worker);
                add(&mut known, view, metadata.as_ref());
            }
        }
        let found = known.into_values().filter(|one| one.has_all(&words)).take(FOUND_MAX);
        let bulk = |one: Found| {
            let json = serde_json::to_vec(&one).expect("texts and JSON become JSON");
            Reply::Bulk(Bytes::from(json))
        };
        Ok(Reply::Array(found.map(bulk).collect()))
    }
}

fn add(known: &mut BTreeMap<String, Found>, view: &WorkerView, metadata: Option<&Bytes>) {
    let register = metadata.and_then(|metadata| registration::register(metadata).ok());
    for tool in &view.offer.tools {
        let entry = known.entry(tool.to_string()).or_default();
        entry.capability = tool.to_string();
        if entry.workers.len() < WORKERS_NAMED_MAX {
            entry.workers.push(view.worker.to_string());
        }
        let said = register.as_ref().and_then(|own| own.descriptions.get(tool.as_str()));
        if let (None, Some(said)) = (&entry.description, said) {
            entry.description = Some((*said).to_owned());
        }
    }
}
