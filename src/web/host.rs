//! Runs a [`host::Host`] in a worker: passes in the messages of its ports and runs its tasks.

use std::{collections::BTreeMap, rc::Rc};

use futures::{
    StreamExt,
    channel::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
        oneshot,
    },
};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::AbortController;

use super::{
    BrowserStore,
    environment::Environment,
    event::{Event, send},
    load::{self, inspect},
    loaded::LoadedModel,
    port::{Line, Port},
    turn::Turn,
};
use crate::{
    Result,
    engine::TabId,
    executor::AnyExecutor,
    host::{self, Answer, Call, Identity, ModelId, Options, Task},
    load::SharedGpu,
    prefixes::{RunFiles, Written},
    timer,
};

/// Page size of WebAssembly memory.
const WASM_PAGE_BYTES: usize = 65_536;

/// Serves any number of message ports with one or more models.
#[wasm_bindgen]
pub struct Host {
    inbox: UnboundedSender<Event>,
}

#[wasm_bindgen]
impl Host {
    /// A host without models; it runs until its worker ends.
    #[wasm_bindgen(constructor)]
    pub fn new(environment: Environment) -> Host {
        console_error_panic_hook::set_once();
        let (inbox, events) = unbounded();
        let serving = Serving {
            host: host::Host::new(Identity {
                lock: environment.name(),
                secret: (js_sys::Math::random() * 2f64.powi(53)) as u64,
                heap_bytes: || std::arch::wasm32::memory_size::<0>() * WASM_PAGE_BYTES,
            }),
            environment,
            inbox: inbox.clone(),
            lines: BTreeMap::new(),
            connected: 0,
            files: BTreeMap::new(),
            loads: BTreeMap::new(),
            device: Rc::default(),
            runs: BTreeMap::new(),
        };
        spawn_local(serving.run(events));
        Host { inbox }
    }

    /// Serves the calls of a port.
    pub fn connect(&self, port: Port) {
        send(&self.inbox, Event::Connected(port));
    }
}

/// The running host.
struct Serving {
    host: host::Host<AnyExecutor>,
    environment: Environment,
    inbox: UnboundedSender<Event>,
    lines: BTreeMap<TabId, Line>,
    /// Number of ports connected so far; the next tab id.
    connected: u64,
    /// The URLs and files of local models, by the tab that passed them in.
    files: BTreeMap<TabId, (String, JsValue)>,
    /// The loads in progress.
    loads: BTreeMap<ModelId, Load>,
    /// The device of all models.
    device: Rc<SharedGpu>,
    /// The files of stored prefixes.
    runs: BTreeMap<ModelId, Rc<RunFiles<BrowserStore>>>,
}

/// A model that is loading.
struct Load {
    /// Aborts it, and releases its browser resources.
    controller: AbortController,
    /// The tab that passed in its files.
    from: Option<TabId>,
    url: String,
    options: Options,
}

