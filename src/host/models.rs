//! The models of a host, the tabs that use them, and their memory budget.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    outlet::{Outlet, Piece},
    protocol::{Answer, Info, Options, Outbox, Progress, Value},
    storing::Storing,
    turns::{ModelId, Turns},
};
use crate::{
    Error, Result,
    api::Chunk,
    engine::{RequestId, TabId},
    service::{Reply, Service},
    step::Executor,
};

/// Default memory budget for all models.
const BUDGET: u64 = 4 << 30;

/// All models, loaded or loading, within a memory budget.
pub struct Models<E> {
    entries: BTreeMap<ModelId, Model<E>>,
    budget: u64,
    /// Number of models created so far; the next id.
    created: u64,
    /// Number of times that a tab released a model.
    released: u64,
    turns: Turns,
}

/// A model with its options.
pub struct Model<E> {
    pub url: String,
    pub options: Options,
    /// Weights and KV cache; 0 until known.
    pub bytes: u64,
    /// The value of [`Models::released`] when a tab last released it.
    released: u64,
    pub state: State<E>,
}

/// The state of a model.
pub enum State<E> {
    Loading(Loading),
    Ready(Box<Ready<E>>),
}

/// A model that is loading.
#[derive(Default)]
pub struct Loading {
    /// Tabs that wait for it, and the ids of their calls.
    pub waiting: Vec<(TabId, u32)>,
    /// The last progress that was sent to them.
    pub progress: Option<Progress>,
}

/// A loaded model.
pub struct Ready<E> {
    pub service: Service<E>,
    pub info: Info,
    /// The tabs that use it.
    pub tabs: BTreeSet<TabId>,
    /// If its prefixes are stored between visits.
    pub storing: Option<Storing>,
    /// The bytes that it needs, where it already does with less memory.
    needs: Option<u64>,
    callers: HashMap<RequestId, Caller>,
}

/// The call that a request belongs to.
struct Caller {
    tab: TabId,
    id: u32,
    /// If the answer is streamed.
    outlet: Option<Outlet>,
    /// Whether its request is held until the page reads.
    held: bool,
}

impl<E> Model<E> {
    /// The model, if it is loaded.
    fn ready(&mut self) -> Option<&mut Ready<E>> {
        match &mut self.state {
            State::Ready(ready) => Some(ready),
            State::Loading(_) => None,
        }
    }
}

impl<E: Executor> Models<E> {
    /// No models.
    pub fn new() -> Models<E> {
        let (entries, turns) = Default::default();
        Models { entries, budget: BUDGET, created: 0, released: 0, turns }
    }

    /// The memory budget and the memory in use, in bytes.
    pub fn memory(&self) -> (u64, u64) {
        (self.budget, self.entries.values().map(|model| model.bytes).sum())
    }

    /// Sets the memory budget.
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

    /// A loaded model.
    pub fn ready(&mut self, model: ModelId) -> Option<&mut Ready<E>> {
        self.entries.get_mut(&model)?.ready()
    }

    /// A model that is loading.
    pub fn loading(&mut self, model: ModelId) -> Option<&mut Loading> {
        match &mut self.entries.get_mut(&model)?.state {
            State::Loading(loading) => Some(loading),
            State::Ready(_) => None,
        }
    }

    /// The loaded models.
    pub fn loaded(&mut self) -> impl Iterator<Item = (ModelId, &mut Ready<E>)> {
        self.entries.iter_mut().filter_map(|(id, model)| Some((*id, model.ready()?)))
    }

    /// The loaded models that are not idle.
    pub fn busy(&mut self) -> impl Iterator<Item = ModelId> {
        self.loaded().filter(|(_, ready)| !ready.service.is_idle()).map(|(model, _)| model)
    }

    /// Begins steps as long as there is room in flight, each of the model that was served least.
    pub fn begin_steps(&mut self) {
        while self.begin_step() {}
    }

