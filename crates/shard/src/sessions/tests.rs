//! The table of sessions: each rule alone, then every order of claims, ends and deadlines.

use std::sync::Arc;

use coordinator::Refusal;
use model::{LeaseId, ShardId, TaskId};
use serde_json::value::RawValue;

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);
const HOUR: Duration = Duration::from_hours(1);

#[test]
fn what_a_connection_parks_is_what_the_next_one_gets() {
    let mut table = SessionTable::default();
    assert_eq!(table.claim(NOW, LinkId(1), &claim("a")), Ok(()));
    assert_eq!(granted(&mut table), [(LinkId(1), 0)]);
    table.park(NOW, LinkId(1), carried(7));
    assert_eq!(table.claim(NOW, LinkId(2), &claim("a")), Ok(()));
    assert_eq!(granted(&mut table), [(LinkId(2), 7)]);
    table.park(NOW, LinkId(2), carried(8));
    let late = NOW.after(PARKED_FOR);
    assert_eq!(table.claim(late, LinkId(3), &claim("a")), Ok(()));
    assert_eq!(granted(&mut table), [(LinkId(3), 0)], "windows are kept for so long");
}

#[test]
fn a_new_connection_waits_for_the_hand_over_and_no_longer_than_that() {
    let mut table = here("a", 1);
    assert_eq!(table.claim(NOW, LinkId(2), &resume("a")), Ok(()));
    assert_eq!(told(&mut table), ["hand over 1"]);
    table.park(NOW, LinkId(1), carried(7));
    assert_eq!(granted(&mut table), [(LinkId(2), 7)]);
    assert_eq!(table.claim(NOW, LinkId(3), &resume("a")), Ok(()));
    assert_eq!(table.next_deadline(), Some(NOW.after(HANDOVER_WITHIN)));
    told(&mut table);
    table.tick(NOW.after(HANDOVER_WITHIN));
    assert_eq!(granted(&mut table), [(LinkId(3), 0)], "without windows");
    table.park(NOW, LinkId(2), carried(9));
    table.check_invariants();
    assert!(table.view(&name("a")).expect("known").is_connected, "too late to matter");
}

#[test]
fn a_handshake_that_is_cut_off_leaves_nobody_behind() {
    let mut table = SessionTable::default();
    let bound = |instance_id: &str| SessionClaim { bound: Some(name("w")), ..claim(instance_id) };
    for link in 1..20 {
        // Retries are no takeovers: the connection before is gone.
        assert_eq!(table.claim(NOW, LinkId(link), &bound("a")), Ok(()), "attempt {link}");
        table.on_link_gone(NOW, LinkId(link));
    }
    assert_eq!(table.credential_of("a"), None);
    assert_eq!(table.claim(NOW, LinkId(50), &bound("b")), Ok(()), "the bound name is free");
    table.check_invariants();
}

#[test]
fn a_session_whose_new_connection_has_gone_waits_for_the_next_one() {
    let mut table = here("a", 1);
    assert_eq!(table.claim(NOW, LinkId(2), &resume("a")), Ok(()));
    table.on_link_gone(NOW, LinkId(2));
    table.park(NOW, LinkId(1), carried(7));
    table.check_invariants();
    told(&mut table);
    assert_eq!(table.claim(NOW, LinkId(3), &resume("a")), Ok(()));
    assert_eq!(granted(&mut table), [(LinkId(3), 7)]);
}

#[test]
fn a_worker_that_is_cut_off_while_it_waits_does_not_count_as_a_takeover() {
    let mut table = here("a", 1);
    for link in 2..20 {
        assert_eq!(table.claim(NOW, LinkId(link), &claim("a")), Ok(()), "attempt {link}");
        table.on_link_gone(NOW, LinkId(link));
    }
    // The first one counted, for it was asked to hand over; and so do two more.
    for link in 20..23 {
        assert_eq!(table.claim(NOW, LinkId(link), &claim("a")), Ok(()), "takeover {link}");
    }
    let refused = table.claim(NOW, LinkId(23), &claim("a"));
    assert_eq!(refused, Err(ClaimError::TooManyTakeovers));
    let later = NOW.after(TAKEOVERS_WITHIN);
    assert_eq!(table.claim(later, LinkId(24), &claim("a")), Ok(()));
}