impl Serving {
    /// Handles events and steps the models, in turn, forever.
    async fn run(mut self, mut events: UnboundedReceiver<Event>) {
        let turn = Turn::new();
        loop {
            let event = match self.host.is_idle() {
                true => match events.next().await {
                    Some(event) => Some(event),
                    None => return,
                },
                false => events.try_recv().ok(),
            };
            match event {
                Some(event) => self.handle(event),
                None => {
                    self.host.step(async || turn.end().await).await;
                    // Let the event loop deliver messages, even if the step never had to wait.
                    turn.end().await;
                }
            }
            for (tab, answer) in self.host.take_answers() {
                self.send(tab, &answer);
            }
            for task in self.host.take_tasks() {
                self.run_task(task);
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Connected(port) => {
                let (tab, inbox) = (TabId(self.connected), self.inbox.clone());
                self.connected += 1;
                let line = Line::open(port, self.environment.to_json(), move |call, files| {
                    send(&inbox, Event::Called(tab, call, files))
                });
                self.lines.insert(tab, line);
            }
            Event::Called(tab, call, files) => {
                if let Ok(Call::Load { url, files: Some(_), .. }) = &call {
                    self.files.insert(tab, (url.clone(), files));
                }
                self.host.receive(tab, call);
            }
            Event::Gone(tab) => self.host.close(tab),
            Event::Sized(model, bytes, go_on) => {
                if self.host.sized(model, bytes) {
                    // The load may have been aborted meanwhile.
                    let _ = go_on.send(());
                }
            }
            Event::Progress(model, progress) => self.host.progress(model, &progress),
            Event::Loaded(model, result) => {
                let load = self.end_load(model);
                match load.filter(|load| result.is_err() && self.can_retry(load)) {
                    Some(Load { url, options, .. }) => {
                        self.run_task(Task::Load { model, url, options });
                    }
                    None => self.loaded(model, *result),
                }
            }
            Event::Written(model, run, written) => {
                let Some((dropped, record)) = self.host.written(model, run.clone(), written) else {
                    return;
                };
                let Some((runs, inbox)) = self.runs_of(model) else { return };
                spawn_local(async move {
                    let is_deleted = runs.write_record(&run, record, &dropped).await;
                    send(&inbox, Event::Recorded(model, is_deleted));
                });
            }
            Event::Recorded(model, is_deleted) => self.host.recorded(model, is_deleted),
            Event::Read(model, call, run, blocks, go_on) => {
                self.host.read(model, call, &run, blocks.as_ref());
                // The time for reading may be up.
                let _ = go_on.send(());
            }
            Event::ReadAll(tab, id) => self.host.begin_read(tab, id),
            Event::Inspected(tab, id, result) => self.host.inspected(tab, id, result),
            Event::Woken => {}
        }
    }

    fn loaded(&mut self, model: ModelId, result: Result<LoadedModel>) {
        let (loaded, prefixes) = match result {
            Ok(LoadedModel { service, info, prefixes }) => (Ok((service, info)), prefixes),
            Err(error) => (Err(error), None),
        };
        self.host.loaded(model, loaded);
        self.runs.retain(|model, _| self.host.has(*model));
        if let Some((prefixes, files)) = prefixes {
            self.runs.insert(model, Rc::new(files));
            self.host.store_prefixes(model, prefixes);
        }
    }

    /// The files of a model's stored prefixes, and where to send what comes of them.
    fn runs_of(
        &self,
        model: ModelId,
    ) -> Option<(Rc<RunFiles<BrowserStore>>, UnboundedSender<Event>)> {
        Some((self.runs.get(&model)?.clone(), self.inbox.clone()))
    }

    /// Aborts a load if it is not over, and releases its browser resources.
    fn end_load(&mut self, model: ModelId) -> Option<Load> {
        let load = self.loads.remove(&model)?;
        load.controller.abort();
        Some(load)
    }

    /// Whether to load again: the tab that passed in the model's files is gone, perhaps with their bytes,
    /// and another tab has passed in the same files.
    fn can_retry(&self, load: &Load) -> bool {
        load.from.is_some_and(|tab| !self.files.contains_key(&tab))
            && self.files.values().any(|(name, _)| *name == load.url)
    }

    fn run_task(&mut self, task: Task) {
        match task {
            Task::Load { model, url, options } => {
                let Ok(controller) = AbortController::new() else { return };
                let (signal, inbox) = (controller.signal(), self.inbox.clone());
                let (environment, device) = (self.environment.clone(), self.device.clone());
                let mut local = self.files.iter().filter(|(_, (name, _))| *name == url);
                let (from, files) =
                    local.next().map(|(tab, (_, files))| (*tab, files.clone())).unzip();
                let (name, how) = (url.clone(), options.clone());
                self.loads.insert(model, Load { controller, from, url: name, options: how });
                spawn_local(async move {
                    let load = load::Load {
                        model,
                        url: &url,
                        options: &options,
                        signal: &signal,
                        environment: &environment,
                        device: &device,
                        inbox: &inbox,
                    };
                    let result = load.run(files).await;
                    send(&inbox, Event::Loaded(model, Box::new(result)));
                });
            }
            Task::Inspect { tab, id, url, options } => {
                let (environment, inbox) = (self.environment.clone(), self.inbox.clone());
                spawn_local(async move {
                    let result = inspect(&url, &options, &environment).await;
                    send(&inbox, Event::Inspected(tab, id, result));
                });
            }
            Task::Abort { model } => drop(self.end_load(model)),
            Task::Write { model } => {
                let Some((runs, inbox)) = self.runs_of(model) else { return };
                let Some((run, read)) = self.host.next_run(model) else { return };
                spawn_local(async move {
                    let written = match read.await {
                        Some(blocks) => runs.write(&run, &blocks).await,
                        None => Written::Refused,
                    };
                    send(&inbox, Event::Written(model, run, written));
                });
            }
            Task::Read { model, tab, id, runs: wanted, groups, within } => {
                let Some((runs, inbox)) = self.runs_of(model) else {
                    return self.host.begin_read(tab, id);
                };
                spawn_local(async move {
                    let read = async {
                        for run in wanted {
                            let blocks = runs.read(&run, groups).await;
                            let is_whole = blocks.is_some();
                            let (go_on, taken) = oneshot::channel();
                            send(&inbox, Event::Read(model, (tab, id), run, blocks, go_on));
                            if !is_whole || taken.await.is_err() {
                                break;
                            }
                        }
                    };
                    let _ = timer::within(within, read).await;
                    send(&inbox, Event::ReadAll(tab, id));
                });
            }
            Task::Watch { tab, lock } => {
                let Ok(gone) = self.environment.when_gone(&lock) else { return };
                let inbox = self.inbox.clone();
                spawn_local(async move {
                    // Fails only without Web Locks, and then no tab names one.
                    if JsFuture::from(gone).await.is_ok() {
                        send(&inbox, Event::Gone(tab));
                    }
                });
            }
            Task::ClosePort { tab } => {
                self.files.remove(&tab);
                self.lines.remove(&tab);
            }
        }
    }

    fn send(&self, tab: TabId, answer: &Answer) {
        if let Some(line) = self.lines.get(&tab) {
            line.send(answer);
        }
    }
}
