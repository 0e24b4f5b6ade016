//! The models of a host: which there are, who has them, and what they may take.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    outlet::{Outlet, Piece},
    protocol::{Answer, Info, Options, Outbox, Progress, Value},
};
use crate::{
    Error, Result,
    api::Chunk,
    engine::{RequestId, TabId},
    service::{Reply, Service},
    step::Executor,
};

/// Memory for all models, where no page says otherwise.
const BUDGET: u64 = 4 << 30;

/// Names a model of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelId(pub u64);

/// All models, loaded or on their way, within a budget of memory.
pub struct Models<E> {
    entries: BTreeMap<ModelId, Model<E>>,
    budget: u64,
    /// Models announced so far.
    announced: u64,
    /// How often a tab has let go of a model.
    released: u64,
}

/// A model with its options.
pub struct Model<E> {
    pub url: String,
    pub options: Options,
    /// Weights, keys and values; 0 as long as that is not known.
    pub bytes: u64,
    /// When a tab last let go of it, in [`Models::released`].
    released: u64,
    pub state: State<E>,
}

/// How far a model is.
pub enum State<E> {
    Loading(Loading),
    Ready(Box<Ready<E>>),
}

/// A model on its way.
#[derive(Default)]
pub struct Loading {
    /// Tabs that wait for it, and their calls.
    pub waiting: Vec<(TabId, u32)>,
    /// What they were told last.
    pub progress: Option<Progress>,
}

/// A model that answers.
pub struct Ready<E> {
    pub service: Service<E>,
    pub info: Info,
    /// The tabs that have it.
    pub tabs: BTreeSet<TabId>,
    callers: HashMap<RequestId, Caller>,
}

/// Who waits for the answer to a request.
struct Caller {
    tab: TabId,
    id: u32,
    /// Where a stream was asked for.
    outlet: Option<Outlet>,
    /// Whether its request waits for the page to read.
    held: bool,
}

impl<E: Executor> Models<E> {
    /// No models.
    pub fn new() -> Models<E> {
        Models { entries: BTreeMap::new(), budget: BUDGET, announced: 0, released: 0 }
    }

    /// Bytes that all models may take, and those they take.
    pub fn memory(&self) -> (u64, u64) {
        (self.budget, self.entries.values().map(|model| model.bytes).sum())
    }

    /// Sets what all models may take.
    pub fn set_budget(&mut self, bytes: u64) {
        self.budget = bytes;
    }

    /// All models.
    pub fn iter(&self) -> impl Iterator<Item = (ModelId, &Model<E>)> {
        self.entries.iter().map(|(id, model)| (*id, model))
    }

    /// A model.
    pub fn get(&self, model: ModelId) -> Option<&Model<E>> {
        self.entries.get(&model)
    }

    /// A model that answers.
    pub fn ready(&mut self, model: ModelId) -> Option<&mut Ready<E>> {
        match &mut self.entries.get_mut(&model)?.state {
            State::Ready(ready) => Some(ready),
            State::Loading(_) => None,
        }
    }

    /// A model on its way.
    pub fn loading(&mut self, model: ModelId) -> Option<&mut Loading> {
        match &mut self.entries.get_mut(&model)?.state {
            State::Loading(loading) => Some(loading),
            State::Ready(_) => None,
        }
    }

    /// The models with requests to compute.
    pub fn busy(&mut self) -> impl Iterator<Item = (ModelId, &mut Ready<E>)> {
        self.entries.iter_mut().filter_map(|(id, model)| match &mut model.state {
            State::Ready(ready) if !ready.service.is_idle() => Some((*id, &mut **ready)),
            _ => None,
        })
    }

    /// The model of that address and those options, or a new one that is to be loaded, as the second
    /// part says.
    pub fn find_or_announce(&mut self, url: &str, options: &Options) -> (ModelId, bool) {
        let same = |model: &Model<E>| model.url == url && model.options == *options;
        if let Some((id, _)) = self.entries.iter().find(|(_, model)| same(model)) {
            return (*id, false);
        }
        let id = ModelId(self.announced);
        self.announced += 1;
        let (url, options) = (url.to_owned(), options.clone());
        let state = State::Loading(Loading::default());
        self.entries.insert(id, Model { url, options, bytes: 0, released: 0, state });
        (id, true)
    }

