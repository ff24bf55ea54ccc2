//! Keys: those of the keyspace, and those that the server itself shows.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use keyspace::{Answer, Operation};
use protocol::resp::reply::{
    Reply, Version, write_array_head, write_bulk, write_double, write_error, write_integer,
    write_map_head, write_null, write_null_array, write_ok, write_simple,
};
use protocol::resp::request::Request;

use super::answers::{Answered, QUEUE_PREFIX, RespError, queue_in};
use super::connection::Connection;
use super::dispatch::{Invocation, is_own};
use super::listener::Shapes;
use super::wire::Gone;
use crate::keyspace::TenantKeyspace;

impl Connection {
    /// A run of commands on the keyspace: one look at it, one wait for the disk.
    pub(super) async fn answer_keys(&mut self, run: &[Invocation]) -> Result<(), Gone> {
        // If some commands of a run are refused, they are answered one by one; that is rare.
        if run.iter().all(|request| self.allow(request).is_ok()) {
            return self.answer_allowed_keys(run).await;
        }
        for request in run {
            match self.allow(request) {
                Ok(()) => self.answer_allowed_keys(std::slice::from_ref(request)).await?,
                Err(error) => self.reply(&error.into()),
            }
        }
        Ok(())
    }

    async fn answer_allowed_keys(&mut self, run: &[Invocation]) -> Result<(), Gone> {
        if self.app.resp.shapes == Shapes::Agq && run.iter().any(is_bare_range) {
            // Clients of another server always get scores.
            let longer = |request: &Invocation| {
                if is_bare_range(request) { request.with(b"WITHSCORES") } else { request.clone() }
            };
            let run: Vec<Invocation> = run.iter().map(longer).collect();
            return Box::pin(self.answer_allowed_keys(&run)).await;
        }
        let commands = run.iter().filter_map(|request| {
            request.operation().map(|operation| (operation, &request.arguments[..]))
        });
        match self.execute(commands).await {
            Ok(answers) => {
                for answer in answers {
                    self.write_answer(answer);
                    self.wire.flush_if_much().await?;
                }
            }
            Err(error) => self.reply_each(run.len(), &error),
        }
        Ok(())
    }

    /// The same error to so many requests.
    pub(super) fn reply_each(&mut self, n_requests: usize, error: &RespError) {
        let reply = Reply::from(error.clone());
        (0..n_requests).for_each(|_| self.reply(&reply));
    }

    /// Carries out commands on the keyspace; the answers come when what they say is durable.
    async fn execute<'a>(
        &self,
        commands: impl Iterator<Item = (Operation, &'a [Bytes])>,
    ) -> Answered<Vec<Answer>> {
        let keyspace = self.keyspace().await?;
        let (answers, point) = keyspace.execute(commands)?;
        point.durable().await?;
        Ok(answers)
    }

    /// Carries out `KEYS`, `SCAN`, `MGET` or `EXISTS`, to which views are added.
    async fn execute_one(&self, operation: Operation, arguments: &[Bytes]) -> Answered {
        let answers = self.execute(std::iter::once((operation, arguments))).await?;
        match answers.into_iter().next().map_or(Reply::Null, reply_of) {
            Reply::Error(text) => Err(RespError(text)),
            reply => Ok(reply),
        }
    }

    /// Writes an answer, in other shapes for clients of another server.
    fn write_answer(&mut self, answer: Answer) {
        let answer = match (self.app.resp.shapes, answer) {
            (Shapes::Agq, Answer::Popped(popped)) => Answer::Bulk(popped.element),
            (Shapes::Agq, Answer::NullArray) => Answer::Null,
            (Shapes::Agq | Shapes::Redis, answer) => answer,
        };
        write_answer(&mut self.wire.output, &answer, self.client.version);
    }

    /// A pop that may have to wait.
    pub(super) async fn answer_wait(&mut self, request: &Invocation) -> Result<(), Gone> {
        let keyspace = match self.allow(request) {
            Ok(()) => self.keyspace().await,
            Err(error) => Err(error),
        };
        let keyspace = match keyspace {
            Ok(keyspace) => keyspace,
            Err(error) => {
                self.reply(&error.into());
                return Ok(());
            }
        };
        let operation = request.operation().expect("the table names what waits");
        self.wire.flush().await?;
        let waiting = keyspace.pop_or_wait(operation, &request.arguments);
        match self.while_connected(waiting).await? {
            Ok(answer) => self.write_answer(answer),
            Err(error) => self.reply(&RespError::from(error).into()),
        }
        Ok(())
    }

