//! Requests that wait for a task, by what they offer.

use model::TypeName;

use super::{DemandEntry, OfferIdx, Placement, SpecIdx};
use crate::command::{LeaseRequest, Ticket};

/// A request that waits for a task.
#[derive(Clone, Debug)]
pub(crate) struct WaitingRequest {
    pub(crate) request: LeaseRequest,
    pub(crate) offer: OfferIdx,
    rank: RequestRank,
}

/// Which waiting request goes first: fewest leases in flight, then the one that waits longest.
pub(super) type RequestRank = (u64, Ticket);

impl Placement {
    pub(crate) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// A request that is not eligible waits too, but is given nothing.
    pub(crate) fn add_waiting(
        &mut self,
        ticket: Ticket,
        request: LeaseRequest,
        in_flight: u64,
        is_drained: bool,
    ) {
        let offer = self.add_offer_user(&request.offer);
        let rank = (in_flight, ticket);
        if !is_drained {
            self.show(offer, rank, false);
        }
        if request.is_limited() && self.ready_len > 0 {
            self.held_back.insert(ticket);
        }
        let before = self.waiting.insert(ticket, WaitingRequest { request, offer, rank });
        assert!(before.is_none(), "a ticket is used once");
    }

    fn show(&mut self, offer: OfferIdx, rank: RequestRank, is_back: bool) {
        let entry = &mut self.offers[offer.0 as usize];
        entry.requests.insert(rank);
        for demand in &entry.demands {
            self.demands[demand.0 as usize].requests.insert(rank);
        }
        // A new request has been offered what is ready; one that comes back has not.
        if is_back {
            self.offer_again(offer);
        }
    }

    /// What is ready and covered by this offer finds the requests that wait with it.
    fn offer_again(&mut self, offer: OfferIdx) {
        for demand in &self.offers[offer.0 as usize].demands {
            let entry = &self.demands[demand.0 as usize];
            if !entry.ready.is_empty() && !entry.is_paused {
                self.unserved.insert(*demand);
            }
        }
    }

    /// Whether a worker that may take more could have been held back by its own limits.
    pub(crate) fn has_held_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// A worker may take more: its requests that were held back are looked at again. Gives whether
    /// there are any.
    pub(crate) fn look_again(&mut self, tickets: impl Iterator<Item = Ticket>) -> bool {
        let mut has_some = false;
        for ticket in tickets {
            if self.held_back.remove(&ticket) {
                self.offer_again(self.waiting[&ticket].offer);
                has_some = true;
            }
        }
        has_some
    }

    fn hide(&mut self, offer: OfferIdx, rank: RequestRank) {
        let entry = &mut self.offers[offer.0 as usize];
        entry.requests.remove(&rank);
        for demand in &entry.demands {
            self.demands[demand.0 as usize].requests.remove(&rank);
        }
    }

    /// Hides waiting requests from all tasks, or shows them again.
    pub(crate) fn set_drained(&mut self, tickets: impl Iterator<Item = Ticket>, is_drained: bool) {
        for ticket in tickets {
            let WaitingRequest { offer, rank, .. } = self.waiting[&ticket];
            if is_drained { self.hide(offer, rank) } else { self.show(offer, rank, true) }
        }
    }

    /// Whether tasks can be found for a waiting request; for tests.
    pub(crate) fn is_shown(&self, ticket: Ticket) -> bool {
        let WaitingRequest { offer, rank, .. } = &self.waiting[&ticket];
        self.offers[offer.0 as usize].requests.contains(rank)
    }

    /// The waiting requests whose offer covers what such a task demands, best first.
    pub(crate) fn askers(&self, spec: SpecIdx) -> impl Iterator<Item = Ticket> {
        let demand = self.specs[spec.0 as usize].demand;
        self.demands[demand.0 as usize].requests.iter().map(|(_, ticket)| *ticket)
    }

    pub(crate) fn waiting(&self, ticket: Ticket) -> &WaitingRequest {
        &self.waiting[&ticket]
    }

    pub(crate) fn remove_waiting(&mut self, ticket: Ticket) -> Option<WaitingRequest> {
        let waiting = self.waiting.remove(&ticket)?;
        self.held_back.remove(&ticket);
        self.hide(waiting.offer, waiting.rank);
        self.remove_offer_user(waiting.offer);
        Some(waiting)
    }

    /// A request that a ready task has been found for, if there is one. `has_room` is asked about
    /// requests with limits of their own.
    pub(crate) fn next_to_serve(
        &mut self,
        has_room: impl Fn(&Self, &LeaseRequest, &TypeName) -> bool,
    ) -> Option<Ticket> {
        while let Some(demand) = self.unserved.first().copied() {
            let DemandEntry { demand: wanted, ready, requests, is_paused, .. } =
                &self.demands[demand.0 as usize];
            let takes = |ticket: &Ticket| {
                let request = &self.waiting[ticket].request;
                !request.is_limited() || has_room(self, request, &wanted.task_type)
            };
            let mut full = Vec::new();
            let mut tickets = requests.iter().map(|(_, ticket)| *ticket);
            let found = tickets.find(|ticket| {
                let takes = takes(ticket);
                full.extend((!takes).then_some(*ticket));
                takes
            });
            let is_open = !ready.is_empty() && !is_paused;
            self.held_back.extend(full);
            match found {
                Some(ticket) if is_open => return Some(ticket),
                Some(_) | None => self.unserved.remove(&demand),
            };
        }
        None
    }
}