#[test]
fn a_session_goes_on_only_under_its_own_name() {
    let mut table = here("a", 1);
    table.park(NOW, LinkId(1), carried(7));
    let other = SessionClaim { resumes: Some("s-b".to_owned()), ..claim("a") };
    assert_eq!(table.claim(NOW, LinkId(2), &other), Err(ClaimError::UnknownSession));
    assert_eq!(table.claim(NOW, LinkId(2), &resume("b")), Err(ClaimError::UnknownSession));
    assert_eq!(table.claim(NOW, LinkId(2), &resume("a")), Ok(()));
    assert_eq!(granted(&mut table), [(LinkId(2), 7)]);
}

#[test]
fn a_worker_that_is_here_gives_way_to_its_own_credential_and_to_others_when_that_is_revoked() {
    let mut table = SessionTable::default();
    assert_eq!(table.claim(NOW, LinkId(1), &claim("a")), Ok(()));
    let record = SessionRecord { token_id: Some("own".to_owned()), ..record("a", NOW) };
    assert!(table.open(LinkId(1), record));
    let with = |token: Option<&str>, revoked: Option<&str>| SessionClaim {
        token_id: token.map(ToOwned::to_owned),
        revoked: revoked.map(ToOwned::to_owned),
        ..claim("a")
    };
    let taken = Err(ClaimError::OtherCredential("own".to_owned()));
    assert_eq!(table.claim(NOW, LinkId(2), &with(Some("other"), None)), taken);
    assert_eq!(table.claim(NOW, LinkId(2), &with(None, Some("another"))), taken);
    assert_eq!(table.claim(NOW, LinkId(2), &with(Some("other"), Some("own"))), Ok(()));
    table.park(NOW, LinkId(1), Carried::default());
    assert_eq!(table.claim(NOW, LinkId(3), &with(Some("own"), None)), Ok(()));
    table.on_link_gone(NOW, LinkId(2));
    table.on_link_gone(NOW, LinkId(3));
    assert_eq!(table.claim(NOW, LinkId(4), &with(Some("other"), None)), Ok(()), "nobody is here");
}

#[test]
fn what_was_granted_to_a_connection_that_gave_up_waits_for_the_next() {
    let mut table = here("a", 1);
    table.park(NOW, LinkId(1), carried(7));
    assert_eq!(table.claim(NOW, LinkId(2), &resume("a")), Ok(()));
    let Some(SessionEffect::Claimed { claimed, .. }) = table.poll_effect() else {
        panic!("it is granted")
    };
    // It is gone before it hears of it.
    table.on_link_gone(NOW, LinkId(2));
    table.put_back(NOW, LinkId(2), *claimed);
    assert_eq!(table.claim(NOW, LinkId(3), &resume("a")), Ok(()));
    assert_eq!(granted(&mut table), [(LinkId(3), 7)]);
}

#[test]
fn beyond_the_limit_the_least_recently_seen_worker_is_forgotten() {
    let mut table = SessionTable::with_limit(3);
    for (number, instance_id) in ["a", "b", "c"].into_iter().enumerate() {
        let link = LinkId(number as u64);
        open(&mut table, NOW, link, instance_id);
        let at = NOW.after(Duration::from_secs(10 - number as u64));
        if instance_id != "a" {
            table.park(at, link, Carried::default());
        }
    }
    told(&mut table);
    let later = NOW.after(Duration::from_secs(20));
    assert_eq!(table.claim(later, LinkId(10), &claim("d")), Ok(()));
    table.check_invariants();
    assert_eq!(told(&mut table), ["forget c", "claimed 10"], "c was seen before b; a is here");
    assert_eq!(table.counts(), SessionCounts { known: 3, evicted: 1 });
    assert_eq!(table.claim(later, LinkId(11), &claim("e")), Ok(()), "b goes");
    assert_eq!(table.claim(later, LinkId(12), &claim("f")), Err(ClaimError::TableFull));
    assert!(table.view(&name("a")).expect("known").is_connected, "whoever is here stays");
    table.check_invariants();
}