    /// A command for keys, on a key of the server.
    pub(super) async fn answer_own_key(&mut self, command: &str, request: &Request) -> Answered {
        let (key, rest) = (&request.arguments[1], &request.arguments[2..]);
        match (command, rest) {
            ("set", [value, ..]) => return self.set_own_key(key, value).await,
            ("mget", _) => return Ok(Reply::Array(self.read_each("get", request).await?)),
            ("exists", [_, ..]) => {
                let found = self.read_each("exists", request).await?;
                let n_found = found.iter().filter(|one| **one == Reply::Integer(1)).count();
                return Ok(n_found.into());
            }
            _ if key.starts_with(QUEUE_PREFIX) => {
                return self.answer_queue(command, key, rest).await;
            }
            _ => {}
        }
        let reply = self.answer_view(command, key, rest).await;
        self.prove_by_key(key);
        reply
    }

    /// `SMEMBERS` and `SISMEMBER`: the only sets are those that the server shows.
    pub(super) async fn on_set_of_view(&mut self, request: &Invocation) -> Answered {
        let (key, rest) = (&request.arguments[1], &request.arguments[2..]);
        if is_own(key) {
            return self.answer_view(request.command(), key, rest).await;
        }
        Err(RespError::new(
            "ERR no key of yours can be a set: this port has strings, lists, hashes and sorted sets",
        ))
    }

    /// A worker that reads or writes a key of its job has read the pop that gave it.
    fn prove_by_key(&mut self, key: &Bytes) {
        let Some(rest) = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix("job:"))
        else {
            return;
        };
        if self.client.unproven.is_empty() {
            return;
        }
        let name = if rest.starts_with('{') {
            super::jobs::popped_name(rest)
        } else {
            rest.split(':').next().unwrap_or_default().into()
        };
        let member = self.member();
        if let Some(held) = member.workers().held(&member.worker(), &name) {
            self.prove(held.lease);
        }
    }

    /// `SET` of keys by which older workers report and register.
    async fn set_own_key(&mut self, key: &Bytes, value: &Bytes) -> Answered {
        let text = super::jobs::text_of(key)?;
        self.prove_by_key(key);
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["worker", worker, "tools"] => self.on_set_worker(worker, "tools", value).await,
            ["worker", worker, "tags"] => self.on_set_worker(worker, "tags", value).await,
            ["job", job, "stdout"] => self.set_output(job, "stdout", value).await,
            ["job", job, "stderr"] => self.set_output(job, "stderr", value).await,
            ["job", job, "status"] => self.report_by_set(job, value).await,
            _ => Err(format!("'{text}' is kept by the server and cannot be set").into()),
        }
    }

    /// What a job wrote is kept until its status is set; then it is part of the report.
    async fn set_output(&mut self, job: &str, field: &'static str, value: &Bytes) -> Answered {
        let member = self.member();
        let is_held = member.workers().known(&member.worker(), |worker| {
            worker.held_mut(job).is_some_and(|held| {
                held.outputs.insert(field, Bytes::copy_from_slice(value));
                true
            })
        });
        if is_held != Some(true) {
            // Another holds it now: what this worker writes does not count, and it need not care.
            self.record(job).await?;
        }
        Ok(Reply::ok())
    }

    /// Each of the keys, of both kinds.
    async fn read_each(
        &mut self,
        command: &'static str,
        request: &Request,
    ) -> Answered<Vec<Reply>> {
        let mut values = Vec::with_capacity(request.arguments.len());
        for key in &request.arguments[1..] {
            let value = if !is_own(key) {
                let is_get = command == "get";
                let read = if is_get { keyspace::strings::mget } else { keyspace::keys::exists };
                let arguments = [Bytes::from_static(command.as_bytes()), key.clone()];
                match self.execute_one(read, &arguments).await? {
                    Reply::Array(mut values) => values.pop().unwrap_or(Reply::Null),
                    other => other,
                }
            } else if queue_in(key).is_some() {
                self.answer_queue(command, key, &[]).await.unwrap_or(Reply::Null)
            } else {
                self.answer_view(command, key, &[]).await.unwrap_or(Reply::Null)
            };
            values.push(value);
        }
        Ok(values)
    }

    pub(super) async fn on_dbsize(&mut self) -> Answered {
        let (keys, _) = self.keyspace_load().await;
        Ok((keys + self.view_names().await.len()).into())
    }

    /// `KEYS pattern`, over both kinds of keys.
    pub(super) async fn on_keys(&mut self, request: &Request) -> Answered {
        let pattern = &request.arguments[1];
        let mut reply = self.execute_one(keyspace::keys::keys, &request.arguments).await?;
        if let Reply::Array(keys) = &mut reply {
            self.add_views(keys, pattern, None).await;
        }
        Ok(reply)
    }

    /// Adds the names of the server's own keys that fit a pattern, and are of this type.
    async fn add_views(&self, keys: &mut Vec<Reply>, pattern: &[u8], kind: Option<&[u8]>) {
        let own = self.view_names().await.into_iter().filter(|(name, own_kind)| {
            keyspace::matches(pattern, name.as_bytes())
                && kind.is_none_or(|kind| kind.eq_ignore_ascii_case(own_kind.as_bytes()))
        });
        keys.extend(own.map(|(name, _)| Reply::from(name)));
    }

    /// `SCAN cursor ...`: the server's own keys come with the last page.
    pub(super) async fn on_scan(&mut self, request: &Request) -> Answered {
        let mut reply = self.execute_one(keyspace::keys::scan, &request.arguments).await?;
        if let Reply::Array(page) = &mut reply
            && let [cursor, Reply::Array(keys)] = &mut page[..]
            && *cursor == Reply::Bulk(Bytes::from_static(b"0"))
        {
            let words = &request.arguments[2..];
            let option = |name: &[u8]| {
                let at = words.iter().position(|word| word.eq_ignore_ascii_case(name))?;
                words.get(at + 1).map(AsRef::as_ref)
            };
            self.add_views(keys, option(b"MATCH").unwrap_or(b"*"), option(b"TYPE")).await;
        }
        Ok(reply)
    }

    /// How many keys there are, and about how many bytes they take.
    pub(super) async fn keyspace_load(&self) -> (usize, usize) {
        self.keyspace().await.map_or((0, 0), |keyspace| {
            let load = keyspace.load();
            (load.keys, load.bytes)
        })
    }

    async fn keyspace(&self) -> Answered<Arc<TenantKeyspace>> {
        Ok(self.member().handle.keyspace().await?)
    }
}

