use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    disk_bytes_max: 1000,
    ttl: Duration::from_millis(100),
    gc_every: Duration::from_secs(1),
};

/// What can be done to the resources; time passes before each.
#[derive(Clone, Debug)]
enum Deed {
    Add { id: u8, scope: u8, bytes: u64 },
    Lease(u8),
    Release(u8),
    ReleaseScope(u8),
    Gc,
}

/// The same rules, said as plainly as possible.
#[derive(Debug, Default)]
struct Plain(Vec<Item>);

#[derive(Clone, Debug)]
struct Item {
    id: String,
    scope: String,
    bytes: u64,
    used_at: u64,
    expires_at: u64,
    users: u32,
    doomed: bool,
}

impl Plain {
    fn total(&self) -> u64 {
        self.0.iter().map(|item| item.bytes).sum()
    }

    fn find(&mut self, id: &str) -> Option<&mut Item> {
        self.0.iter_mut().find(|item| item.id == id)
    }

    fn drop_oldest(&mut self) -> bool {
        let idle = self.0.iter().filter(|item| item.users == 0);
        let oldest = idle.min_by_key(|item| (item.used_at, item.id.clone())).map(|i| i.id.clone());
        oldest.map(|id| self.0.retain(|item| item.id != id)).is_some()
    }

    fn act(&mut self, now: u64, deed: &Deed) -> bool {
        let ttl = 100;
        match deed {
            Deed::Add { id, scope, bytes } => {
                let id = id.to_string();
                let busy = self.0.iter().filter(|item| item.users > 0);
                let busy: u64 = busy.map(|item| item.bytes).sum();
                if self.find(&id).is_some() || busy + bytes > LIMITS.disk_bytes_max {
                    return false;
                }
                while self.total() + bytes > LIMITS.disk_bytes_max {
                    assert!(self.drop_oldest(), "what is busy fits");
                }
                let (used_at, expires_at) = (now, now + ttl);
                let (scope, bytes) = (scope.to_string(), *bytes);
                let (users, doomed) = (0, false);
                self.0.push(Item { id, scope, bytes, used_at, expires_at, users, doomed });
                true
            }
            Deed::Lease(id) => match self.find(&id.to_string()) {
                Some(item) if !item.doomed && (item.users > 0 || item.expires_at > now) => {
                    item.users += 1;
                    item.used_at = now;
                    item.expires_at = item.expires_at.max(now + ttl);
                    true
                }
                Some(_) | None => false,
            },
            Deed::Release(id) => match self.find(&id.to_string()) {
                Some(item) if item.users > 0 => {
                    item.users -= 1;
                    item.used_at = now;
                    item.expires_at = item.expires_at.max(now + ttl);
                    self.0.retain(|item| !item.doomed || item.users > 0);
                    true
                }
                Some(_) | None => false,
            },
            Deed::ReleaseScope(scope) => {
                for item in self.0.iter_mut().filter(|item| item.scope == scope.to_string()) {
                    item.doomed = true;
                }
                self.0.retain(|item| !item.doomed || item.users > 0);
                true
            }
            Deed::Gc => {
                self.0.retain(|item| item.users > 0 || item.expires_at > now);
                if self.total() > LIMITS.disk_bytes_max / 100 * 90 {
                    while self.total() > LIMITS.disk_bytes_max / 100 * 80 && self.drop_oldest() {}
                }
                true
            }
        }
    }
}

fn act(table: &mut ResourceTable, now: Timestamp, deed: &Deed) -> bool {
    match deed {
        Deed::Add { id, scope, bytes } => table.add(resource(*id, *scope, *bytes, now)).is_ok(),
        Deed::Lease(id) => table.lease(now, &id.to_string()).is_some(),
        Deed::Release(id) => {
            let is_used = table.kept.get(&id.to_string()).is_some_and(|kept| !kept.is_idle());
            table.release(now, &id.to_string());
            is_used
        }
        Deed::ReleaseScope(scope) => {
            table.release_scope(&scope.to_string());
            true
        }
        Deed::Gc => {
            table.gc(now);
            true
        }
    }
}