#[test]
fn a_worker_that_stays_away_is_forgotten_with_its_row_and_its_name() {
    let mut table = SessionTable::default();
    open(&mut table, NOW, LinkId(1), "a");
    table.park(NOW, LinkId(1), Carried::default());
    told(&mut table);
    table.tick(NOW.after(SESSION_KEPT_FOR.saturating_sub(Duration::from_secs(1))));
    assert_eq!(table.counts(), SessionCounts { known: 1, evicted: 0 });
    table.tick(NOW.after(SESSION_KEPT_FOR));
    assert_eq!(told(&mut table), ["forget a"]);
    assert_eq!(table.counts(), SessionCounts { known: 0, evicted: 1 });
    assert!(table.view(&name("a")).is_none());
    table.check_invariants();
}

#[test]
fn a_resume_renews_the_record_at_most_once_an_hour() {
    let mut table = SessionTable::default();
    open(&mut table, NOW, LinkId(1), "a");
    table.park(NOW, LinkId(1), Carried::default());
    told(&mut table);
    let resume_at = |table: &mut SessionTable, at: Timestamp, link: u64| {
        assert_eq!(table.claim(at, LinkId(link), &resume("a")), Ok(()));
        assert!(table.renew(at, LinkId(link)));
        table.park(at, LinkId(link), Carried::default());
        told(table).iter().filter(|effect| effect.starts_with("keep")).count()
    };
    let storm = NOW.after(HOUR.saturating_sub(Duration::from_secs(1)));
    let n_written: usize = (2..1_000).map(|link| resume_at(&mut table, storm, link)).sum();
    assert_eq!(n_written, 0, "a storm of resumes writes nothing");
    let later = NOW.after(HOUR);
    let n_written: usize = (1_000..2_000).map(|link| resume_at(&mut table, later, link)).sum();
    assert_eq!(n_written, 1);
    let record = table.record("a", "s-a").expect("known").clone();
    assert_eq!((record.accepted_at, record.renewed_at), (ms(NOW), Some(ms(later))));
}

#[test]
fn a_session_that_was_renewed_is_known_after_a_restart_as_long_as_its_token_is_good() {
    let restored = |renewed_at: Option<Timestamp>, now: Timestamp| {
        let mut table = SessionTable::default();
        let renewed_at = renewed_at.map(ms);
        table.restore(now, SessionRecord { renewed_at, ..record("a", NOW) });
        table.check_invariants();
        (table.counts().known, told(&mut table))
    };
    let a_day_later = NOW.after(TOKEN_LIFETIME + HOUR);
    assert_eq!(restored(None, a_day_later), (0, vec!["forget a".to_owned()]));
    assert_eq!(restored(Some(NOW.after(HOUR)), a_day_later), (1, Vec::new()));
    // A token that was issued just before the next renewal would have been written.
    let token_end = NOW.after((TOKEN_LIFETIME + HOUR).saturating_sub(Duration::from_millis(1)));
    assert_eq!(restored(None, token_end).0, 1);
    let json = serde_json::to_string(&record("a", NOW)).expect("JSON");
    assert!(!json.contains("renewed_at"), "an older server reads what it always read: {json}");
    assert!(serde_json::from_str::<SessionRecord>(&json).is_ok(), "and so do we");
}

// ----- workers without a session

#[test]
fn a_name_belongs_to_the_credential_that_registered_it_while_its_worker_lives() {
    let mut table = SessionTable::default();
    assert_eq!(table.on_member(NOW, &name("w"), register("ada")), Ok(()));
    assert_eq!(told(&mut table), ["keep member w"]);
    let alive = NOW.after(DEAD_AFTER.saturating_sub(Duration::from_millis(1)));
    for message in [register("bob"), greet("bob"), leave("bob")] {
        assert_eq!(table.on_member(alive, &name("w"), message), Err(Refusal::WorkerNameTaken));
    }
    assert_eq!(told(&mut table), [""; 0], "a refusal writes nothing");
    assert_eq!(
        table.on_member(alive, &name("w"), register("ada")),
        Ok(()),
        "it takes over at once"
    );
    table.hear(alive.after(DEAD_AFTER / 2), &name("w"));
    let still = alive.after(DEAD_AFTER);
    assert_eq!(table.on_member(still, &name("w"), register("bob")), Err(Refusal::WorkerNameTaken));
    let dead = alive.after(DEAD_AFTER / 2 + DEAD_AFTER);
    assert_eq!(table.on_member(dead, &name("w"), register("bob")), Ok(()), "nobody lives there");
    assert_eq!(told(&mut table), ["keep member w", "keep member w"]);
    assert_eq!(table.on_member(dead, &name("w"), leave("bob")), Ok(()));
    assert_eq!(told(&mut table), ["forget registered w"]);
    assert_eq!(table.on_member(dead, &name("w"), register("ada")), Ok(()), "it has left");
    table.check_invariants();
}