    /// Reserves `bytes` for a model on its way. Models that no tab has go for it, the longest unused
    /// first.
    ///
    /// # Errors
    /// [`Error::OverBudget`] if those that tabs have leave too little.
    pub fn make_room(&mut self, model: ModelId, bytes: u64) -> Result<()> {
        let set = |models: &mut Models<E>, bytes| {
            models.entries.get_mut(&model).map(|model| model.bytes = bytes)
        };
        set(self, 0);
        while self.memory().1.saturating_add(bytes) > self.budget {
            if !self.drop_idle() {
                let (budget, used) = self.memory();
                return Err(Error::OverBudget { needed: bytes, budget, used });
            }
        }
        set(self, bytes);
        Ok(())
    }

    /// Drops the model that no tab has had for longest. Returns false if tabs have them all.
    pub fn drop_idle(&mut self) -> bool {
        let idle =
            |model: &Model<E>| matches!(&model.state, State::Ready(ready) if ready.tabs.is_empty());
        let all = self.entries.iter().filter(|(_, model)| idle(model));
        let oldest = all.min_by_key(|(_, model)| model.released).map(|(id, _)| *id);
        oldest.is_some_and(|oldest| self.entries.remove(&oldest).is_some())
    }

    /// Drops models that no tab has, the longest unused first, until all are within the budget.
    pub fn trim(&mut self) {
        while self.memory().1 > self.budget && self.drop_idle() {}
    }

    /// Forgets a model.
    pub fn remove(&mut self, model: ModelId) -> Option<Model<E>> {
        self.entries.remove(&model)
    }

    /// A model on its way has come. Returns the calls that waited for it.
    pub fn insert(&mut self, model: ModelId, service: Service<E>, info: Info) -> Vec<(TabId, u32)> {
        let Some(entry) = self.entries.get_mut(&model) else { return Vec::new() };
        let State::Loading(loading) = &mut entry.state else { return Vec::new() };
        let waiting = std::mem::take(&mut loading.waiting);
        let ready = Ready { service, info, tabs: BTreeSet::new(), callers: HashMap::new() };
        entry.state = State::Ready(Box::new(ready));
        waiting
    }

    /// A tab lets go of a model, which stays loaded as long as its memory is not needed.
    pub fn let_go(&mut self, model: ModelId, tab: TabId) {
        self.released += 1;
        let Some(entry) = self.entries.get_mut(&model) else { return };
        entry.released = self.released;
        if let State::Ready(ready) = &mut entry.state {
            ready.leave(tab);
        }
        self.trim();
    }

    /// The calls of a tab that wait for a model are dropped, or the one of that id. Returns the model
    /// that nobody waits for any more.
    pub fn stop_waiting(&mut self, tab: TabId, id: Option<u32>) -> Option<ModelId> {
        let waits = |call: &(TabId, u32)| call.0 == tab && id.is_none_or(|id| call.1 == id);
        for (model, entry) in &mut self.entries {
            let State::Loading(loading) = &mut entry.state else { continue };
            if loading.waiting.iter().any(waits) {
                loading.waiting.retain(|call| !waits(call));
                let abandoned = loading.waiting.is_empty().then_some(*model)?;
                self.entries.remove(&abandoned);
                return Some(abandoned);
            }
        }
        None
    }

    /// Whether a tab waits for a model.
    pub fn is_waiting(&self, tab: TabId) -> bool {
        self.entries.values().any(|model| match &model.state {
            State::Loading(loading) => loading.waiting.iter().any(|call| call.0 == tab),
            State::Ready(_) => false,
        })
    }
}

impl<E: Executor> Ready<E> {
    /// Notes that the answer to `request` belongs to a call, and through which outlet it goes if it is
    /// a stream.
    pub fn ask(&mut self, tab: TabId, id: u32, request: RequestId, outlet: Option<Outlet>) {
        self.callers.insert(request, Caller { tab, id, outlet, held: false });
    }

