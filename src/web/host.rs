//! The engine's side of the message ports: takes calls, runs the model, answers.

use std::{cell::RefCell, collections::HashMap, ops::ControlFlow, rc::Rc};

use futures::{
    StreamExt,
    channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
};
use serde::Serialize;
use wasm_bindgen::prelude::*;
use web_sys::{AbortController, MessageEvent, MessagePort};

use super::{
    FetchSource, ModuleCompiler,
    protocol::{
        Answer, Call, Device, HostMetrics, Info, Kv, Options, Progress, Quantize, SlidingWindow,
    },
    turn::Turn,
};
use crate::{
    Error, Result,
    api::{ChatCompletionRequest, EmbeddingRequest},
    engine::{self, RequestId, TabId},
    executor::{AnyExecutor, KvKind},
    layout::Layout,
    load::{self, LoadOptions, Loaded, quantise_all},
    service::{Moment, Reply, Service},
    step::Window,
    weights::Quantise,
};

/// The unit that WebAssembly memory grows by.
const WASM_PAGE_BYTES: usize = 65_536;

/// Serves any number of message ports with one model.
#[wasm_bindgen]
pub struct Host {
    inbox: UnboundedSender<Message>,
    loads: Loads,
}

/// A call and the port it came from.
struct Message {
    port: Port,
    call: Result<Call, (u32, Error)>,
}

/// A port that knows how to send answers.
#[derive(Clone)]
struct Port {
    id: usize,
    port: MessagePort,
}

/// Loads under way, which a cancel has to reach before the inbox is read again.
type Loads = Rc<RefCell<HashMap<(usize, u32), AbortController>>>;

#[wasm_bindgen]
impl Host {
    /// A host without a model; it runs until its worker ends. `load_grammar` gives a promise of the
    /// module of constrained answers.
    #[wasm_bindgen(constructor)]
    pub fn new(load_grammar: js_sys::Function) -> Host {
        console_error_panic_hook::set_once();
        let (inbox, messages) = unbounded();
        let loads = Loads::default();
        wasm_bindgen_futures::spawn_local(serve(messages, loads.clone(), load_grammar));
        Host { inbox, loads }
    }

    /// Takes calls from a port and answers there.
    pub fn connect(&self, port: MessagePort) {
        thread_local!(static NEXT: RefCell<usize> = const { RefCell::new(0) });
        let id = NEXT.with_borrow_mut(|next| std::mem::replace(next, *next + 1));
        let (inbox, loads) = (self.inbox.clone(), self.loads.clone());
        let sender = Port { id, port: port.clone() };
        let on_message = Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| {
            let call = read_call(event.data());
            match &call {
                Ok(Call::Load { id, .. }) => {
                    if let Ok(controller) = AbortController::new() {
                        loads.borrow_mut().insert((sender.id, *id), controller);
                    }
                }
                Ok(Call::Cancel { id }) => {
                    if let Some(controller) = loads.borrow().get(&(sender.id, *id)) {
                        controller.abort();
                    }
                }
                _ => {}
            }
            // The loop that reads the inbox lives as long as the worker.
            let _ = inbox.unbounded_send(Message { port: sender.clone(), call });
        });
        port.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
        // The port owns its handler from here on.
        on_message.forget();
    }
}

impl Port {
    fn send<T: Serialize>(&self, answer: &Answer<T>) {
        let serializer = serde_wasm_bindgen::Serializer::json_compatible();
        match answer.serialize(&serializer) {
            Ok(value) => {
                if let Err(error) = self.port.post_message(&value) {
                    log::error!("an answer could not be posted: {error:?}");
                }
            }
            Err(error) => log::error!("an answer could not be turned into a message: {error}"),
        }
    }

    /// Each port is a tab to the engine.
    fn tab(&self) -> TabId {
        TabId(self.id as u64)
    }

    fn fail(&self, id: u32, error: &Error) {
        self.send::<()>(&Answer::Error { id, error: error.to_wire() });
    }
}

/// Reads a message; what is wrong with it is told to the id it carries.
fn read_call(data: JsValue) -> Result<Call, (u32, Error)> {
    let id = js_sys::Reflect::get(&data, &"id".into()).ok().and_then(|id| id.as_f64());
    serde_wasm_bindgen::from_value(data).map_err(|error| {
        let error = Error::InvalidRequest { param: "request".into(), message: error.to_string() };
        (id.unwrap_or_default() as u32, error)
    })
}

