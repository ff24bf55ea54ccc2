//! The sessions of workers: who is here, who may come back, and how they are reached.
//!
//! Reading order: `record` (what is durable of a session), `keys` (what signs its token),
//! `registry` (who is here), `notice` (what a connection is told from elsewhere).

mod call;
mod keys;
mod names;
mod notice;
mod record;
mod registry;

pub(crate) use call::Call;
pub(crate) use keys::SESSION_KEYS_MAX;
pub(crate) use notice::{Carried, Notice, Revoked};
pub(crate) use record::{SessionRecord, TOKEN_LIFETIME};
pub(crate) use registry::{
    Claim, ClaimError, Claimed, HeartbeatFacts, Parting, SessionView, Sessions,
};
pub(crate) use registry::{PARKED_FOR, TAKEOVERS_MAX};
