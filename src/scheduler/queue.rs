//! The waiting requests and their order: fair between tabs, by policy within a tab.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, VecDeque},
};

use super::{
    Policy,
    request::{RequestId, TabId},
    sequence::Sequence,
};

/// Waiting requests by tab.
///
/// The next turn goes to a tab with nothing running, and among such to the one that has been served least,
/// in computed rows, since it was last idle:
/// deficit round-robin that charges after the fact, because the length of an answer is not known before
/// it ends (the virtual token counter of Sheng et al., "Fairness in serving large language models",
/// OSDI 2024). Visible tabs come before hidden ones.
#[derive(Debug, Default)]
pub struct Queue {
    policy: Policy,
    tabs: BTreeMap<TabId, Tab>,
    len: usize,
    /// Where tabs begin: about as many rows as were computed for the running tab that was served least.
    level: u64,
}

#[derive(Debug, Default)]
struct Tab {
    /// In order of arrival, behind the preempted ones.
    waiting: VecDeque<Sequence>,
    /// Rows computed for it.
    served: u64,
    hidden: bool,
}

impl Queue {
    pub fn new(policy: Policy) -> Queue {
        Queue { policy, ..Default::default() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of waiting requests of a tab.
    pub fn waiting(&self, tab: TabId) -> usize {
        self.tabs.get(&tab).map_or(0, |tab| tab.waiting.len())
    }

    /// Adds a new request.
    pub fn push(&mut self, seq: Sequence) {
        self.tabs.entry(seq.tab).or_default().waiting.push_back(seq);
        self.len += 1;
    }

    /// Records that a tab which had nothing to compute has now, beside the `running` ones. `alone`: no other
    /// tab has anything to compute.
    pub fn enter(&mut self, tab: TabId, alone: bool, running: impl Iterator<Item = TabId>) {
        let least = running.map(|tab| self.standing(tab).1).min();
        let tab = self.tabs.entry(tab).or_default();
        if alone {
            self.level = tab.served;
        }
        // While others are busy it never falls: who begins later is not ahead of those that still wait.
        self.level = self.level.max(least.unwrap_or(0));
        // It gets one short turn ahead of the running ones, and no more. What it was served before is no
        // debt: nobody else may have wanted those rows.
        tab.served = tab.served.clamp(self.level.saturating_sub(Queue::QUANTUM), self.level);
    }

    /// Puts a preempted request back, before all others of its tab.
    pub fn push_front(&mut self, seq: Sequence) {
        self.tabs.entry(seq.tab).or_default().waiting.push_front(seq);
        self.len += 1;
    }

    /// Removes a request.
    pub fn remove(&mut self, id: RequestId) -> Option<Sequence> {
        let removed = self.tabs.values_mut().find_map(|tab| {
            let at = tab.waiting.iter().position(|seq| seq.id == id)?;
            tab.waiting.remove(at)
        });
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// Charges a tab for computed rows.
    pub fn charge(&mut self, tab: TabId, rows: usize) {
        if let Some(tab) = self.tabs.get_mut(&tab) {
            tab.served += rows as u64;
        }
    }

    pub fn set_hidden(&mut self, tab: TabId, hidden: bool) {
        self.tabs.entry(tab).or_default().hidden = hidden;
    }

    /// Removes a tab without requests.
    pub fn forget(&mut self, tab: TabId) {
        if self.tabs.get(&tab).is_some_and(|tab| tab.waiting.is_empty()) {
            self.tabs.remove(&tab);
        }
    }

    /// Whether a tab is hidden, and how many rows were computed for it: the smallest is served first.
    pub fn standing(&self, tab: TabId) -> (bool, u64) {
        self.tabs.get(&tab).map_or((false, 0), |tab| (tab.hidden, tab.served))
    }

    /// Tabs with waiting requests that may run, the next to be served first: those with nothing running
    /// before others of their rank, whatever they were served; of those that were served equally, the one
    /// with the fewest running requests.
    pub fn turns(&self, running: impl Fn(TabId) -> usize) -> Vec<TabId> {
        let first = |id: &TabId| {
            let (hidden, priority, served, arrival) = self.turn(self.first(*id)?);
            let running = running(*id);
            Some(((hidden, priority, running > 0, served, running, arrival), *id))
        };
        let mut turns: Vec<_> = self.tabs.keys().filter_map(first).collect();
        turns.sort_unstable();
        turns.into_iter().map(|(_, id)| id).collect()
    }

    /// Whether the next waiting request of a tab would be served before `seq`, if that waited too.
    pub fn is_before(&self, tab: TabId, seq: &Sequence) -> bool {
        self.first(tab).is_some_and(|first| self.turn(first) < self.turn(seq))
    }

    /// Whether the next waiting request of a tab is of no lower rank than `seq`.
    pub fn ranks_no_lower(&self, tab: TabId, seq: &Sequence) -> bool {
        let rank = |seq: &Sequence| (self.standing(seq.tab).0, self.rank(seq).0);
        self.first(tab).is_some_and(|first| rank(first) <= rank(seq))
    }

    /// Whether a tab waits for its turn while another is served: that is a whole turn ahead, or hidden while
    /// this one is visible.
    pub fn trails(&self, tab: TabId, other: TabId) -> bool {
        let (Some(tab), Some(other)) = (self.tabs.get(&tab), self.tabs.get(&other)) else {
            return false;
        };
        match tab.hidden.cmp(&other.hidden) {
            Ordering::Equal => other.served >= tab.served + Queue::QUANTUM,
            order => order.is_lt(),
        }
    }

    fn first(&self, tab: TabId) -> Option<&Sequence> {
        let waiting = self.tabs.get(&tab)?.waiting.iter();
        waiting.filter(|seq| seq.may_run()).min_by_key(|seq| self.rank(seq))
    }

    /// The order of requests across tabs: the smallest is served first.
    fn turn(&self, seq: &Sequence) -> (bool, i32, u64, RequestId) {
        let ((priority, arrival), (hidden, served)) = (self.rank(seq), self.standing(seq.tab));
        (hidden, priority, served, arrival)
    }

    /// The requests of a tab in order of admission. `cached` returns the length of a request's cached
    /// prefix: longer ones go first, behind requests that were passed over too often, in their order.
    pub fn candidates(
        &self,
        tab: TabId,
        cached: Option<&dyn Fn(&Sequence) -> usize>,
    ) -> Vec<RequestId> {
        let Some(tab) = self.tabs.get(&tab) else { return Vec::new() };
        let cached = cached.filter(|_| self.len <= Queue::MOST_SORTED && tab.waiting.len() > 1);
        let patient = |seq: &Sequence| seq.passed_over < Queue::PATIENCE;
        let mut order: Vec<_> = tab
            .waiting
            .iter()
            .enumerate()
            .filter(|(_, seq)| seq.may_run())
            .map(|(at, seq)| {
                let (priority, arrival) = self.rank(seq);
                let prefix = cached.filter(|_| patient(seq)).map_or(0, |cached| cached(seq));
                // Preempted requests stay in front.
                let resumed = !seq.has_run();
                ((priority, resumed, patient(seq), Reverse(prefix), arrival, at), seq.id)
            })
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, id)| id).collect()
    }

    /// Removes a candidate for admission, and counts the requests that it passes over.
    pub fn take(&mut self, id: RequestId) -> Option<Sequence> {
        let taken = self.remove(id)?;
        if let Some(tab) = self.tabs.get_mut(&taken.tab) {
            let passed = tab.waiting.iter_mut().filter(|seq| seq.id < taken.id);
            passed.for_each(|seq| seq.passed_over += 1);
        }
        Some(taken)
    }

    /// A waiting request.
    pub fn get(&self, id: RequestId) -> Option<&Sequence> {
        self.iter().find(|seq| seq.id == id)
    }

    pub fn get_mut(&mut self, id: RequestId) -> Option<&mut Sequence> {
        self.tabs.values_mut().flat_map(|tab| &mut tab.waiting).find(|seq| seq.id == id)
    }

    /// All waiting requests, tab by tab.
    pub fn iter(&self) -> impl Iterator<Item = &Sequence> {
        self.tabs.values().flat_map(|tab| &tab.waiting)
    }

    /// Removes all waiting requests.
    pub fn drain(&mut self) -> Vec<Sequence> {
        self.len = 0;
        self.tabs.values_mut().flat_map(|tab| tab.waiting.drain(..)).collect()
    }

    /// The order of preemption: the greatest is preempted first.
    pub fn preemption_order(&self, seq: &Sequence) -> impl Ord + use<> {
        let (priority, arrival) = self.rank(seq);
        let hidden = self.tabs.get(&seq.tab).is_some_and(|tab| tab.hidden);
        (seq.is_blocked(), hidden, priority, arrival)
    }

    /// The order by policy: the smallest is served first.
    pub fn rank(&self, seq: &Sequence) -> (i32, RequestId) {
        match self.policy {
            Policy::Fcfs => (0, seq.id),
            Policy::Priority => (seq.priority, seq.id),
        }
    }

    /// Rows of a turn.
    pub const QUANTUM: u64 = 256;
    /// Longer queues are not searched for cached prefixes.
    const MOST_SORTED: usize = 128;
    /// How often a request may be passed over before its turn comes regardless of cached prefixes.
    const PATIENCE: u32 = 8;
}
