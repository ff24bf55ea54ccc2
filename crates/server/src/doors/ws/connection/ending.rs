//! How a session leaves a connection, and a connection its server.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio_websockets::CloseCode;

use super::super::gate::Former;
use super::super::wire::Gone;
use super::{Connection, Done, Leaving, SETTLE_WITHIN};
use crate::sessions::{Carried, Notice, Parting};

impl Connection {
    /// What this connection carried so far.
    pub(super) fn former(&self) -> Option<Former> {
        let desk = self.desk.as_ref()?;
        Some(Former {
            claim: desk.connection,
            held: desk.leases(),
            unconfirmed: desk.unconfirmed(),
            calls: desk.calls.all(),
        })
    }

    /// A session is over, but the connection stays: the worker may begin anew on it.
    pub(super) fn end_session(&mut self, session_id: &str) {
        let desk = self.desk.take_if(|desk| desk.session_id == session_id);
        let Some(desk) = desk else { return };
        self.mailbox = None;
        desk.metrics.disconnected();
        let (app, tenant) = (Arc::clone(&self.app), desk.tenant.clone());
        let (instance_id, session_id) = (desk.instance_id.clone(), session_id.to_owned());
        self.later(async move {
            app.sessions.end(&tenant, &instance_id, &session_id).await;
            Done::Nothing
        });
        let parting = Parting {
            tenant: &desk.tenant,
            instance_id: &desk.instance_id,
            connection: desk.connection,
            carried: Carried {
                session: None,
                held: desk.leases(),
                unconfirmed: desk.unconfirmed(),
                calls: desk.calls.all(),
            },
        };
        // Whoever took over meanwhile has what it needs.
        let _ = self.app.sessions.park(parting, self.app.clock.now());
    }

    pub(super) async fn leave(mut self, leaving: Leaving) {
        let (code, reason) = match &leaving {
            Leaving::Gone(Gone::Closed) => (CloseCode::NORMAL_CLOSURE, ""),
            Leaving::Gone(Gone::TooLarge) => (CloseCode::MESSAGE_TOO_BIG, "frame too large"),
            Leaving::Gone(Gone::Stalled) => (CloseCode::POLICY_VIOLATION, "the peer does not read"),
            Leaving::Stopping => (CloseCode::GOING_AWAY, "the server stops"),
            Leaving::HandedOver(_) => (CloseCode::INTERNAL_SERVER_ERROR, "superseded session"),
            Leaving::Overdue(why) => (CloseCode::POLICY_VIOLATION, *why),
        };
        // Without its windows the session goes on as after a restart: the worker repeats what was
        // not confirmed. With them it would be taken for delivered, and never confirmed.
        let is_settled = tokio::time::timeout(SETTLE_WITHIN, self.settle()).await.is_ok();
        if matches!(leaving, Leaving::Gone(Gone::TooLarge) | Leaving::Overdue(_)) {
            self.wire.close_patiently(code, reason).await;
        } else {
            self.wire.close(code, reason).await;
        }
        let session = self.machine.take_session().filter(|_| is_settled);
        let Some(desk) = self.desk.take() else { return };
        desk.metrics.disconnected();
        let carried = Carried {
            session,
            held: desk.leases(),
            unconfirmed: desk.unconfirmed(),
            calls: desk.calls.all(),
        };
        if let Leaving::HandedOver(reply) = leaving {
            // Whoever takes over may have gone meanwhile; then the session waits for the next.
            let _ = reply.send(carried);
            return;
        }
        tracing::info!(tenant = %desk.tenant, worker = %desk.worker, reason, "worker disconnected");
        let parting = Parting {
            tenant: &desk.tenant,
            instance_id: &desk.instance_id,
            connection: desk.connection,
            carried,
        };
        let parked = self.app.sessions.park(parting, self.app.clock.now());
        if let (Err(carried), Some(mailbox)) = (parked, self.mailbox) {
            hand_over(*carried, mailbox).await;
        }
    }

    /// Finishes what delivered frames have begun: they are not delivered again.
    pub(super) async fn settle(&mut self) {
        while let Some(done) = self.begun.next().await {
            self.take_done(done);
        }
    }
}

/// The worker is back before its session was put down: whoever has it now asks for it.
async fn hand_over(carried: Carried, mut mailbox: mpsc::Receiver<Notice>) {
    while let Some(notice) = mailbox.recv().await {
        if let Notice::HandOver(reply) = notice {
            // One who does not wait any more goes on without.
            let _ = reply.send(carried);
            return;
        }
    }
}