#[test]
fn after_a_restart_a_registered_worker_is_dead_until_it_is_heard_of() {
    let restored = || {
        let mut table = SessionTable::default();
        table.restore_member(NOW, name("w"), registration("ada"));
        assert_eq!(told(&mut table), [""; 0]);
        table
    };
    assert_eq!(restored().on_member(NOW, &name("w"), register("bob")), Ok(()));
    let mut table = restored();
    table.hear(NOW, &name("w"));
    assert_eq!(table.on_member(NOW, &name("w"), register("bob")), Err(Refusal::WorkerNameTaken));
    let registered: Vec<_> = table.registrations().map(|(worker, _)| worker.as_str()).collect();
    assert_eq!(registered, ["w"]);
}

#[test]
fn a_name_that_was_only_used_belongs_to_nobody() {
    let mut table = SessionTable::default();
    assert_eq!(table.on_member(NOW, &name("w"), greet("ada")), Ok(()));
    assert_eq!(table.on_member(NOW, &name("w"), MemberMessage::Appear), Ok(()));
    assert_eq!(told(&mut table), [""; 0], "nothing is durable of it");
    assert_eq!(table.on_member(NOW, &name("w"), register("bob")), Ok(()));
    assert_eq!(table.on_member(NOW, &name("w"), greet("bob")), Ok(()), "it stays registered");
    assert_eq!(table.registrations().count(), 1);
    assert_eq!(table.member_counts(), SessionCounts { known: 1, evicted: 0 });
}

#[test]
fn both_kinds_of_workers_share_their_names() {
    let with = |instance_id: &str, token: &str| SessionClaim {
        given_name: "w".to_owned(),
        token_id: Some(token.to_owned()),
        ..claim(instance_id)
    };
    let bound = |instance_id: &str, token: &str| SessionClaim {
        bound: Some(name("w")),
        ..with(instance_id, token)
    };
    let mut table = SessionTable::default();
    assert_eq!(table.on_member(NOW, &name("w"), register("ada")), Ok(()));
    let taken = Err(ClaimError::NameTaken(name("w")));
    assert_eq!(table.claim(NOW, LinkId(1), &bound("a", "bob")), taken);
    assert_eq!(table.claim(NOW, LinkId(2), &with("b", "ada")), Ok(()));
    assert!(table.view(&name("w-b")).is_some(), "another process gets a name beside it");
    assert_eq!(table.claim(NOW, LinkId(1), &bound("a", "ada")), Ok(()), "its own credential");

    // A session under the name keeps others away from it as well, and its own credential not.
    let mut table = SessionTable::default();
    assert_eq!(table.claim(NOW, LinkId(1), &with("a", "ada")), Ok(()));
    let own = SessionRecord {
        worker: "w".to_owned(),
        token_id: Some("ada".to_owned()),
        ..record("a", NOW)
    };
    assert!(table.open(LinkId(1), own));
    for message in [register("bob"), greet("bob")] {
        assert_eq!(table.on_member(NOW, &name("w"), message), Err(Refusal::WorkerNameTaken));
    }
    assert_eq!(table.on_member(NOW, &name("w"), greet("ada")), Ok(()));
    table.park(NOW, LinkId(1), Carried::default());
    assert_eq!(table.on_member(NOW, &name("w"), register("bob")), Err(Refusal::WorkerNameTaken));
    told(&mut table);
    let left = NOW.after(NAME_KEPT_FOR);
    assert_eq!(table.on_member(left, &name("w"), register("bob")), Ok(()));
    assert_eq!(
        told(&mut table),
        ["forget a", "keep member w"],
        "it cannot come back under the name"
    );
    table.check_invariants();
}

#[test]
fn a_name_that_is_given_anew_is_its_former_instance_s_no_more() {
    let mut table = here("w", 1);
    table.park(NOW, LinkId(1), carried(7));
    let later = NOW.after(NAME_KEPT_FOR);
    let other = SessionClaim { given_name: "w".to_owned(), ..claim("b") };
    assert_eq!(table.claim(later, LinkId(2), &other), Ok(()));
    let is_successor = std::iter::from_fn(|| table.poll_effect()).any(
        |effect| matches!(effect, SessionEffect::Claimed { claimed, .. } if claimed.is_successor),
    );
    assert!(is_successor, "what the former one held is not its own");
    assert_eq!(table.claim(later, LinkId(3), &resume("w")), Err(ClaimError::UnknownSession));
    table.check_invariants();
}