    /// The request of a tab's call.
    pub fn find(&self, tab: TabId, id: u32) -> Option<RequestId> {
        let mut callers = self.callers.iter();
        callers
            .find(|(_, caller)| caller.tab == tab && caller.id == id)
            .map(|(request, _)| *request)
    }

    /// Requests that are being answered or wait.
    pub fn requests(&self) -> usize {
        self.callers.len()
    }

    /// Gives up a tab's call.
    pub fn cancel(&mut self, tab: TabId, id: u32) {
        if let Some(request) = self.find(tab, id) {
            self.callers.remove(&request);
            self.service.cancel(request);
        }
    }

    /// A tab's page has room for so many chunks more.
    pub fn refill(&mut self, tab: TabId, id: u32, chunks: u32, outbox: &mut Outbox) {
        let Some(request) = self.find(tab, id) else { return };
        if let Some(outlet) =
            self.callers.get_mut(&request).and_then(|caller| caller.outlet.as_mut())
        {
            outlet.refill(chunks);
            self.flush(request, outbox);
        }
    }

    /// Passes on what the service has to tell about a request.
    pub fn reply(&mut self, request: RequestId, reply: Reply, outbox: &mut Outbox) {
        let Some(caller) = self.callers.get_mut(&request) else { return };
        let id = caller.id;
        let value = |value| Answer::Value { id, value };
        let last = match reply {
            Reply::Chunk { value: chunk, tokens, ended } => {
                let piece = Piece { chunk: Chunk::Chat(chunk), tokens, ended };
                return self.pass_on(request, piece, outbox);
            }
            Reply::TextChunk { value: chunk, tokens, ended } => {
                let piece = Piece { chunk: Chunk::Text(chunk), tokens, ended };
                return self.pass_on(request, piece, outbox);
            }
            Reply::End => Answer::End { id },
            Reply::Completion(completion) => value(Value::Completion(completion)),
            Reply::TextCompletion(completion) => value(Value::TextCompletion(completion)),
            Reply::Embeddings(embeddings) => value(Value::Embeddings(embeddings)),
            Reply::Error(error) => Answer::Error { id, error: error.to_wire() },
        };
        match &mut caller.outlet {
            Some(outlet) => {
                outlet.finish(last);
                self.flush(request, outbox);
            }
            None => {
                outbox.push((caller.tab, last));
                self.callers.remove(&request);
            }
        }
    }

    /// Sends a piece of a stream, now or later.
    fn pass_on(&mut self, request: RequestId, piece: Piece, outbox: &mut Outbox) {
        let caller = self.callers.get_mut(&request);
        if let Some(outlet) = caller.and_then(|caller| caller.outlet.as_mut()) {
            outlet.push(piece);
        }
        self.flush(request, outbox);
    }

    /// Sends what a stream's page has room for, and lets its request wait while that is too little.
    fn flush(&mut self, request: RequestId, outbox: &mut Outbox) {
        let Some(caller) = self.callers.get_mut(&request) else { return };
        let Some(outlet) = &mut caller.outlet else { return };
        while let Some(answer) = outlet.next() {
            let over = !matches!(answer, Answer::Chunk { .. });
            outbox.push((caller.tab, answer));
            if over {
                self.callers.remove(&request);
                return;
            }
        }
        if caller.held != outlet.is_full() {
            caller.held = outlet.is_full();
            self.service.hold(request, caller.held);
        }
    }

    /// Ends all requests of a tab.
    fn leave(&mut self, tab: TabId) {
        let of_tab =
            |(request, caller): (&RequestId, &Caller)| (caller.tab == tab).then_some(*request);
        for request in self.callers.iter().filter_map(of_tab).collect::<Vec<_>>() {
            self.callers.remove(&request);
            self.service.cancel(request);
        }
        self.service.close_tab(tab);
        self.tabs.remove(&tab);
    }
}
