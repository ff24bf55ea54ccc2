//! Forwards one direction of a connection, and does to it what faults do.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep_until};

use super::fault::{Fault, Kind, Tally};
use super::frames::{Piece, Splitter};

/// What waits to be written; then nothing more is read.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A message that waits for the next one to be swapped with waits no longer than this.
const SWAP_WITHIN: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 64 * 1024;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// An end closed it, or is gone.
    Closed,
    /// A fault, which is one of those that end connections.
    Fault(Fault),
}

/// From one end to the other.
pub(super) struct Forwarder {
    pub(super) source: OwnedReadHalf,
    pub(super) sink: OwnedWriteHalf,
    splitter: Splitter,
    arrived: BytesMut,
    waiting: BytesMut,
    /// Faults that wait for their moment.
    armed: VecDeque<Fault>,
    /// The first of two messages that are to be swapped, and when it goes on without the second.
    held: Option<(Bytes, Instant)>,
    write_after: Option<Instant>,
    read_after: Option<Instant>,
    /// Bytes vanish until then, and the connection with them.
    void: Option<(Instant, Fault)>,
    tally: Tally,
}

impl Forwarder {
    pub(super) fn new(source: OwnedReadHalf, sink: OwnedWriteHalf, tally: Tally) -> Self {
        Self {
            source,
            sink,
            splitter: Splitter::default(),
            arrived: BytesMut::new(),
            waiting: BytesMut::new(),
            armed: VecDeque::new(),
            held: None,
            write_after: None,
            read_after: None,
            void: None,
            tally,
        }
    }

    /// Lets a fault happen, at once or when its moment comes.
    pub(super) fn arm(&mut self, fault: Fault) {
        let until = Instant::now() + fault.lasts;
        match fault.kind {
            Kind::Delay => self.write_after = Some(until),
            Kind::Stall => self.read_after = Some(until),
            Kind::BlackHole if self.void.is_none() => self.void = Some((until, fault)),
            Kind::BlackHole
            | Kind::Reset
            | Kind::Finish
            | Kind::HalfOpen
            | Kind::Duplicate
            | Kind::Swap => return self.armed.push_back(fault),
        }
        self.tally.count(fault.kind);
    }

    /// What has not happened; another connection shall have it.
    pub(super) fn disarm(&mut self) -> impl Iterator<Item = Fault> {
        std::mem::take(&mut self.armed).into_iter()
    }

    /// Reads something, writes something or lets time pass. May be dropped at any moment.
    pub(super) async fn step(&mut self) -> Ending {
        loop {
            if let Some(ending) = self.due_ending() {
                return ending;
            }
            let now = Instant::now();
            self.release_held(now);
            let is_past = |moment: Option<Instant>| moment.is_none_or(|moment| moment <= now);
            let may_write = !self.waiting.is_empty() && is_past(self.write_after);
            let may_read = self.waiting.len() < WAITING_BYTES_MAX && is_past(self.read_after);
            let due = self.next_due(now);
            let moved = tokio::select! {
                ready = self.sink.writable(), if may_write => ready.and_then(|()| self.write()),
                ready = self.source.readable(), if may_read => ready.and_then(|()| self.read()),
                () = wait_until(due) => Ok(()),
            };
            match moved {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Ending::Closed,
            }
        }
    }

    fn due_ending(&mut self) -> Option<Ending> {
        if let Some((until, fault)) = self.void {
            return (until <= Instant::now()).then_some(Ending::Fault(fault));
        }
        let position =
            self.armed.iter().position(|fault| ends(*fault) && fault.after_bytes == 0)?;
        let fault = self.armed.remove(position)?;
        self.tally.count(fault.kind);
        Some(Ending::Fault(fault))
    }

    fn release_held(&mut self, now: Instant) {
        if let Some((message, _)) = self.held.take_if(|(_, until)| *until <= now) {
            self.waiting.extend_from_slice(&message);
        }
    }

    fn next_due(&self, now: Instant) -> Option<Instant> {
        let held = self.held.as_ref().map(|(_, until)| *until);
        let void = self.void.map(|(until, _)| until);
        let moments = [self.write_after, self.read_after, held, void];
        moments.into_iter().flatten().filter(|moment| *moment > now).min()
    }

    fn read(&mut self) -> io::Result<()> {
        self.arrived.reserve(READ_BYTES);
        if self.source.try_read_buf(&mut self.arrived)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if self.void.is_some() {
            self.arrived.clear();
            self.waiting.clear();
        }
        while let Some(piece) = self.splitter.next(&mut self.arrived) {
            self.forward(&piece);
        }
        Ok(())
    }

    fn forward(&mut self, piece: &Piece) {
        if !piece.is_text {
            return self.waiting.extend_from_slice(&piece.bytes);
        }
        if let Some((first, _)) = self.held.take() {
            self.take_armed(Kind::Swap);
            self.waiting.extend_from_slice(&piece.bytes);
            self.waiting.extend_from_slice(&first);
        } else if self.armed.iter().any(|fault| fault.kind == Kind::Swap) {
            self.held = Some((piece.bytes.clone(), Instant::now() + SWAP_WITHIN));
        } else {
            self.waiting.extend_from_slice(&piece.bytes);
            if self.take_armed(Kind::Duplicate) {
                self.waiting.extend_from_slice(&piece.bytes);
            }
        }
    }

    fn take_armed(&mut self, kind: Kind) -> bool {
        let position = self.armed.iter().position(|fault| fault.kind == kind);
        let taken = position.and_then(|position| self.armed.remove(position));
        if taken.is_some() {
            self.tally.count(kind);
        }
        taken.is_some()
    }

    fn write(&mut self) -> io::Result<()> {
        let ending = self.armed.iter_mut().find(|fault| ends(**fault));
        let left = ending.as_ref().map_or(u64::MAX, |fault| fault.after_bytes);
        let n_most = usize::try_from(left).unwrap_or(usize::MAX).min(self.waiting.len());
        let n_written = self.sink.try_write(&self.waiting[..n_most])?;
        self.waiting.advance(n_written);
        if let Some(fault) = ending {
            fault.after_bytes -= n_written as u64;
        }
        Ok(())
    }
}

const fn ends(fault: Fault) -> bool {
    matches!(fault.kind, Kind::Reset | Kind::Finish | Kind::HalfOpen)
}

async fn wait_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