#[test]
fn names_without_end_are_bounded_and_whoever_registered_and_lives_stays() {
    let mut table = SessionTable::with_limit(100);
    assert_eq!(table.on_member(NOW, &name("w"), register("ada")), Ok(()));
    open(&mut table, NOW, LinkId(1), "here");
    for number in 1..=5_000_u64 {
        let at = NOW.after(Duration::from_millis(number));
        let worker = name(&format!("w{number}"));
        assert_eq!(table.on_member(at, &worker, MemberMessage::Appear), Ok(()));
        table.check_invariants();
    }
    assert_eq!(table.member_counts(), SessionCounts { known: 99, evicted: 4_902 });
    assert_eq!(table.counts(), SessionCounts { known: 1, evicted: 0 });
    assert_eq!(table.registrations().count(), 1);
    let told = told(&mut table);
    assert!(told.iter().all(|effect| !effect.contains("registered")), "it lives");
    assert!(told.contains(&"forget named w4902".to_owned()), "the longest silent go first");
}

#[test]
fn the_least_recently_seen_makes_room_at_whichever_door_it_was() {
    let second = |n: u64| NOW.after(Duration::from_secs(n));
    let mut table = SessionTable::with_limit(3);
    assert_eq!(table.on_member(second(0), &name("w1"), register("ada")), Ok(()));
    open(&mut table, second(1), LinkId(1), "a");
    table.park(second(1), LinkId(1), Carried::default());
    assert_eq!(table.on_member(second(2), &name("w2"), register("ada")), Ok(()));
    table.hear(second(3), &name("w1"));
    told(&mut table);
    let late = |n: u64| second(3).after(DEAD_AFTER + Duration::from_secs(n));
    assert_eq!(table.on_member(late(0), &name("w3"), register("ada")), Ok(()));
    assert_eq!(told(&mut table), ["forget a", "keep member w3"]);
    assert_eq!(table.claim(late(1), LinkId(2), &claim("b")), Ok(()));
    assert_eq!(told(&mut table), ["forget registered w2", "claimed 2"], "its row goes as well");
    assert_eq!(table.on_member(late(2), &name("w4"), register("ada")), Ok(()));
    assert_eq!(told(&mut table), ["forget registered w1", "keep member w4"]);
    let full = table.on_member(late(3), &name("w5"), register("ada"));
    assert_eq!(full, Err(Refusal::WorkersFull), "everyone lives");
    assert_eq!(table.member_counts(), SessionCounts { known: 2, evicted: 2 });
    table.check_invariants();
}

#[test]
fn a_worker_that_is_not_heard_of_for_long_is_forgotten_with_its_row() {
    let mut table = SessionTable::default();
    assert_eq!(table.on_member(NOW, &name("w1"), register("ada")), Ok(()));
    assert_eq!(table.on_member(NOW, &name("w2"), register("ada")), Ok(()));
    assert_eq!(table.on_member(NOW, &name("w3"), greet("ada")), Ok(()));
    table.hear(NOW.after(HOUR), &name("w2"));
    told(&mut table);
    table.tick(NOW.after(MEMBER_KEPT_FOR.saturating_sub(Duration::from_millis(1))));
    assert_eq!(told(&mut table), [""; 0]);
    table.tick(NOW.after(MEMBER_KEPT_FOR));
    assert_eq!(told(&mut table), ["forget registered w1", "forget named w3"]);
    assert_eq!(table.member_counts(), SessionCounts { known: 1, evicted: 2 });
    table.tick(NOW.after(MEMBER_KEPT_FOR + HOUR));
    assert_eq!(told(&mut table), ["forget registered w2"]);
    table.check_invariants();
}

/// Three connections of one worker claim, park and break in every order, hand-overs time out
/// anywhere: there is one speaker, and what it parked is neither lost nor given twice.
#[test]
fn every_order_of_claims_and_ends_has_one_speaker_and_loses_nothing() {
    let depth = 5;
    let n_orders = Race::CHOICES.pow(depth);
    for order in 0..n_orders {
        let mut race = Race::new();
        let mut left = order;
        for _ in 0..depth {
            race.step(left % Race::CHOICES);
            left /= Race::CHOICES;
        }
        race.finish();
    }
}

