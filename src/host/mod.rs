//! The host: the tabs that are connected, the models they share, and the routing of answers.
//!
//! It has no access to ports or files: its driver passes in messages and loaded models, steps it, and
//! runs its [`Task`]s.

mod models;
mod outlet;
mod preparing;
mod protocol;
mod state;
mod stored;
mod storing;
mod turns;

use std::{
    collections::BTreeMap,
    future::pending,
    hash::{DefaultHasher, Hash, Hasher},
    pin::pin,
    time::Duration,
};

use futures::future::{LocalBoxFuture, select};

pub use self::{
    protocol::{
        Answer, Asked, Call, Device, Draft, DraftInfo, GpuFeatures, Info, Inspection, Isolation,
        Keep, Kv, LOCAL, Options, Outbox, PROTOCOL, PrefixCache, Progress, Quantize, Refused,
        SlidingWindow, Speculation, Stage, TokensTask, VERSION, Value, Welcome,
    },
    state::{HostMetrics, HostState, ModelState, TabState},
    stored::prefix_root,
    storing::RunRead,
    turns::{ModelId, Turns},
};

use self::{
    models::{Model, Models, Ready, State},
    outlet::Outlet,
    preparing::{Begun, Prepared, Preparing},
};
use crate::{
    Error, Result,
    api::{DetokenizeRequest, TokenizeRequest},
    engine::TabId,
    prefixes::Run,
    service::{Moment, Prompts, Service},
    step::Executor,
};

/// Prefix of the names of tabs' locks, so that no page can make the host wait for another lock.
const TAB_LOCK: &str = "tabloom tab ";
const LONGEST_LOCK: usize = 100;

/// Serves any number of tabs with any number of models.
///
/// Each tab has at most one model. Tabs that load the same model with the same options share it.
pub struct Host<E> {
    identity: Identity,
    tabs: BTreeMap<TabId, Tab>,
    models: Models<E>,
    /// The calls with long texts that are being tokenised.
    preparing: Preparing<E>,
    /// Whether all tabs so far share their prefix cache.
    all_share: bool,
    tasks: Vec<Task>,
    outbox: Outbox,
}

/// Properties of a host that its driver sets.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The Web Lock that the host holds while it lives, if the browser has Web Locks.
    pub lock: Option<String>,
    /// A secret random number.
    pub secret: u64,
    /// Returns the size of the WebAssembly memory, in bytes.
    pub heap_bytes: fn() -> usize,
}

/// A task for the driver of the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// Load a model: call [`Host::sized`] and continue if it returns true, then [`Host::progress`], at
    /// the end [`Host::loaded`]. The files of a local model came with a tab's call.
    Load { model: ModelId, url: String, options: Options },
    /// Inspect a model, and call [`Host::inspected`].
    Inspect { tab: TabId, id: u32, url: String, options: Options },
    /// Abort the load of a model; no call waits for it.
    Abort { model: ModelId },
    /// Write a run to storage: the next of [`Host::next_run`]. Call [`Host::written`], and once the record that
    /// it returns is written, [`Host::recorded`].
    Write { model: ModelId },
    /// Read runs from storage, for at most this long: call [`Host::read`] for each, at the end
    /// [`Host::begin_read`].
    Read {
        model: ModelId,
        tab: TabId,
        id: u32,
        runs: Vec<Run>,
        /// Groups of layers of the model.
        groups: usize,
        within: Duration,
    },
    /// Call [`Host::close`] once this Web Lock is free.
    Watch { tab: TabId, lock: String },
    /// Close the tab's port.
    ClosePort { tab: TabId },
}

struct Tab {
    visible: bool,
    /// Tabs with the same salt share their prefix cache.
    salt: u64,
    model: Option<ModelId>,
}

