//! The plans and actions of every tenant: in memory, and as notes in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{TenantId, Timestamp};
use parking_lot::RwLock;
use protocol::plan::Plan;
use serde::{Deserialize, Serialize};
use store::{Note, NoteKind, Store, StoreError};

/// Plans that one tenant may keep.
pub(crate) const PLANS_MAX: usize = 10_000;
/// One plan, as JSON.
pub(crate) const PLAN_BYTES_MAX: usize = 1024 * 1024;
/// Actions of one tenant that are remembered; then the oldest one is forgotten. Its jobs stay.
pub(crate) const ACTIONS_MAX: usize = 100_000;

/// A plan that is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeptPlan {
    /// The plan.
    pub(crate) plan: Plan,
    /// Milliseconds since 1970.
    pub(crate) created_ms: u64,
}

/// An action that is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptAction {
    /// The plan that its jobs execute.
    pub(crate) plan_id: String,
    /// Milliseconds since 1970.
    pub(crate) created_ms: u64,
    /// How many jobs it has.
    pub(crate) jobs: usize,
}

/// Why a plan or an action is not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    /// Another plan has the name.
    #[error("Plan already exists: {0}")]
    PlanExists(String),
    /// Another action has the name.
    #[error("Action already exists: {0}")]
    ActionExists(String),
    /// There are too many.
    #[error("{PLANS_MAX} plans are kept already; delete some")]
    PlansFull,
    /// It is too long.
    #[error("the plan has {0} bytes; at most {PLAN_BYTES_MAX} are taken")]
    PlanTooLarge(usize),
    /// There is no such plan.
    #[error("Plan not found: {0}")]
    NoPlan(String),
    /// The store could not keep it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Default)]
struct Tenant {
    plans: BTreeMap<String, Arc<KeptPlan>>,
    actions: BTreeMap<String, KeptAction>,
    /// Actions by age.
    ages: BTreeSet<(u64, String)>,
}

/// What is kept, for all tenants.
pub(crate) struct Plans {
    store: Arc<dyn Store>,
    tenants: RwLock<BTreeMap<TenantId, Tenant>>,
    /// Held by whoever changes something, so that two of one name are not both new.
    changing: tokio::sync::Mutex<()>,
}

impl Plans {
    /// Reads what was kept before.
    pub(crate) async fn load(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let mut tenants: BTreeMap<TenantId, Tenant> = BTreeMap::new();
        let damaged = |note: &Note| StoreError::Damaged(format!("note {}", note.key));
        for note in store.notes(NoteKind::Plan).await? {
            let tenant = note.tenant.parse().map_err(|_| damaged(&note))?;
            let plan = read(&note)?;
            tenants.entry(tenant).or_default().plans.insert(note.key, Arc::new(plan));
        }
        for note in store.notes(NoteKind::Action).await? {
            let tenant = note.tenant.parse().map_err(|_| damaged(&note))?;
            let action = read(&note)?;
            tenants.entry(tenant).or_default().add_action(note.key, action);
        }
        let tenants = RwLock::new(tenants);
        Ok(Self { store, tenants, changing: tokio::sync::Mutex::default() })
    }

    /// Keeps a new plan. The same plan again changes nothing: `false`.
    pub(crate) async fn add(
        &self,
        tenant: &TenantId,
        plan: Plan,
        now: Timestamp,
    ) -> Result<bool, KeepError> {
        let _changing = self.changing.lock().await;
        if let Some(kept) = self.plan(tenant, &plan.plan_id) {
            let is_same = kept.plan == plan;
            return if is_same { Ok(false) } else { Err(KeepError::PlanExists(plan.plan_id)) };
        }
        if self.with(tenant, |tenant| tenant.plans.len()) >= PLANS_MAX {
            return Err(KeepError::PlansFull);
        }
        let kept = KeptPlan { plan, created_ms: now.as_millis() };
        let json = json(&kept);
        if json.len() > PLAN_BYTES_MAX {
            return Err(KeepError::PlanTooLarge(json.len()));
        }
        let key = kept.plan.plan_id.clone();
        self.keep(NoteKind::Plan, tenant, &key, Some(json)).await?;
        let mut tenants = self.tenants.write();
        tenants.entry(tenant.clone()).or_default().plans.insert(key, Arc::new(kept));
        Ok(true)
    }