/// Reads the inbox and runs the model, one after the other, for ever.
async fn serve(
    mut messages: UnboundedReceiver<Message>,
    loads: Loads,
    load_grammar: js_sys::Function,
) {
    let mut session = None;
    let turn = Turn::new();
    loop {
        let idle = session.as_ref().is_none_or(Session::is_idle);
        let message = match idle {
            true => match messages.next().await {
                Some(message) => Some(message),
                None => return,
            },
            false => messages.try_recv().ok(),
        };
        match (message, &mut session) {
            (Some(message), session) => handle(message, session, &loads, &load_grammar).await,
            (None, Some(session)) => session.step(&turn).await,
            (None, None) => {}
        }
    }
}

async fn handle(
    message: Message,
    session: &mut Option<Session>,
    loads: &Loads,
    load_grammar: &js_sys::Function,
) {
    let Message { port, call } = message;
    match call {
        Err((id, error)) => port.fail(id, &error),
        Ok(Call::Load { id, url, options }) => {
            let key = (port.id, id);
            // The old model's memory comes free before the new one takes its own.
            if let Some(old) = session.take() {
                old.close();
            }
            let result = match options {
                Ok(options) => load_model(&port, id, url, &options, loads, load_grammar).await,
                Err(error) => Err(error),
            };
            loads.borrow_mut().remove(&key);
            match result {
                Ok((new, info)) => {
                    *session = Some(new);
                    port.send(&Answer::Value { id, value: info });
                }
                Err(error) => port.fail(id, &error),
            }
        }
        Ok(Call::Chat { id, request }) => match session {
            Some(session) => session.chat(port, id, *request),
            None => port.fail(id, &Error::Closed),
        },
        Ok(Call::Embed { id, request }) => match session {
            Some(session) => session.embed(port, id, request),
            None => port.fail(id, &Error::Closed),
        },
        Ok(Call::Metrics { id }) => match session {
            Some(session) => port.send(&Answer::Value { id, value: session.metrics() }),
            None => port.fail(id, &Error::Closed),
        },
        Ok(Call::Cancel { id }) => {
            if let Some(session) = session {
                session.cancel(&port, id);
            }
        }
    }
}

async fn load_model(
    port: &Port,
    id: u32,
    url: String,
    options: &Options,
    loads: &Loads,
    load_grammar: &js_sys::Function,
) -> Result<(Session, Info)> {
    let signal = loads.borrow().get(&(port.id, id)).map(AbortController::signal);
    let source = FetchSource::new(&url, signal.clone());
    let options = LoadOptions {
        device: match options.device {
            Device::Auto | Device::Gpu => load::Device::Gpu,
            Device::Cpu => load::Device::Cpu,
        },
        quantise: match options.quantize {
            Quantize::Keep => Quantise::KEEP,
            Quantize::W8 => quantise_all(Layout::W8 { group: 32 }),
            Quantize::W4 => quantise_all(Layout::W4 { group: 32 }),
        },
        context: options.context,
        window: options
            .sliding_window
            .map(|SlidingWindow { sinks, tokens }| Window { sinks, tokens }),
        kv: match options.kv {
            Kv::F16 => KvKind::F16,
            Kv::Int8 => KvKind::Int8,
        },
        kv_bytes: options.kv_bytes,
    };
    let mut clock = ("", 0.0);
    let model = load::model(&source, &options, |progress| {
        let (stage, file, loaded, total) = match progress {
            load::Progress::Download { file, loaded, total } => {
                ("download", file, loaded as f64, total as f64)
            }
            load::Progress::Compile { done, total } => ("compile", "", done as f64, total as f64),
        };
        if clock.0 != stage {
            clock = (stage, js_sys::Date::now());
        }
        let seconds = ((js_sys::Date::now() - clock.1) / 1000.0).max(1e-3);
        let rate = loaded / seconds;
        let progress = Progress { stage, file: file.into(), loaded, total, rate };
        port.send::<()>(&Answer::Progress { id, progress });
        match signal.as_ref().is_some_and(|signal| signal.aborted()) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })
    .await?;
    let info = describe(&model.loaded, &url);
    let seed = (js_sys::Math::random() * 2f64.powi(53)) as u64;
    let options = engine::Options { seed, ..Default::default() };
    let Loaded { executor, .. } = model.loaded;
    let service = Service::new(executor, model.chat, url, options, engine::steady_clock())
        .with_compiler(Box::new(ModuleCompiler::new(load_grammar.clone())));
    Ok((Session { service, asked: HashMap::new() }, info))
}