    fn begin_step(&mut self) -> bool {
        let busy = self.busy().collect();
        let Models { entries, turns, .. } = self;
        turns.begin_step(busy, |model, in_flight| {
            let ready = entries.get_mut(&model)?.ready()?;
            (in_flight < ready.service.depth()).then(|| ready.service.begin_step())
        })
    }

    /// Waits for the oldest step in flight, if there is one. `turn`: see [`Executor::result`].
    pub async fn end_step(&mut self, turn: impl AsyncFn()) {
        let Some(oldest) = self.turns.oldest() else { return };
        let Some(ready) = self.ready(oldest) else { return };
        let took = ready.service.end_step(turn).await;
        self.turns.end(took);
        for (_, other) in self.loaded().filter(|(model, _)| *model != oldest) {
            other.service.device_was_busy();
        }
    }

    /// The model with this URL and these options, created if there is none. The second value is whether
    /// it is new and must be loaded.
    pub fn find_or_create(&mut self, url: &str, options: &Options) -> (ModelId, bool) {
        if let Some((id, _)) = self.entries.iter().find(|(_, model)| model.is(url, options)) {
            return (*id, false);
        }
        let id = ModelId(self.created);
        self.created += 1;
        let (url, options) = (url.to_owned(), options.clone());
        let state = State::Loading(Loading::default());
        self.entries.insert(id, Model { url, options, bytes: 0, released: 0, state });
        (id, true)
    }

    /// Reserves `bytes` for a model that is loading. Models that no tab uses are evicted for it, least
    /// recently used first.
    ///
    /// # Errors
    /// [`Error::OverBudget`] if the models in use leave too little.
    pub fn make_room(&mut self, model: ModelId, bytes: u64) -> Result<()> {
        let set = |models: &mut Models<E>, bytes| {
            models.entries.get_mut(&model).map(|model| model.bytes = bytes)
        };
        set(self, 0);
        while self.memory().1.saturating_add(bytes) > self.budget {
            if !self.evict() {
                let (budget, used) = self.memory();
                return Err(Error::OverBudget { needed: bytes, budget, used });
            }
        }
        set(self, bytes);
        Ok(())
    }

    /// Evicts the least recently used model. Returns false if tabs use all models.
    pub fn evict(&mut self) -> bool {
        let idle = self.entries.iter().filter(|(_, model)| model.is_idle());
        let oldest = idle.min_by_key(|(_, model)| model.released).map(|(id, _)| *id);
        oldest.is_some_and(|oldest| self.remove(oldest).is_some())
    }

    /// Evicts a model if no tab uses it.
    pub fn free(&mut self, model: ModelId) {
        if self.get(model).is_some_and(Model::is_idle) {
            self.remove(model);
        }
    }

    /// Has a model that is loading do with less memory. Returns false if it does already.
    pub fn spare(&mut self, model: ModelId) -> bool {
        let entry = self.entries.get_mut(&model);
        entry.is_some_and(|entry| !std::mem::replace(&mut entry.options.sparing, true))
    }

    /// Evicts models that no tab uses, least recently used first, until the budget holds.
    pub fn trim(&mut self) {
        while self.memory().1 > self.budget && self.evict() {}
    }

    /// Removes a model.
    pub fn remove(&mut self, model: ModelId) -> Option<Model<E>> {
        self.turns.remove(model);
        self.entries.remove(&model)
    }

    /// Stores a model whose load has finished. Returns the calls that waited for it.
    pub fn insert(&mut self, model: ModelId, service: Service<E>, info: Info) -> Vec<(TabId, u32)> {
        let Some(entry) = self.entries.get_mut(&model) else { return Vec::new() };
        let State::Loading(loading) = &mut entry.state else { return Vec::new() };
        let waiting = std::mem::take(&mut loading.waiting);
        let (tabs, callers) = Default::default();
        let needs = entry.spared();
        let ready = Ready { service, info, tabs, storing: None, needs, callers };
        entry.state = State::Ready(Box::new(ready));
        waiting
    }