fn resource(id: u8, scope: u8, bytes: u64, now: Timestamp) -> Resource {
    Resource {
        id: id.to_string(),
        resource_type: "t".into(),
        scope: Some(scope.to_string()),
        path: "f".into(),
        bytes,
        is_owned: true,
        metadata: None,
        created_at: now,
        used_at: now,
        ttl_ms: 100,
        expires_at: now.after(LIMITS.ttl),
    }
}

fn deed() -> impl Strategy<Value = Deed> {
    let id = 0..12_u8;
    prop_oneof![
        4 => (id.clone(), 0..3_u8, 0..700_u64)
            .prop_map(|(id, scope, bytes)| Deed::Add { id, scope, bytes }),
        3 => id.clone().prop_map(Deed::Lease),
        3 => id.prop_map(Deed::Release),
        1 => (0..3_u8).prop_map(Deed::ReleaseScope),
        2 => Just(Deed::Gc),
    ]
}

proptest! {
    #[test]
    fn a_shelf_does_what_the_plain_rules_say(
        deeds in proptest::collection::vec((0..80_u64, deed()), 1..60)
    ) {
        let (mut table, mut plain, mut now) = (ResourceTable::new(LIMITS), Plain::default(), 1_000);
        for (passed, deed) in deeds {
            now += passed;
            let done = act(&mut table, Timestamp::from_millis(now), &deed);
            prop_assert_eq!(done, plain.act(now, &deed), "{:?}", deed);
            let mut expected: Vec<_> = plain.0.iter().filter(|item| !item.doomed).collect();
            expected.sort_by(|a, b| a.id.cmp(&b.id));
            let expected: Vec<_> =
                expected.into_iter().map(|i| (i.id.clone(), i.expires_at)).collect();
            let there = table.list();
            let there: Vec<_> =
                there.map(|one| (one.id.clone(), one.expires_at.as_millis())).collect();
            prop_assert_eq!(there, expected, "after {:?}", deed);
            prop_assert_eq!(table.bytes(), plain.total());
            prop_assert!(table.bytes() <= LIMITS.disk_bytes_max);
        }
    }
}

#[test]
fn what_is_in_use_never_goes() {
    let now = Timestamp::from_millis(1_000);
    let mut table = ResourceTable::new(LIMITS);
    assert_eq!(table.add(resource(1, 0, 900, now)), Ok(vec![]));
    assert!(table.lease(now, "1").is_some());
    let later = now.after(Duration::from_hours(1));
    assert!(table.gc(later).is_empty(), "neither for its time nor for its room");
    let full = KeepError::Full { bytes: 200, bytes_max: 1000 };
    assert_eq!(table.add(resource(2, 0, 200, later)), Err(full));
    assert!(table.release_scope("0").is_empty() && table.list().count() == 0);
    assert!(table.lease(later, "1").is_none(), "it is to go");
    assert_eq!(table.release(later, "1").map(|one| one.id), Some("1".into()));
    assert_eq!(table.bytes(), 0);
}

#[test]
fn a_shelf_holds_so_many_and_the_oldest_makes_room() {
    let now = Timestamp::from_millis(1_000);
    let mut table = ResourceTable::new(LIMITS);
    for n in 0..RESOURCES_MAX {
        let at = now.after(Duration::from_millis(n as u64));
        let one = Resource { id: format!("r{n:05}"), ..resource(0, 0, 0, at) };
        assert_eq!(table.add(one), Ok(vec![]));
    }
    let gone = table.add(resource(1, 0, 0, now)).expect("room is made");
    assert_eq!(gone.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["r00000"]);
    assert_eq!(table.list().count(), RESOURCES_MAX);
}
