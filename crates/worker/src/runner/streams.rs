//! Moves bytes between a program and those who feed it and listen to it.

use std::future::pending;

use bytes::{Buf as _, Bytes};
use protocol::session::payload::exec::Channel;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use crate::core::feedback::FeedbackSink;
use crate::runner::output::{Capture, Spool, SpoolError, Spooled};
use crate::runner::process::Pipes;

/// How much is read at once from one pipe.
const READ_BYTES: usize = 32 * 1024;

/// The three pipes of a program.
#[derive(Debug)]
pub struct Streams {
    stdin: Option<Feed>,
    stdout: Pipe<ChildStdout>,
    stderr: Pipe<ChildStderr>,
    /// It is bounded on purpose: who does not take makes the program wait rather than this process
    /// grow.
    feedback: FeedbackSink,
    /// Takes the whole standard output for another program, as long as it can.
    spool: Option<Result<Spool, SpoolError>>,
}

/// How far moving bytes came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Nothing is left to move.
    Everything,
    /// The standard output cannot be handed to another program. Said once.
    Unspooled,
}

/// What was kept of each channel.
#[derive(Clone, Debug)]
pub struct Captures {
    /// Of standard output.
    pub stdout: Capture,
    /// Of standard error.
    pub stderr: Capture,
}

/// What can happen next.
enum Event {
    Read(Channel, usize),
    Fed,
    Taken,
}

impl Streams {
    /// Feeds `stdin`, keeps at most `bytes_max` of each channel and passes everything to `feedback`.
    pub fn new(pipes: Pipes, stdin: Bytes, bytes_max: usize, feedback: FeedbackSink) -> Self {
        Self {
            stdin: pipes.stdin.map(|pipe| Feed { pipe, rest: stdin }),
            stdout: Pipe::new(pipes.stdout, bytes_max),
            stderr: Pipe::new(pipes.stderr, bytes_max),
            feedback,
            spool: None,
        }
    }

    /// Also keeps the whole standard output for another program.
    #[must_use]
    pub fn spooled(mut self, spool: Option<Spool>) -> Self {
        self.spool = spool.map(Ok);
        self
    }

    /// Moves bytes until nothing is left to move. May be dropped and called again at any time:
    /// nothing gets lost between two calls.
    pub async fn run(&mut self) -> Moved {
        while !self.is_done() {
            let could_spool = self.can_spool();
            match self.next().await {
                Event::Read(channel, n_read) => self.on_read(channel, n_read),
                Event::Fed | Event::Taken => {}
            }
            if could_spool && !self.can_spool() {
                return Moved::Unspooled;
            }
        }
        Moved::Everything
    }

    fn can_spool(&self) -> bool {
        matches!(self.spool, Some(Ok(_)))
    }

    /// Whether more may be said than the session takes.
    pub fn waits_for_session(&self) -> bool {
        !self.is_silent() && self.feedback.room() == 0
    }

    /// What was kept, and the whole standard output if somebody wants it.
    pub fn into_captures(self) -> (Captures, Option<Result<Spooled, SpoolError>>) {
        let is_whole = self.stdout.reader.is_none();
        let spooled = self.spool.map(|spool| match spool {
            Ok(_) if !is_whole => Err(SpoolError::Unfinished),
            Ok(spool) => spool.finish(),
            Err(error) => Err(error),
        });
        (Captures { stdout: self.stdout.capture, stderr: self.stderr.capture }, spooled)
    }

    fn is_done(&self) -> bool {
        self.stdin.is_none() && self.is_silent()
    }

    /// Whether nothing more will be said.
    fn is_silent(&self) -> bool {
        self.stdout.reader.is_none() && self.stderr.reader.is_none()
    }

    async fn next(&mut self) -> Event {
        let room = self.feedback.room();
        let Self { stdin, stdout, stderr, feedback, .. } = self;
        tokio::select! {
            n_read = stdout.read(room) => Event::Read(Channel::Stdout, n_read),
            n_read = stderr.read(room) => Event::Read(Channel::Stderr, n_read),
            is_over = feed(stdin) => {
                if is_over {
                    // Closing the pipe tells the program that this was all.
                    *stdin = None;
                }
                Event::Fed
            }
            () = feedback.taken(), if room == 0 => Event::Taken,
        }
    }

    fn on_read(&mut self, channel: Channel, n_read: usize) {
        let is_stdout = channel == Channel::Stdout;
        let said = if is_stdout { self.stdout.keep(n_read) } else { self.stderr.keep(n_read) };
        if is_stdout
            && let Some(Ok(spool)) = &mut self.spool
            && let Err(error) = spool.push(said)
        {
            self.spool = Some(Err(error));
        }
        self.feedback.push(channel, said);
    }
}

/// What a program is still to be told.
#[derive(Debug)]
struct Feed {
    pipe: ChildStdin,
    rest: Bytes,
}

/// Writes as much as fits; `true` when there is no more to write.
async fn feed(stdin: &mut Option<Feed>) -> bool {
    let Some(Feed { pipe, rest }) = stdin else { return pending().await };
    if rest.is_empty() {
        return true;
    }
    match pipe.write(rest).await {
        Ok(n_written) => {
            rest.advance(n_written);
            rest.is_empty()
        }
        // A program need not read what it is told.
        Err(_) => true,
    }
}

#[derive(Debug)]
struct Pipe<R> {
    /// `None` when nothing more will come.
    reader: Option<R>,
    buffer: Box<[u8]>,
    capture: Capture,
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    fn new(reader: Option<R>, bytes_max: usize) -> Self {
        let buffer = vec![0; READ_BYTES].into_boxed_slice();
        Self { reader, buffer, capture: Capture::new(bytes_max) }
    }

    /// Reads at most `room` bytes into the buffer; 0 at the end. Without room the program waits.
    async fn read(&mut self, room: usize) -> usize {
        let room = room.min(self.buffer.len());
        match &mut self.reader {
            // A pipe that cannot be read has ended.
            Some(reader) if room > 0 => reader.read(&mut self.buffer[..room]).await.unwrap_or(0),
            Some(_) | None => pending().await,
        }
    }

    /// Keeps what the last read brought, and gives it back.
    fn keep(&mut self, n_read: usize) -> &[u8] {
        if n_read == 0 {
            self.reader = None;
        }
        let said = &self.buffer[..n_read];
        self.capture.push(said);
        said
    }
}
