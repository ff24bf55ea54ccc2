//! What every worker does, whichever transport it has.
//!
//! Reading order: [`executor`] is what a worker can do; [`feedback`] is what work says before its
//! end, [`next`] how a middleware calls what it is wrapped around; [`verdict`] is what servers say
//! about reports; `in_flight` is what runs and what ran, `drain` how a worker
//! leaves and [`handle`] how it is told to; [`identity`] and [`capabilities`] say who a
//! worker is and what it offers, `load` how busy its machine is and
//! `clock` what time it has.

pub mod capabilities;
pub(crate) mod clock;
pub(crate) mod drain;
pub mod executor;
pub mod feedback;
pub mod handle;
pub mod identity;
pub(crate) mod in_flight;
pub(crate) mod load;
pub mod next;
pub mod verdict;