impl<E: Executor + 'static> Host<E> {
    /// A host without tabs and models.
    pub fn new(identity: Identity) -> Host<E> {
        Host {
            identity,
            tabs: BTreeMap::new(),
            models: Models::new(),
            preparing: Preparing::new(),
            all_share: true,
            tasks: Vec::new(),
            outbox: Vec::new(),
        }
    }

    /// Handles a message from a tab.
    pub fn receive(&mut self, tab: TabId, message: Result<Call, Refused>) {
        let call = match message {
            Ok(call) => call,
            Err((id, error)) => return self.answer(tab, id, Err(error)),
        };
        let salt = match (self.tabs.get(&tab), &call) {
            (Some(known), _) => known.salt,
            (None, Call::Hello { .. }) => 0,
            (None, call) => return self.answer(tab, call.id(), Err(Error::Handshake)),
        };
        match call {
            Call::Hello { id, version, protocol, tab: lock, visible, isolation } => {
                let welcome = self.greet(tab, (&version, protocol), lock, visible, isolation);
                self.answer(tab, id, welcome.map(Value::Welcome));
            }
            Call::Load { id, url, options, sparing, files } => {
                let options = options.map(|options| Options { sparing, ..options });
                let result = match files.is_some() == url.starts_with(LOCAL) {
                    true => self.load(tab, id, &url, options),
                    false => {
                        Err(invalid("files", "expected with a local model, and with no other"))
                    }
                };
                self.send_failure(tab, id, result);
            }
            Call::Inspect { id, url, options } => match options {
                Ok(_) if url.starts_with(LOCAL) => {
                    self.answer(tab, id, Err(invalid("url", "found files, expected an address")));
                }
                Ok(options) => self.tasks.push(Task::Inspect { tab, id, url, options }),
                Err(error) => self.answer(tab, id, Err(error)),
            },
            Call::Chat { id, request, moment: Asked { now, entropy }, credit, resume } => {
                let moment = Moment { now, entropy, tab, salt };
                let resume = resume.unwrap_or_default();
                let prompt = self.ready(tab, id).and_then(|ready| {
                    let request = (*request)?.validate()?;
                    Ok(ready.service.prompt_chat(request, now))
                });
                self.prepare(tab, id, prompt, move |service, prompted| {
                    let credit = prompted.request.stream.then_some(credit);
                    let request = service.submit_prompted(prompted, moment, &resume)?;
                    Ok(Begun::Request(request, credit))
                });
            }
            Call::Complete { id, request, moment: Asked { now, entropy }, credit, resume } => {
                let moment = Moment { now, entropy, tab, salt };
                let resume = resume.unwrap_or_default();
                let prompt = self.ready(tab, id).and_then(|ready| {
                    let request = (*request)?.validate()?;
                    Ok(ready.service.prompt_completion(request))
                });
                self.prepare(tab, id, prompt, move |service, prompted| {
                    let credit = prompted.request.settings.stream.then_some(credit);
                    let request = service.complete_prompted(prompted, moment, &resume)?;
                    Ok(Begun::Request(request, credit))
                });
            }
            Call::Embed { id, request } => {
                let prompt = self
                    .ready(tab, id)
                    .and_then(|ready| Ok(ready.service.prompt_embedding(request?.validate()?)));
                self.prepare(tab, id, prompt, move |service, prompted| {
                    Ok(Begun::Request(service.embed_prompted(prompted, tab, salt)?, None))
                });
            }
            Call::Tokens { id, task: TokensTask::Tokenize, request, now } => {
                let tokens = self.ready(tab, id).and_then(|ready| {
                    let request = TokenizeRequest::read(request)?.validate()?;
                    Ok(ready.service.tokenize_in_pieces(request, now))
                });
                self.prepare(tab, id, tokens, |_, tokens| {
                    Ok(Begun::Answered(Value::Tokens(tokens)))
                });
            }
            Call::Tokens { id, task, request, now } => {
                let result = self.ready(tab, id).and_then(|ready| {
                    let service = &ready.service;
                    if let TokensTask::Detokenize = task {
                        let request = DetokenizeRequest::read(request)?;
                        return Ok(Value::Text(service.detokenize(&request)?));
                    }
                    let request = TokenizeRequest::read(request)?.validate()?;
                    Ok(Value::Rendered(service.apply_chat_template(&request, now)?))
                });
                self.answer(tab, id, result);
            }
            Call::Credit { id, chunks } => {
                if let Some((ready, outbox)) = self.model_of(tab) {
                    ready.refill(tab, id, chunks, outbox);
                }
            }
            Call::Cancel { id } => {
                self.preparing.remove(tab, Some(id));
                if let Some((ready, _)) = self.model_of(tab) {
                    ready.cancel(tab, id);
                }
                self.stop_waiting(tab, Some(id));
            }
            Call::Visible { visible } => {
                if let Some(known) = self.tabs.get_mut(&tab) {
                    known.visible = visible;
                }
                if let Some((ready, _)) = self.model_of(tab) {
                    ready.service.set_visible(tab, visible);
                }
            }
            Call::Metrics { id } => {
                let metrics = self.metrics(tab).map(|metrics| Value::Metrics(Box::new(metrics)));
                self.answer(tab, id, metrics);
            }
            Call::Ping { id } => self.answer(tab, id, Ok(Value::Pong(()))),
            Call::Bye { free } => {
                let model = self.tabs.get(&tab).and_then(|tab| tab.model);
                self.close(tab);
                if let Some(model) = model.filter(|_| free) {
                    self.models.free(model);
                }
            }
        }
    }

    /// Removes a tab: cancels its requests and releases its model.
    pub fn close(&mut self, tab: TabId) {
        self.stop_waiting(tab, None);
        self.preparing.remove(tab, None);
        if let Some(Tab { model: Some(model), .. }) = self.tabs.remove(&tab) {
            self.models.release(model, tab);
        }
        self.outbox.retain(|(to, _)| *to != tab);
        self.tasks.push(Task::ClosePort { tab });
    }

    /// Reserves the bytes that a model needs; models that no tab uses are evicted, least recently used
    /// first. Returns whether to continue the load; if not, the calls that wait have got the error, or have
    /// been given up.
    pub fn sized(&mut self, model: ModelId, bytes: u64) -> bool {
        if !self.has(model) {
            return false;
        }
        let room = self.models.make_room(model, bytes);
        room.map_err(|error| self.fail_load(model, &error)).is_ok()
    }

    /// Sends a load's progress to the calls that wait for it.
    pub fn progress(&mut self, model: ModelId, progress: &Progress) {
        let Some(loading) = self.models.loading(model) else { return };
        loading.progress = Some(progress.clone());
        let answer = |(tab, id): &(TabId, u32)| {
            (*tab, Answer::Progress { id: *id, progress: progress.clone() })
        };
        self.outbox.extend(loading.waiting.iter().map(answer));
    }

    /// Stores a loaded model, or reports why loading failed.
    pub fn loaded(&mut self, model: ModelId, result: Result<(Service<E>, Info)>) {
        match result {
            Ok((service, info)) => {
                for (tab, id) in self.models.insert(model, service, info) {
                    self.assign(tab, id, model);
                }
            }
            // Evict a model that no tab uses, or do with less, and load again.
            // Given up meanwhile: nothing makes room for it.
            Err(_) if !self.has(model) => {}
            Err(Error::OutOfMemory { .. }) if self.models.evict() || self.models.spare(model) => {
                self.tasks.extend(self.models.get(model).map(|entry| Task::Load {
                    model,
                    url: entry.url.clone(),
                    options: entry.options.clone(),
                }));
            }
            Err(error) => {
                let needs = self.models.get(model).and_then(Model::spared);
                self.fail_load(model, &error.spared(needs));
            }
        }
    }

    /// Whether there is such a model, loading or loaded.
    pub fn has(&self, model: ModelId) -> bool {
        self.models.get(model).is_some()
    }

    /// Answers the call of [`Task::Inspect`], if its tab is still there.
    pub fn inspected(&mut self, tab: TabId, id: u32, result: Result<Inspection>) {
        if self.tabs.contains_key(&tab) {
            self.answer(tab, id, result.map(Value::Inspection));
        }
    }

    /// Begins the steps that are due, and waits for the first to end. Meanwhile it goes on with the prompts
    /// of long texts. These, and steps on the processor, are computed in pieces: `turn` ends a turn of the
    /// event loop, in which messages arrive.
    pub async fn step(&mut self, turn: impl AsyncFn()) {
        self.models.begin_steps();
        self.preparing.advance();
        let pieces = async {
            while !self.preparing.is_empty() {
                turn().await;
                self.preparing.advance();
            }
            pending::<()>().await;
        };
        select(pin!(self.models.end_step(&turn)), pin!(pieces)).await;
        for prepared in self.preparing.take() {
            self.read_or_begin(prepared);
        }
        let mut stopped = Vec::new();
        for (model, ready) in self.models.loaded() {
            for (request, reply) in ready.service.take_replies() {
                ready.reply(request, reply, &mut self.outbox);
            }
            let has_more = ready.store_ended();
            self.tasks.extend(has_more.then_some(Task::Write { model }));
            if ready.service.is_closed() {
                stopped.push(model);
            }
        }
        // All requests have got the error. The tabs must load the model again.
        for model in stopped {
            self.models.remove(model);
            self.tabs.values_mut().filter(|tab| tab.model == Some(model)).for_each(|tab| {
                tab.model = None;
            });
        }
    }

    /// Whether [`Host::step`] has nothing to do.
    pub fn is_idle(&mut self) -> bool {
        self.models.busy().next().is_none() && self.preparing.is_empty()
    }

    /// Removes and returns the tasks, in order.
    pub fn take_tasks(&mut self) -> Vec<Task> {
        std::mem::take(&mut self.tasks)
    }

    /// Answers to send, in order.
    pub fn take_answers(&mut self) -> Outbox {
        std::mem::take(&mut self.outbox)
    }

    fn greet(
        &mut self,
        tab: TabId,
        page: (&str, u32),
        lock: Option<String>,
        visible: bool,
        isolation: Isolation,
    ) -> Result<Welcome> {
        let host = (VERSION, PROTOCOL);
        if page != host {
            let name = |(version, protocol)| format!("{version} (protocol {protocol})");
            return Err(Error::VersionMismatch { page: name(page), host: name(host) });
        }
        if self.tabs.contains_key(&tab) {
            return Err(invalid("message", "found a second hello, expected one"));
        }
        if let Some(lock) = lock {
            if !lock.starts_with(TAB_LOCK) || lock.len() > LONGEST_LOCK {
                return Err(invalid("tab", "found another name, expected that of a tab's lock"));
            }
            self.tasks.push(Task::Watch { tab, lock });
        }
        self.all_share &= isolation == Isolation::Shared;
        let salt = self.salt(tab, &isolation);
        self.tabs.insert(tab, Tab { visible, salt, model: None });
        let host = self.identity.lock.clone();
        Ok(Welcome { version: VERSION, protocol: PROTOCOL, host })
    }

    /// A number that pages cannot predict; tabs with the same salt share their prefix cache.
    fn salt(&self, tab: TabId, isolation: &Isolation) -> u64 {
        let own = (*isolation == Isolation::Tab).then_some(tab.0);
        let mut hasher = DefaultHasher::new();
        (self.identity.secret, isolation, own).hash(&mut hasher);
        hasher.finish()
    }

    /// A tab's model if it is loaded, and the outbox.
    fn model_of(&mut self, tab: TabId) -> Option<(&mut Ready<E>, &mut Outbox)> {
        let model = self.tabs.get(&tab)?.model?;
        Some((self.models.ready(model)?, &mut self.outbox))
    }

    /// Stops waiting for a model, for one call of a tab or for all its calls.
    fn stop_waiting(&mut self, tab: TabId, id: Option<u32>) {
        if let Some(model) = self.models.stop_waiting(tab, id) {
            self.tasks.push(Task::Abort { model });
        }
    }

    /// Assigns a model to a tab, at once or when it is loaded.
    fn load(&mut self, tab: TabId, id: u32, url: &str, options: Result<Options>) -> Result<()> {
        let options = options?;
        if let Some(bytes) = options.budget_bytes {
            self.models.set_budget(bytes);
        }
        let options = Options { budget_bytes: Some(self.models.memory().0), ..options };
        // What follows signs requests: the model is the same under each signature.
        let name = url.split_once('#').map_or(url, |(name, _)| name);
        let had =
            self.tabs.get(&tab).and_then(|tab| tab.model).and_then(|had| self.models.get(had));
        let other = had.is_some_and(|had| !had.is(name, &options));
        if other || self.models.is_waiting(tab) {
            return Err(invalid("url", "found a second model, expected one for each engine"));
        }
        let (model, is_new) = self.models.find_or_create(name, &options);
        if is_new {
            self.tasks.push(Task::Load { model, url: url.to_owned(), options });
        }
        match self.models.loading(model) {
            Some(loading) => {
                loading.waiting.push((tab, id));
                if let Some(progress) = loading.progress.clone() {
                    self.outbox.push((tab, Answer::Progress { id, progress }));
                }
            }
            None => self.assign(tab, id, model),
        }
        self.models.trim();
        Ok(())
    }

    /// Assigns a loaded model to a tab.
    fn assign(&mut self, tab: TabId, id: u32, model: ModelId) {
        let (Some(known), Some(ready)) = (self.tabs.get_mut(&tab), self.models.ready(model)) else {
            return;
        };
        known.model = Some(model);
        ready.tabs.insert(tab);
        ready.service.set_visible(tab, known.visible);
        let info = ready.info.clone();
        self.answer(tab, id, Ok(Value::Info(info)));
    }

    fn fail_load(&mut self, model: ModelId, error: &Error) {
        let waiting =
            self.models.loading(model).map(|loading| std::mem::take(&mut loading.waiting));
        self.models.remove(model);
        for (tab, id) in waiting.into_iter().flatten() {
            self.answer(tab, id, Err(error.clone()));
        }
    }

    /// The model of a tab, for a new call with this id.
    fn ready(&mut self, tab: TabId, id: u32) -> Result<&mut Ready<E>> {
        let model = self.tabs.get(&tab).and_then(|tab| tab.model);
        let ready = model.and_then(|model| self.models.ready(model)).ok_or(Error::Closed)?;
        match ready.find(tab, id).is_some() || self.preparing.contains(tab, id) {
            true => Err(invalid("id", "found that of an open call, expected a new one")),
            false => Ok(ready),
        }
    }

    /// Begins a call with what `work` gives, at once if that takes no pause.
    fn prepare<T: Prompts + 'static>(
        &mut self,
        tab: TabId,
        id: u32,
        work: Result<LocalBoxFuture<'static, Result<T>>>,
        begin: impl FnOnce(&mut Service<E>, T) -> Result<Begun> + 'static,
    ) {
        let work = match work {
            Ok(work) => work,
            Err(error) => return self.answer(tab, id, Err(error)),
        };
        if let Some(prepared) = self.preparing.insert(tab, id, work, begin) {
            self.read_or_begin(prepared);
        }
    }

    /// Begins a call.
    fn begin(&mut self, Prepared { tab, id, begin }: Prepared<E>) {
        let begun = self.ready(tab, id).and_then(|ready| {
            let begun = (begin?.begin)(&mut ready.service)?;
            if let Begun::Request(request, credit) = begun {
                let outlet = credit.map(|credit| Outlet::new(id, credit));
                ready.register(tab, id, request, outlet);
            }
            Ok(begun)
        });
        match begun {
            Ok(Begun::Answered(value)) => self.answer(tab, id, Ok(value)),
            Ok(Begun::Request(_, credit)) => {
                let accepted = credit.map(|_| (tab, Answer::Accepted { id }));
                self.outbox.extend(accepted);
            }
            Err(error) => self.answer(tab, id, Err(error)),
        }
    }

    /// Sends the error of a failed call.
    fn send_failure(&mut self, tab: TabId, id: u32, result: Result<()>) {
        if let Err(error) = result {
            self.answer(tab, id, Err(error));
        }
    }

    /// The metrics for a tab, without those of tabs whose prefix cache it does not share.
    fn metrics(&mut self, tab: TabId) -> Result<HostMetrics> {
        let (asking, heap_bytes) = (tab, self.identity.heap_bytes);
        let known = self.tabs.get(&tab).ok_or(Error::Handshake)?;
        let (model, salt) = (known.model.ok_or(Error::Closed)?, known.salt);
        let ready = self.models.ready(model).ok_or(Error::Closed)?;
        let mut engine = ready.service.metrics();
        let related = |tab: u64| self.tabs.get(&TabId(tab)).is_some_and(|tab| tab.salt == salt);
        if !self.all_share {
            engine.restrict_to(related);
        }
        let tabs = self.tabs.iter().filter(|(_, tab)| tab.salt == salt);
        let url = |model| self.models.get(model).map(|model| model.url.clone());
        let tabs = tabs.map(|(id, tab)| TabState {
            id: id.0,
            visible: tab.visible,
            model: tab.model.and_then(url),
            you: *id == asking,
        });
        let models = self.models.iter().filter_map(|(_, model)| match &model.state {
            State::Ready(ready) => Some((model, ready)),
            State::Loading(_) => None,
        });
        // A model that nobody uses any more may be another group's.
        let visible = models.filter(|(_, ready)| {
            self.all_share && ready.tabs.is_empty() || ready.tabs.iter().any(|tab| related(tab.0))
        });
        let models = visible.map(|(model, ready)| ModelState {
            url: model.url.clone(),
            bytes: model.bytes,
            tabs: ready.tabs.len(),
            requests: ready.requests(),
        });
        let (budget_bytes, used_bytes) = self.models.memory();
        let host = HostState {
            name: self.identity.lock.clone(),
            tabs: tabs.collect(),
            models: models.collect(),
            budget_bytes,
            used_bytes,
        };
        Ok(HostMetrics { engine, wasm_heap_bytes: heap_bytes(), host })
    }

    /// Answers a call.
    fn answer(&mut self, tab: TabId, id: u32, result: Result<Value>) {
        let answer = match result {
            Ok(value) => Answer::Value { id, value },
            Err(error) => Answer::Error { id, error: error.to_wire() },
        };
        self.outbox.push((tab, answer));
    }
}

fn invalid(param: &str, message: &str) -> Error {
    Error::InvalidRequest { param: param.into(), message: message.into() }
}