fn describe(loaded: &Loaded, url: &str) -> Info {
    let (device, adapter, software) = match &loaded.executor {
        AnyExecutor::Gpu(executor) => {
            let adapter = &executor.gpu().adapter;
            ("gpu", adapter.name.clone(), adapter.software)
        }
        AnyExecutor::Cpu(_) => ("cpu", "processor, without WebGPU".into(), true),
    };
    Info {
        model: url.into(),
        architecture: loaded.config.architecture.clone(),
        device,
        adapter,
        software,
        context: loaded.context,
        weight_bytes: loaded.weight_bytes as f64,
    }
}

/// A loaded model and who waits for which answer.
struct Session {
    service: Service<AnyExecutor>,
    /// The port and call id of each request.
    asked: HashMap<RequestId, (Port, u32)>,
}

impl Session {
    fn is_idle(&self) -> bool {
        self.service.is_idle()
    }

    fn chat(&mut self, port: Port, id: u32, request: Result<ChatCompletionRequest>) {
        let moment = Moment {
            tab: port.tab(),
            now: (js_sys::Date::now() / 1000.0) as u64,
            entropy: (js_sys::Math::random() * 2f64.powi(53)) as u64,
            salt: 0,
        };
        let submitted = request.and_then(ChatCompletionRequest::validate).and_then(|request| {
            let stream = request.stream;
            Ok((self.service.submit(request, moment, &[])?, stream))
        });
        match submitted {
            Ok((request, stream)) => {
                if stream {
                    port.send::<()>(&Answer::Accepted { id });
                }
                self.asked.insert(request, (port, id));
            }
            Err(error) => port.fail(id, &error),
        }
    }

    fn embed(&mut self, port: Port, id: u32, request: Result<EmbeddingRequest>) {
        let checked = request.and_then(EmbeddingRequest::validate);
        match checked.and_then(|request| self.service.embed(request, port.tab(), 0)) {
            Ok(request) => {
                self.asked.insert(request, (port, id));
            }
            Err(error) => port.fail(id, &error),
        }
    }

    fn cancel(&mut self, port: &Port, id: u32) {
        let asked = |(of, call): &(Port, u32)| of.id == port.id && *call == id;
        let request = self.asked.iter().find(|(_, caller)| asked(caller)).map(|(id, _)| *id);
        if let Some(request) = request {
            self.asked.remove(&request);
            self.service.cancel(request);
        }
    }

    /// Ends every request; who waits is told.
    fn close(self) {
        for (port, id) in self.asked.values() {
            port.fail(*id, &Error::Closed);
        }
    }

    fn metrics(&self) -> HostMetrics {
        HostMetrics {
            engine: self.service.metrics(),
            wasm_heap_bytes: std::arch::wasm32::memory_size::<0>() * WASM_PAGE_BYTES,
        }
    }

    async fn step(&mut self, turn: &Turn) {
        match self.service.step().await {
            Ok(replies) => {
                for (request, reply) in replies {
                    self.reply(request, reply);
                }
            }
            // Whoever asked has been told; later calls are told by the service.
            Err(error) => log::error!("the engine has stopped: {error}"),
        }
        // Messages that came meanwhile are delivered now, even if the step never had to wait.
        turn.end().await;
    }

    fn reply(&mut self, request: RequestId, reply: Reply) {
        let Some((port, id)) = self.asked.get(&request).cloned() else { return };
        match reply {
            Reply::Chunk { value, .. } => return port.send::<()>(&Answer::Chunk { id, value }),
            Reply::End => port.send::<()>(&Answer::End { id }),
            Reply::Completion(value) => port.send(&Answer::Value { id, value }),
            Reply::Embeddings(value) => port.send(&Answer::Value { id, value }),
            Reply::Error(error) => port.fail(id, &error),
        }
        self.asked.remove(&request);
    }
}
