//! Keys: those of the keyspace, and those that the server itself shows.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use keyspace::{Answer, Operation};
use protocol::resp::reply::{
    Reply, Version, write_array_head, write_bulk, write_double, write_error, write_integer,
    write_map_head, write_null, write_null_array, write_ok, write_simple,
};
use protocol::resp::request::Request;

use super::answers::{QUEUE_PREFIX, queue_in};
use super::command_spec::CommandSpec;
use super::connection::{Connection, Event};
use super::dispatch::{Invocation, is_own};
use super::listener::Shapes;
use super::wire::Gone;
use crate::keyspace::TenantKeyspace;

impl Connection {
    /// A run of commands on the keyspace: one look at it, one wait for the disk.
    pub(super) async fn answer_keys(&mut self, run: &[Invocation]) -> Result<(), Gone> {
        // If the role forbids some commands of a run, they are answered one by one; that is rare.
        if run.iter().any(|request| self.refuse_role(request).is_some()) {
            for request in run {
                match self.refuse_role(request) {
                    Some(reply) => self.reply(&reply),
                    None => self.answer_allowed_keys(std::slice::from_ref(request)).await?,
                }
            }
            return Ok(());
        }
        self.answer_allowed_keys(run).await
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
            Err(reply) => run.iter().for_each(|_| self.reply(&reply)),
        }
        Ok(())
    }

    /// Carries out commands on the keyspace; the answers come when what they say is durable.
    async fn execute<'a>(
        &self,
        commands: impl Iterator<Item = (Operation, &'a [Bytes])>,
    ) -> Result<Vec<Answer>, Reply> {
        let keyspace = self.keyspace().await?;
        let (answers, point) = keyspace.execute(commands)?;
        keyspace.durable(&point).await?;
        Ok(answers)
    }

    async fn execute_one(&self, operation: Operation, arguments: &[Bytes]) -> Result<Reply, Reply> {
        let answers = self.execute(std::iter::once((operation, arguments))).await?;
        Ok(answers.into_iter().next().map_or(Reply::Null, reply_of))
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
        let refusal = self.refuse_role(request);
        let keyspace = match (refusal, request.operation()) {
            (None, Some(operation)) => self.keyspace().await.map(|found| (found, operation)),
            (refusal, _) => Err(refusal.unwrap_or(Reply::Null)),
        };
        let (keyspace, operation) = match keyspace {
            Ok(found) => found,
            Err(reply) => {
                self.reply(&reply);
                return Ok(());
            }
        };
        self.wire.flush().await?;
        let mut waiting = std::pin::pin!(keyspace.pop_or_wait(operation, &request.arguments));
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut waiting => break answer,
                event = self.next_event() => match event {
                    Event::Input => {}
                    Event::Message(message) => self.tell(&message).await,
                    Event::Over(gone) => return Err(gone),
                },
            }
        };
        match answer {
            Ok(answer) => self.write_answer(answer),
            Err(error) => self.reply(&error.into()),
        }
        Ok(())
    }

    /// A command for keys, on a key of the server.
    pub(super) async fn answer_own_key(
        &mut self,
        spec: &CommandSpec,
        request: &Request,
    ) -> Result<Reply, Reply> {
        let Some(key) = request.arguments.get(1) else {
            return Err(super::jobs::arity(request));
        };
        if let ("set", [_, _, value, ..]) = (spec.name, &request.arguments[..]) {
            return self.set_own_key(key, value).await;
        }
        match spec.name {
            "mget" => return Ok(Reply::Array(self.read_each("GET", request).await?)),
            "exists" if request.arguments.len() > 2 => {
                let found = self.read_each("EXISTS", request).await?;
                let n_found = found.iter().filter(|one| **one == Reply::Integer(1)).count();
                return Ok(Reply::Integer(i64::try_from(n_found).unwrap_or(i64::MAX)));
            }
            _ => {}
        }
        if key.starts_with(QUEUE_PREFIX) {
            return self.answer_queue(request).await;
        }
        let reply = self.answer_view(request).await;
        self.prove_by_key(key);
        reply
    }

    /// `SMEMBERS` and `SISMEMBER`: the only sets are those that the server shows.
    pub(super) async fn on_set_of_view(&mut self, request: &Request) -> Result<Reply, Reply> {
        if is_own(&request.arguments[1]) {
            return self.answer_view(request).await;
        }
        Err(Reply::error(
            "ERR no key of yours can be a set: this port has strings, lists, hashes \
                          and sorted sets",
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
    async fn set_own_key(&mut self, key: &Bytes, value: &Bytes) -> Result<Reply, Reply> {
        let text = super::jobs::text_of(key)?;
        self.prove_by_key(key);
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["worker", worker, "tools"] => self.on_set_worker(worker, "tools", value).await,
            ["worker", worker, "tags"] => self.on_set_worker(worker, "tags", value).await,
            ["job", job, "stdout"] => self.set_output(job, "stdout", value).await,
            ["job", job, "stderr"] => self.set_output(job, "stderr", value).await,
            ["job", job, "status"] => Ok(self.report_by_set(job, value).await),
            _ => Err(Reply::error(format!("ERR '{text}' is kept by the server and cannot be set"))),
        }
    }

    /// What a job wrote is kept until its status is set; then it is part of the report.
    async fn set_output(
        &mut self,
        job: &str,
        field: &'static str,
        value: &Bytes,
    ) -> Result<Reply, Reply> {
        let member = self.member();
        let is_held = member.workers().known(&member.worker(), |worker| {
            worker.held_mut(job).is_some_and(|held| {
                held.outputs.insert(field, Bytes::copy_from_slice(value));
                true
            })
        });
        if is_held == Some(true) {
            return Ok(Reply::ok());
        }
        match self.find_record(job).await? {
            // Another holds it now: what this worker writes does not count, and it need not care.
            Some(_) => Ok(Reply::ok()),
            None => Err(Reply::error(format!("ERR Job not found: {job}"))),
        }
    }

    /// Each of the keys, of both kinds.
    async fn read_each(
        &mut self,
        command: &'static str,
        request: &Request,
    ) -> Result<Vec<Reply>, Reply> {
        let mut values = Vec::with_capacity(request.arguments.len());
        for key in &request.arguments[1..] {
            let arguments = vec![Bytes::from_static(command.as_bytes()), key.clone()];
            let one = Request { arguments };
            let value = if !is_own(key) {
                let is_get = command == "GET";
                let read = if is_get { keyspace::strings::mget } else { keyspace::keys::exists };
                match self.execute_one(read, &one.arguments).await? {
                    Reply::Array(mut values) => values.pop().unwrap_or(Reply::Null),
                    other => other,
                }
            } else if queue_in(key).is_some() {
                self.answer_queue(&one).await.unwrap_or(Reply::Null)
            } else {
                self.answer_view(&one).await.unwrap_or(Reply::Null)
            };
            values.push(value);
        }
        Ok(values)
    }

    pub(super) async fn on_dbsize(&mut self) -> Result<Reply, Reply> {
        let keys = self.key_count().await + self.view_names().await.len();
        Ok(Reply::Integer(i64::try_from(keys).unwrap_or(i64::MAX)))
    }

    /// `KEYS pattern`, over both kinds of keys.
    pub(super) async fn on_keys(&mut self, request: &Request) -> Result<Reply, Reply> {
        let pattern = &request.arguments[1];
        let mut keys = match self.execute_one(keyspace::keys::keys, &request.arguments).await? {
            Reply::Array(keys) => keys,
            other => return Err(other),
        };
        let own = self.view_names().await.into_iter();
        let own = own.filter(|(name, _)| keyspace::matches(pattern, name.as_bytes()));
        keys.extend(own.map(|(name, _)| Reply::bulk(name.into_bytes())));
        Ok(Reply::Array(keys))
    }

    /// `SCAN cursor ...`: the server's own keys come with the last page.
    pub(super) async fn on_scan(&mut self, request: &Request) -> Result<Reply, Reply> {
        let mut page = match self.execute_one(keyspace::keys::scan, &request.arguments).await? {
            Reply::Array(page) if page.len() == 2 => page,
            other => return Err(other),
        };
        let is_last = page[0] == Reply::Bulk(Bytes::from_static(b"0"));
        let words: Vec<&[u8]> = request.arguments[2..].iter().map(AsRef::as_ref).collect();
        let option = |name: &[u8]| {
            let at = words.iter().position(|word| word.eq_ignore_ascii_case(name))?;
            words.get(at + 1).copied()
        };
        if let (true, Reply::Array(keys)) = (is_last, &mut page[1]) {
            let (pattern, kind) = (option(b"MATCH").unwrap_or(b"*"), option(b"TYPE"));
            let own = self.view_names().await.into_iter().filter(|(name, own_kind)| {
                keyspace::matches(pattern, name.as_bytes())
                    && kind.is_none_or(|kind| kind.eq_ignore_ascii_case(own_kind.as_bytes()))
            });
            keys.extend(own.map(|(name, _)| Reply::bulk(name.into_bytes())));
        }
        Ok(Reply::Array(page))
    }

    pub(super) async fn key_count(&self) -> usize {
        self.keyspace().await.map_or(0, |keyspace| keyspace.load().keys)
    }

    pub(super) async fn keyspace_bytes(&self) -> usize {
        self.keyspace().await.map_or(0, |keyspace| keyspace.load().bytes)
    }

    async fn keyspace(&self) -> Result<Arc<TenantKeyspace>, Reply> {
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
