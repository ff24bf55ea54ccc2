//! Keys: those of the scratch keyspace, and those that the server itself shows.

use bytes::Bytes;
use keyspace::Answer;
use protocol::resp::reply::{
    Reply, Version, write_array_head, write_bulk, write_double, write_error, write_integer,
    write_map_head, write_null, write_null_array, write_ok, write_set_head, write_simple,
};
use protocol::resp::request::Request;

use super::classify::is_own;
use super::connection::{Connection, Event};
use super::convert::{QUEUE_PREFIX, queue_in};
use super::listener::Shapes;
use super::wire::Gone;

impl Connection {
    /// A run of commands on the scratch keyspace: one look at it, one wait for the disk.
    pub(super) async fn answer_keys(&mut self, run: &[Request]) -> Result<(), Gone> {
        // All commands of a run that the role forbids are refused one by one; that is rare.
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

    async fn answer_allowed_keys(&mut self, run: &[Request]) -> Result<(), Gone> {
        if self.app.resp.shapes == Shapes::Agq && run.iter().any(is_bare_range) {
            let run: Vec<Request> = run.iter().map(with_scores).collect();
            return Box::pin(self.answer_allowed_keys(&run)).await;
        }
        match self.execute(run).await {
            Ok(answers) => {
                for (request, answer) in run.iter().zip(answers) {
                    let answer = self.shaped(request, answer);
                    write_answer(&mut self.wire.output, &answer, self.client.version);
                    self.wire.flush_if_much().await?;
                }
            }
            Err(reply) => run.iter().for_each(|_| self.reply(&reply)),
        }
        Ok(())
    }

    /// Carries out commands on the keyspace; the answers come when what they say is durable.
    async fn execute(&self, run: &[Request]) -> Result<Vec<Answer>, Reply> {
        let scratch = self.scratch().await?;
        let (answers, mark) = scratch.execute(run)?;
        scratch.durable(&mark).await?;
        Ok(answers)
    }

    async fn execute_one(&self, request: &Request) -> Result<Reply, Reply> {
        let answers = self.execute(std::slice::from_ref(request)).await?;
        Ok(answers.into_iter().next().map_or(Reply::Null, reply_of))
    }

    /// Other shapes for clients of another server.
    pub(super) fn shaped(&self, request: &Request, answer: Answer) -> Answer {
        if self.app.resp.shapes == Shapes::Redis {
            return answer;
        }
        match answer {
            Answer::Array(mut pair)
                if pair.len() == 2 && (request.name_is("BRPOP") || request.name_is("BLPOP")) =>
            {
                pair.pop().unwrap_or(Answer::Null)
            }
            Answer::NullArray => Answer::Null,
            other => other,
        }
    }

    /// A pop that may have to wait.
    pub(super) async fn answer_wait(&mut self, request: &Request) -> Result<(), Gone> {
        if let Some(reply) = self.refuse_role(request) {
            self.reply(&reply);
            return Ok(());
        }
        let scratch = match self.scratch().await {
            Ok(scratch) => scratch,
            Err(reply) => {
                self.reply(&reply);
                return Ok(());
            }
        };
        self.wire.flush().await?;
        let mut waiting = std::pin::pin!(scratch.wait_turn(&request.arguments));
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
            Ok(answer) => {
                let answer = self.shaped(request, answer);
                write_answer(&mut self.wire.output, &answer, self.client.version);
            }
            Err(error) => self.reply(&error.into()),
        }
        Ok(())
    }