/// A range of a sorted set without scores.
fn is_bare_range(request: &Invocation) -> bool {
    let has = |word: &[u8]| request.arguments.iter().any(|one| one.eq_ignore_ascii_case(word));
    (request.name_is("ZRANGE") || request.name_is("ZRANGEBYSCORE")) && !has(b"WITHSCORES")
}

/// Writes an answer of the keyspace without a detour.
fn write_answer(out: &mut BytesMut, answer: &Answer, version: Version) {
    match answer {
        Answer::Ok => write_ok(out),
        // Only pops wait, and those are answered elsewhere.
        Answer::Null | Answer::Block { .. } => write_null(out, version),
        Answer::NullArray => write_null_array(out, version),
        Answer::Integer(number) => write_integer(out, *number),
        Answer::Double(number) => write_double(out, *number, version),
        Answer::Bulk(bytes) => write_bulk(out, bytes),
        Answer::Word(word) => write_simple(out, word),
        Answer::Array(all) => {
            write_array_head(out, all.len());
            for one in all {
                write_answer(out, one, version);
            }
        }
        Answer::Popped(popped) => {
            write_array_head(out, 2);
            write_bulk(out, &popped.key);
            write_bulk(out, &popped.element);
        }
        Answer::Map(all) => {
            write_map_head(out, all.len(), version);
            for (field, value) in all {
                write_bulk(out, field);
                write_bulk(out, value);
            }
        }
        Answer::Scored(all) => write_scored(out, all, version),
        Answer::Error(text) => write_error(out, text),
    }
}

/// Version 3 has pairs; version 2 has members and scores in one row.
fn write_scored(out: &mut BytesMut, all: &[(Bytes, f64)], version: Version) {
    let is_three = version == Version::Three;
    write_array_head(out, if is_three { all.len() } else { 2 * all.len() });
    for (member, score) in all {
        if is_three {
            write_array_head(out, 2);
        }
        write_bulk(out, member);
        write_double(out, *score, version);
    }
}

/// An answer of `KEYS`, `SCAN`, `MGET` or `EXISTS`, to which views are added.
fn reply_of(answer: Answer) -> Reply {
    match answer {
        Answer::Integer(number) => Reply::Integer(number),
        Answer::Bulk(bytes) => Reply::Bulk(bytes),
        Answer::Array(all) => Reply::Array(all.into_iter().map(reply_of).collect()),
        Answer::Error(text) => Reply::Error(text),
        _ => Reply::Null, // A missing value; these commands give nothing else.
    }
}
