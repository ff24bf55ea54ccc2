//! Plays servers that know keys and lists only.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use protocol::resp::reply::Reply;

use super::server::{Answer, text};

/// Keys, lists and hashes.
#[derive(Default)]
pub(super) struct Keys {
    pub(super) texts: BTreeMap<String, Bytes>,
    /// The end is what is popped next.
    pub(super) lists: BTreeMap<String, VecDeque<Bytes>>,
    pub(super) hashes: BTreeMap<String, BTreeMap<String, String>>,
    /// Commands that this generation does not have.
    pub(super) unknown: Vec<&'static str>,
    /// Errors that the next `SET job:...` are answered with.
    pub(super) set_errors: VecDeque<&'static str>,
}

impl Keys {
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.texts.get(key).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    pub(super) fn push(&mut self, list: &str, value: impl Into<Bytes>) {
        self.lists.entry(list.into()).or_default().push_front(value.into());
    }

    pub(super) fn n_in(&self, list: &str) -> usize {
        self.lists.get(list).map_or(0, VecDeque::len)
    }

    pub(super) fn would_pop(&self, words: &[Bytes]) -> Option<bool> {
        let is_pop = words[0] == "BRPOPLPUSH" || words[0] == "RPOPLPUSH";
        is_pop.then(|| self.n_in(&text(words)[1]) > 0)
    }

    pub(super) fn answer(&mut self, words: &[Bytes]) -> Answer {
        let spoken = text(words);
        let spoken: Vec<&str> = spoken.iter().map(String::as_str).collect();
        let unknown = || Reply::error(format!("ERR unknown command '{}'", spoken[0]));
        if self.unknown.contains(&spoken[0]) {
            return Answer::Reply(unknown());
        }
        let not_found = |what, id| Reply::error(format!("ERR {what} not found: {id}"));
        Answer::Reply(match spoken[..] {
            ["PING", id] => Reply::bulk(id.to_owned()),
            ["SET", key, _] => self.set(key, &words[2]),
            ["GET", key] => self.get(key).unwrap_or(Reply::Null),
            ["HGET", key, field] => {
                self.hashes.get(key).and_then(|hash| hash.get(field)).cloned().into()
            }
            ["HGETALL", key] => {
                let hash = self.hashes.get(key).cloned().unwrap_or_default();
                Reply::array(hash.into_iter().flat_map(|(name, value)| [name, value]))
            }
            ["JOB.GET", id] => {
                self.get(&format!("job:{id}")).unwrap_or_else(|| not_found("Job", id))
            }
            ["PLAN.GET", id] => {
                self.get(&format!("plan:{id}")).unwrap_or_else(|| not_found("Plan", id))
            }
            ["BRPOPLPUSH", from, to, _] => match self.pop(from, to) {
                Reply::Null => return Answer::Nothing(Reply::Null),
                value => value,
            },
            ["RPOPLPUSH", from, to] => self.pop(from, to),
            ["LPUSH", list, _] => {
                self.push(list, words[2].clone());
                self.n_in(list).into()
            }
            ["LREM", list, "1", _] => {
                let list = self.lists.entry(list.into()).or_default();
                let place = list.iter().position(|value| *value == words[3]);
                place.is_some_and(|place| list.remove(place).is_some()).into()
            }
            _ => unknown(),
        })
    }

    fn pop(&mut self, from: &str, to: &str) -> Reply {
        let popped = self.lists.get_mut(from).and_then(VecDeque::pop_back);
        if let Some(value) = &popped {
            self.push(to, value.clone());
        }
        popped.into()
    }

    fn set(&mut self, key: &str, value: &Bytes) -> Reply {
        if key.starts_with("job:")
            && let Some(error) = self.set_errors.pop_front()
        {
            return Reply::error(error);
        }
        self.texts.insert(key.into(), value.clone());
        Reply::ok()
    }

    fn get(&self, key: &str) -> Option<Reply> {
        self.texts.get(key).map(|bytes| Reply::Bulk(bytes.clone()))
    }
}