#[test]
fn long_random_orders_have_one_speaker_and_lose_nothing() {
    let mut n_handed_over = 0;
    for seed in 0..5_000_u64 {
        let (mut race, mut random) = (Race::new(), seed);
        for _ in 0..60 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
            race.step(u32::try_from(random >> 33).expect("31 bits") % Race::CHOICES);
        }
        race.finish();
        n_handed_over += race.n_handed_over;
    }
    assert!(n_handed_over > 10_000, "{n_handed_over} hand-overs");
}

/// What the connections of one worker know of each other.
#[derive(Default)]
struct Race {
    table: SessionTable,
    now: Duration,
    speaker: Option<LinkId>,
    /// Connections that were told to hand over and have not yet, with the moment.
    leaving: BTreeMap<LinkId, Duration>,
    /// What the next connection must get; 0 where nothing is parked.
    parked: u32,
    next_parcel: u32,
    n_handed_over: u32,
}

impl Race {
    const LINKS: u32 = 3;
    const CHOICES: u32 = 3 * Self::LINKS + 1;

    /// A worker that was here once, and has a session to go on with.
    fn new() -> Self {
        let mut race = Self { table: here("a", 99), ..Self::default() };
        race.table.on_link_gone(NOW, LinkId(99));
        told(&mut race.table);
        race
    }

    fn step(&mut self, choice: u32) {
        let link = LinkId(u64::from(choice % Self::LINKS));
        match choice / Self::LINKS {
            0 => {
                let claimed = self.table.claim(self.at(), link, &resume("a"));
                assert_eq!(claimed, Ok(()), "a proven session is never held off");
            }
            1 => {
                self.next_parcel += 1;
                self.part(link, self.next_parcel);
            }
            2 => self.part(link, 0),
            _ => {
                self.now += HANDOVER_WITHIN / 2 + Duration::from_millis(1);
                self.table.tick(self.at());
            }
        }
        self.settle();
    }

    fn at(&self) -> Timestamp {
        NOW.after(self.now)
    }

    /// A connection parks what it carries, or breaks with nothing.
    fn part(&mut self, link: LinkId, parcel: u32) {
        let was_asked = self.leaving.remove(&link);
        let is_in_time = was_asked.is_some_and(|asked| self.now < asked + HANDOVER_WITHIN);
        if self.speaker == Some(link) || is_in_time {
            self.parked = parcel;
            self.n_handed_over += u32::from(was_asked.is_some());
        }
        if self.speaker == Some(link) {
            self.speaker = None;
        }
        if parcel == 0 {
            self.table.on_link_gone(self.at(), link);
        } else {
            self.table.park(self.at(), link, carried(parcel));
        }
    }

    fn settle(&mut self) {
        while let Some(effect) = self.table.poll_effect() {
            match effect {
                SessionEffect::HandOver { link } => {
                    if self.speaker == Some(link) {
                        self.leaving.insert(link, self.now);
                        self.speaker = None;
                    }
                }
                SessionEffect::Claimed { link, claimed } => {
                    // The former connection may begin anew before it has handed anything over.
                    let is_own = self.speaker == Some(link) || self.leaving.remove(&link).is_some();
                    let is_alone = self.speaker.is_none_or(|speaker| speaker == link);
                    assert!(is_alone, "{link:?} and {:?}", self.speaker);
                    let in_time = |asked: &Duration| self.now < *asked + HANDOVER_WITHIN;
                    assert!(!self.leaving.values().any(in_time), "somebody still hands over");
                    let parcel = parcel(&claimed.carried);
                    let expected = if is_own { 0 } else { self.parked };
                    assert_eq!(parcel, expected, "nothing is lost, nothing is given twice");
                    (self.speaker, self.parked) = (Some(link), 0);
                }
                effect => panic!("no row is written: {effect:?}"),
            }
        }
        let now = self.now;
        self.leaving.retain(|_, asked| now < *asked + HANDOVER_WITHIN);
        self.table.check_invariants();
    }