    /// Releases a tab's model; it stays loaded until its memory is needed.
    pub fn release(&mut self, model: ModelId, tab: TabId) {
        self.released += 1;
        let Some(entry) = self.entries.get_mut(&model) else { return };
        entry.released = self.released;
        if let State::Ready(ready) = &mut entry.state {
            ready.leave(tab);
        }
        self.trim();
    }

    /// Removes a tab's calls that wait for a model, or only the call `id`. Removes and returns the model
    /// if no call waits for it any more.
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

impl<E> Model<E> {
    /// Whether it is what a tab asks for; all tabs share it, whatever budget it was loaded in.
    pub fn is(&self, url: &str, options: &Options) -> bool {
        let Options { sparing, budget_bytes, .. } = self.options;
        self.url == url && self.options == Options { sparing, budget_bytes, ..options.clone() }
    }

    /// Whether it is loaded and no tab uses it.
    fn is_idle(&self) -> bool {
        matches!(&self.state, State::Ready(ready) if ready.tabs.is_empty())
    }

    /// The bytes that it needs, where it already does with less memory.
    pub fn spared(&self) -> Option<u64> {
        self.options.sparing.then_some(self.bytes)
    }
}

impl<E: Executor> Ready<E> {
    /// Registers the call that `request` belongs to, with an outlet if the answer is streamed.
    pub fn register(&mut self, tab: TabId, id: u32, request: RequestId, outlet: Option<Outlet>) {
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

    /// Cancels a tab's call.
    pub fn cancel(&mut self, tab: TabId, id: u32) {
        if let Some(request) = self.find(tab, id) {
            self.callers.remove(&request);
            self.service.cancel(request);
        }
    }

    /// Adds credit for `chunks` more chunks to a tab's stream.
    pub fn refill(&mut self, tab: TabId, id: u32, chunks: u32, outbox: &mut Outbox) {
        let Some(request) = self.find(tab, id) else { return };
        if let Some(outlet) =
            self.callers.get_mut(&request).and_then(|caller| caller.outlet.as_mut())
        {
            outlet.refill(chunks);
            self.flush(request, outbox);
        }
    }

    /// Sends a reply of the service to the request's call.
    pub fn reply(&mut self, request: RequestId, reply: Reply, outbox: &mut Outbox) {
        let Some(caller) = self.callers.get_mut(&request) else { return };
        let id = caller.id;
        let value = |value| Answer::Value { id, value };
        let last = match reply {
            Reply::Chunk { value: chunk, tokens, ended } => {
                let piece = Piece { chunk: Chunk::Chat(chunk), tokens, ended };
                return self.send_piece(request, piece, outbox);
            }
            Reply::TextChunk { value: chunk, tokens, ended } => {
                let piece = Piece { chunk: Chunk::Text(chunk), tokens, ended };
                return self.send_piece(request, piece, outbox);
            }
            Reply::End => Answer::End { id },
            Reply::Completion(completion) => value(Value::Completion(completion)),
            Reply::TextCompletion(completion) => value(Value::TextCompletion(completion)),
            Reply::Embeddings(embeddings) => value(Value::Embeddings(embeddings)),
            Reply::Error(error) => {
                let error = error.spared(self.needs);
                Answer::Error { id, error: error.to_wire() }
            }
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

    /// Sends a piece of a stream, or queues it.
    fn send_piece(&mut self, request: RequestId, piece: Piece, outbox: &mut Outbox) {
        let caller = self.callers.get_mut(&request);
        if let Some(outlet) = caller.and_then(|caller| caller.outlet.as_mut()) {
            outlet.push(piece);
        }
        self.flush(request, outbox);
    }

    /// Sends as many pieces as the stream has credit for, and holds its request while the outlet is full.
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

    /// Notes the conversations that have ended, if they are stored. Returns whether to store a run of one.
    pub fn store_ended(&mut self) -> bool {
        let ended = self.service.engine().take_ended();
        self.storing.as_mut().is_some_and(|storing| storing.add(ended))
    }

    /// Cancels all requests of a tab.
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