    /// A command on a key of the server.
    pub(super) async fn answer_own_key(
        &mut self,
        name: &str,
        request: &Request,
    ) -> Result<Reply, Reply> {
        match name {
            "KEYS" => return self.on_keys(request).await,
            "SCAN" => return self.on_scan(request).await,
            "DBSIZE" => {
                let keys = self.key_count().await + self.view_names().await.len();
                return Ok(Reply::Integer(i64::try_from(keys).unwrap_or(i64::MAX)));
            }
            _ => {}
        }
        let Some(key) = request.arguments.get(1) else {
            return Err(super::jobs::arity(request));
        };
        if let ("SET", [_, _, value, ..]) = (name, &request.arguments[..]) {
            return self.set_own_key(key, value).await;
        }
        let many = ["MGET", "EXISTS"].contains(&name) && request.arguments.len() > 2;
        if many {
            return self.read_many(name, request).await;
        }
        if key.starts_with(QUEUE_PREFIX) {
            return self.answer_queue(request).await;
        }
        let reply = self.answer_view(request).await;
        self.prove_by_key(key);
        reply
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

    async fn read_many(&mut self, name: &str, request: &Request) -> Result<Reply, Reply> {
        let mut values = Vec::with_capacity(request.arguments.len());
        for key in &request.arguments[1..] {
            let command = if name == "MGET" { "GET" } else { "EXISTS" };
            let one = Request {
                arguments: vec![Bytes::copy_from_slice(command.as_bytes()), key.clone()],
            };
            let value = if !is_own(key) {
                self.execute_one(&one).await?
            } else if queue_in(key).is_some() {
                self.answer_queue(&one).await.unwrap_or(Reply::Null)
            } else {
                self.answer_view(&one).await.unwrap_or(Reply::Null)
            };
            values.push(value);
        }
        if name == "MGET" {
            return Ok(Reply::Array(values));
        }
        let count = |value: &Reply| if let Reply::Integer(n) = value { *n } else { 0 };
        Ok(Reply::Integer(values.iter().map(count).sum()))
    }

    /// `KEYS pattern`, over both kinds of keys.
    async fn on_keys(&mut self, request: &Request) -> Result<Reply, Reply> {
        let pattern = &request.arguments[1];
        let mut keys = match self.execute_one(request).await? {
            Reply::Array(keys) => keys,
            other => return Err(other),
        };
        let own = self.view_names().await.into_iter();
        let own = own.filter(|(name, _)| keyspace::matches(pattern, name.as_bytes()));
        keys.extend(own.map(|(name, _)| Reply::bulk(name.into_bytes())));
        Ok(Reply::Array(keys))
    }

    /// `SCAN cursor ...`: the server's own keys come with the last page.
    async fn on_scan(&mut self, request: &Request) -> Result<Reply, Reply> {
        let mut page = match self.execute_one(request).await? {
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
        match self.scratch().await {
            Ok(scratch) => scratch.load().keys,
            Err(_) => 0,
        }
    }

    pub(super) async fn scratch_bytes(&self) -> usize {
        match self.scratch().await {
            Ok(scratch) => scratch.load().bytes,
            Err(_) => 0,
        }
    }

    pub(super) async fn scratch(
        &self,
    ) -> Result<std::sync::Arc<crate::scratch::TenantScratch>, Reply> {
        Ok(self.member().handle.keyspace().await?)
    }
}

/// A range of a sorted set without scores.
fn is_bare_range(request: &Request) -> bool {
    let has = |word: &[u8]| request.arguments.iter().any(|one| one.eq_ignore_ascii_case(word));
    (request.name_is("ZRANGE") || request.name_is("ZRANGEBYSCORE"))
        && !has(b"WITHSCORES")
        && !has(b"BYLEX")
}

/// Clients of another server always get scores.
fn with_scores(request: &Request) -> Request {
    let mut request = request.clone();
    if is_bare_range(&request) {
        request.arguments.push(Bytes::from_static(b"WITHSCORES"));
    }
    request
}

/// Writes an answer of the keyspace without a detour.
pub(super) fn write_answer(out: &mut bytes::BytesMut, answer: &Answer, version: Version) {
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
        Answer::Map(all) => {
            write_map_head(out, all.len(), version);
            for (field, value) in all {
                write_bulk(out, field);
                write_bulk(out, value);
            }
        }
        Answer::Pairs(all) => write_pairs(out, all, version),
        Answer::Set(all) => {
            write_set_head(out, all.len(), version);
            for one in all {
                write_bulk(out, one);
            }
        }
        Answer::Scored(all) => write_scored(out, all, version),
        Answer::Error(text) => write_error(out, text),
    }
}

/// The same for values.
fn write_pairs(out: &mut bytes::BytesMut, all: &[(Bytes, Bytes)], version: Version) {
    let is_three = version == Version::Three;
    write_array_head(out, if is_three { all.len() } else { 2 * all.len() });
    for (field, value) in all {
        if is_three {
            write_array_head(out, 2);
        }
        write_bulk(out, field);
        write_bulk(out, value);
    }
}

/// Version 3 has pairs; version 2 has members and scores in one row.
fn write_scored(out: &mut bytes::BytesMut, all: &[(Bytes, f64)], version: Version) {
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

/// An answer that goes on being worked with.
fn reply_of(answer: Answer) -> Reply {
    match answer {
        Answer::Ok => Reply::ok(),
        Answer::Null | Answer::Block { .. } => Reply::Null,
        Answer::NullArray => Reply::NullArray,
        Answer::Integer(number) => Reply::Integer(number),
        Answer::Double(number) => Reply::Double(number),
        Answer::Bulk(bytes) => Reply::Bulk(bytes),
        Answer::Word(word) => Reply::simple(word),
        Answer::Array(all) => Reply::Array(all.into_iter().map(reply_of).collect()),
        Answer::Pairs(all) => Reply::Array(
            all.into_iter().flat_map(|(k, v)| [Reply::Bulk(k), Reply::Bulk(v)]).collect(),
        ),
        Answer::Set(all) => Reply::Set(all.into_iter().map(Reply::Bulk).collect()),
        Answer::Map(all) => {
            Reply::Map(all.into_iter().map(|(k, v)| (Reply::Bulk(k), Reply::Bulk(v))).collect())
        }
        Answer::Scored(all) => Reply::Array(
            all.into_iter()
                .flat_map(|(member, score)| [Reply::Bulk(member), Reply::Double(score)])
                .collect(),
        ),
        Answer::Error(text) => Reply::Error(text),
    }
}