    /// When all connections are gone, the next one gets what is there, at once.
    fn finish(&mut self) {
        for link in 0..u64::from(Self::LINKS) {
            if self.speaker == Some(LinkId(link)) || self.leaving.contains_key(&LinkId(link)) {
                self.next_parcel += 1;
                self.part(LinkId(link), self.next_parcel);
            } else {
                self.table.on_link_gone(self.at(), LinkId(link));
            }
            self.settle();
        }
        let expected = std::mem::take(&mut self.parked);
        assert_eq!(self.table.claim(self.at(), LinkId(9), &claim("a")), Ok(()));
        assert_eq!(granted(&mut self.table), [(LinkId(9), expected)]);
    }
}

fn here(instance_id: &str, link: u64) -> SessionTable {
    let mut table = SessionTable::default();
    open(&mut table, NOW, LinkId(link), instance_id);
    told(&mut table);
    table
}

fn open(table: &mut SessionTable, now: Timestamp, link: LinkId, instance_id: &str) {
    assert_eq!(table.claim(now, link, &claim(instance_id)), Ok(()));
    assert!(table.open(link, record(instance_id, now)));
}

fn claim(instance_id: &str) -> SessionClaim {
    let (instance_id, given_name) = (instance_id.to_owned(), instance_id.to_owned());
    SessionClaim {
        instance_id,
        given_name,
        bound: None,
        resumes: None,
        token_id: None,
        revoked: None,
    }
}

fn resume(instance_id: &str) -> SessionClaim {
    SessionClaim { resumes: Some(format!("s-{instance_id}")), ..claim(instance_id) }
}

fn record(instance_id: &str, at: Timestamp) -> SessionRecord {
    SessionRecord {
        session_id: format!("s-{instance_id}"),
        instance_id: instance_id.to_owned(),
        boot_id: None,
        worker: instance_id.to_owned(),
        given_name: instance_id.to_owned(),
        hostname: String::new(),
        version: String::new(),
        token_id: None,
        accepted_at: ms(at),
        renewed_at: None,
        slots: 1,
        register: RawValue::from_string("{}".to_owned()).expect("JSON"),
    }
}

fn registration(credential: &str) -> Registration {
    let metadata = RawValue::from_string("{}".to_owned()).expect("JSON");
    Registration { credential: credential.to_owned(), metadata, registered_ms: 1 }
}

fn register(credential: &str) -> MemberMessage {
    MemberMessage::Register(Arc::new(registration(credential)))
}

fn greet(credential: &str) -> MemberMessage {
    MemberMessage::Greet { credential: credential.to_owned() }
}

fn leave(credential: &str) -> MemberMessage {
    MemberMessage::Leave { credential: credential.to_owned() }
}

fn ms(at: Timestamp) -> u64 {
    at.as_millis()
}

fn name(worker: &str) -> WorkerId {
    worker.parse().expect("a name")
}

/// Something to carry that can be told apart: a lease of this epoch.
fn carried(parcel: u32) -> Carried {
    let task = TaskId::of(ShardId::new(1).expect("fits"), 1);
    let held = [(task, LeaseId { task, epoch: parcel })].into();
    Carried { held, ..Carried::default() }
}

fn parcel(carried: &Carried) -> u32 {
    carried.held.values().next().map_or(0, |lease| lease.epoch)
}

fn granted(table: &mut SessionTable) -> Vec<(LinkId, u32)> {
    let effects = std::iter::from_fn(|| table.poll_effect());
    let granted = effects.filter_map(|effect| match effect {
        SessionEffect::Claimed { link, claimed } => Some((link, parcel(&claimed.carried))),
        _ => None,
    });
    granted.collect()
}

fn told(table: &mut SessionTable) -> Vec<String> {
    let effects = std::iter::from_fn(|| table.poll_effect());
    let told = effects.map(|effect| match effect {
        SessionEffect::Claimed { link, .. } => format!("claimed {}", link.0),
        SessionEffect::HandOver { link } => format!("hand over {}", link.0),
        SessionEffect::Keep(record) => format!("keep {}", record.instance_id),
        SessionEffect::Forget { instance_id } => format!("forget {instance_id}"),
        SessionEffect::KeepMember { worker, .. } => format!("keep member {worker}"),
        SessionEffect::ForgetMember { worker, was_registered: true } => {
            format!("forget registered {worker}")
        }
        SessionEffect::ForgetMember { worker, was_registered: false } => {
            format!("forget named {worker}")
        }
    });
    told.collect()
}