    /// Forgets a plan; jobs that were made of it keep their own copy.
    pub(crate) async fn remove(&self, tenant: &TenantId, plan_id: &str) -> Result<(), KeepError> {
        let _changing = self.changing.lock().await;
        if self.plan(tenant, plan_id).is_none() {
            return Err(KeepError::NoPlan(plan_id.to_owned()));
        }
        self.keep(NoteKind::Plan, tenant, plan_id, None).await?;
        if let Some(tenant) = self.tenants.write().get_mut(tenant) {
            tenant.plans.remove(plan_id);
        }
        Ok(())
    }

    /// Remembers an action once its jobs are made: a name is used once.
    pub(crate) async fn add_action(
        &self,
        tenant: &TenantId,
        action_id: &str,
        action: KeptAction,
    ) -> Result<(), KeepError> {
        let _changing = self.changing.lock().await;
        if self.action(tenant, action_id).is_some() {
            return Err(KeepError::ActionExists(action_id.to_owned()));
        }
        self.keep(NoteKind::Action, tenant, action_id, Some(json(&action))).await?;
        let forgotten = {
            let mut tenants = self.tenants.write();
            let tenant = tenants.entry(tenant.clone()).or_default();
            tenant.add_action(action_id.to_owned(), action);
            tenant.too_old()
        };
        if let Some(oldest) = forgotten {
            self.drop_action(tenant, &oldest).await?;
        }
        Ok(())
    }

    async fn drop_action(&self, tenant: &TenantId, action_id: &str) -> Result<(), KeepError> {
        self.keep(NoteKind::Action, tenant, action_id, None).await?;
        if let Some(tenant) = self.tenants.write().get_mut(tenant) {
            tenant.remove_action(action_id);
        }
        Ok(())
    }

    pub(crate) fn plan(&self, tenant: &TenantId, plan_id: &str) -> Option<Arc<KeptPlan>> {
        self.with(tenant, |tenant| tenant.plans.get(plan_id).cloned())
    }

    /// Every plan, by name.
    pub(crate) fn plans(&self, tenant: &TenantId) -> Vec<Arc<KeptPlan>> {
        self.with(tenant, |tenant| tenant.plans.values().cloned().collect())
    }

    pub(crate) fn action(&self, tenant: &TenantId, action_id: &str) -> Option<KeptAction> {
        self.with(tenant, |tenant| tenant.actions.get(action_id).cloned())
    }

    /// How many actions are remembered.
    pub(crate) fn action_count(&self, tenant: &TenantId) -> usize {
        self.with(tenant, |tenant| tenant.actions.len())
    }

    /// A page of actions, newest first.
    pub(crate) fn actions(
        &self,
        tenant: &TenantId,
        skip: usize,
        limit: usize,
    ) -> Vec<(String, KeptAction)> {
        self.with(tenant, |tenant| {
            let newest = tenant.ages.iter().rev().skip(skip).take(limit);
            newest.map(|(_, name)| (name.clone(), tenant.actions[name].clone())).collect()
        })
    }

    fn with<T>(&self, tenant: &TenantId, look: impl FnOnce(&Tenant) -> T) -> T {
        match self.tenants.read().get(tenant) {
            Some(tenant) => look(tenant),
            None => look(&Tenant::default()),
        }
    }

    async fn keep(
        &self,
        kind: NoteKind,
        tenant: &TenantId,
        key: &str,
        json: Option<String>,
    ) -> Result<(), StoreError> {
        let (tenant, key) = (tenant.to_string(), key.to_owned());
        self.store.put_note(Note { kind, tenant, key, json }).await
    }
}

impl Tenant {
    fn add_action(&mut self, name: String, action: KeptAction) {
        self.ages.insert((action.created_ms, name.clone()));
        self.actions.insert(name, action);
    }

    fn remove_action(&mut self, name: &str) {
        if let Some(action) = self.actions.remove(name) {
            self.ages.remove(&(action.created_ms, name.to_owned()));
        }
    }

    fn too_old(&self) -> Option<String> {
        let (_, oldest) = self.ages.first()?;
        (self.actions.len() > ACTIONS_MAX).then(|| oldest.clone())
    }
}

fn read<'a, T: Deserialize<'a>>(note: &'a Note) -> Result<T, StoreError> {
    let json = note.json.as_deref().unwrap_or_default();
    serde_json::from_str(json)
        .map_err(|error| StoreError::Damaged(format!("{} {}: {error}", note.kind.name(), note.key)))
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("our own shapes are JSON")
}
