//! A host with toy models, and pages that send it JSON as browsers do.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    rc::Rc,
    sync::OnceLock,
    time::Duration,
};

use serde_json::{Value, json};
use tabloom::{
    Error, Result,
    engine::{Clock, Options, TabId, steady_clock},
    host::{Call, Host, Identity, Info, ModelId, PROTOCOL, Task, VERSION},
    service::Service,
    step::HostMemory,
    text::{Chat, ChatFiles},
};

use super::toy::{Device, Toy};

/// A host, the messages to its pages, and its pending work.
pub struct World {
    pub host: Host<Toy>,
    pub tasks: Vec<Task>,
    /// Models loaded so far.
    pub loads: usize,
    /// Run time of the executors of later models.
    pub fails_after: Option<usize>,
    /// The device of later models and the time of their steps there; if `None`, steps take no time.
    pub device: Option<(Rc<Device>, Duration)>,
    /// Where later models can keep blocks beside the device.
    pub host_memory: HostMemory,
    /// Bytes of every model.
    pub bytes: u64,
    told: BTreeMap<TabId, Vec<Value>>,
    loading: Vec<(ModelId, String)>,
    /// The models that are to do with less memory.
    sparing: BTreeSet<ModelId>,
    connected: u64,
}

/// A tab that has said hello.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub tab: TabId,
}

/// The first message of a page.
pub fn hello() -> Value {
    json!({"type": "hello", "id": 0, "version": VERSION, "protocol": PROTOCOL, "tab": null, "visible": true})
}

/// The tokens of a choice in a stream's chunks.
pub fn tokens(answers: &[Value], index: u32) -> Vec<u64> {
    let chunks = answers.iter().filter(|answer| answer["value"]["choices"][0]["index"] == index);
    let tokens = chunks.filter_map(|chunk| chunk["tokens"].as_array());
    tokens.flatten().map(|token| token.as_u64().unwrap()).collect()
}

/// The text of a choice in a stream's chunks.
pub fn text(answers: &[Value], index: u32) -> String {
    let choices = answers.iter().map(|answer| &answer["value"]["choices"][0]);
    let chunks = choices.filter(|choice| choice["index"] == index);
    chunks.filter_map(|choice| choice["delta"]["content"].as_str()).collect()
}

impl World {
    pub fn new() -> World {
        let identity = Identity {
            lock: Some("tabloom host test".into()),
            secret: fastrand::u64(..),
            heap_bytes: || 65_536,
        };
        World {
            host: Host::new(identity),
            tasks: Vec::new(),
            loads: 0,
            fails_after: None,
            device: None,
            host_memory: HostMemory::NONE,
            bytes: 100,
            told: BTreeMap::new(),
            loading: Vec::new(),
            sparing: BTreeSet::new(),
            connected: 0,
        }
    }

    /// Pages that have loaded the models of these addresses.
    pub fn pages<const N: usize>(&mut self, urls: [&str; N]) -> [Page; N] {
        urls.map(|url| {
            let page = Page::greet(self);
            page.load(self, 0, url);
            self.finish_loads();
            let answers = self.take(page.tab);
            assert_eq!(answers.last().unwrap()["value"]["model"], url, "{answers:?}");
            page
        })
    }

    /// A port without messages yet.
    pub fn connect(&mut self) -> TabId {
        self.connected += 1;
        TabId(self.connected)
    }

    /// Receives a message from a page.
    pub fn post(&mut self, tab: TabId, message: Value) {
        self.host.receive(tab, Call::read(&message.to_string()));
        self.collect();
    }

    pub fn step(&mut self) {
        pollster::block_on(self.host.step(async || ()));
        self.collect();
    }

    /// Steps until there is nothing to do.
    pub fn run(&mut self) {
        let steps = (0..10_000).take_while(|_| {
            let busy = !self.host.is_idle();
            self.step();
            busy
        });
        assert!(steps.count() < 10_000, "the host never rests");
    }

    /// Messages to a page since the last call.
    pub fn take(&mut self, tab: TabId) -> Vec<Value> {
        self.told.remove(&tab).unwrap_or_default()
    }

    /// Errors sent to a page since the last call.
    pub fn codes(&mut self, tab: TabId) -> Vec<String> {
        let answers = self.take(tab);
        answers
            .iter()
            .map(|answer| answer["error"]["code"].as_str().unwrap_or("none").into())
            .collect()
    }

    pub fn metrics(&mut self, page: &Page) -> Value {
        let before = self.take(page.tab);
        self.post(page.tab, json!({"type": "metrics", "id": 4_000_000_000u32}));
        let metrics = self.take(page.tab).remove(0);
        self.told.insert(page.tab, before);
        metrics["value"].clone()
    }

    /// The models whose files are being read.
    pub fn loading(&self) -> Vec<&str> {
        self.loading.iter().map(|(_, url)| url.as_str()).collect()
    }

    /// Loads what was requested.
    pub fn finish_loads(&mut self) {
        while !self.loading.is_empty() {
            let (model, url) = self.loading.remove(0);
            if self.host.sized(model, self.bytes) {
                self.finish_load(model, Ok(url));
            }
            self.collect();
        }
    }

    /// The model of the first requested load.
    pub fn next_load(&mut self) -> ModelId {
        self.loading.remove(0).0
    }

    /// Whether a load does with less memory.
    pub fn sparing(&self, model: ModelId) -> bool {
        self.sparing.contains(&model)
    }

    /// Ends a load.
    pub fn finish_load(&mut self, model: ModelId, result: Result<String, Error>) {
        self.loads += usize::from(result.is_ok());
        let fails_after = self.fails_after;
        let device = self.device.clone();
        let host = self.host_memory;
        let loaded = result.map(|url| {
            let (mut toy, clock) = match device {
                Some((device, step)) => {
                    let clock: Clock = Box::new({
                        let device = device.clone();
                        move || device.now()
                    });
                    (Toy::on(device, step), clock)
                }
                None => (Toy::new(), steady_clock()),
            };
            (toy.fails_after, toy.host) = (fails_after, host);
            // How many steps a prompt takes must not depend on the machine.
            let options = Options { step_seconds: f64::INFINITY, ..Options::default() };
            let service = Service::new(toy, chat(), url.clone(), options, clock);
            let info = Info {
                model: url,
                architecture: "Toy".into(),
                device: "cpu",
                adapter: "none".into(),
                software: true,
                context: 512,
                weight_bytes: 0.0,
                draft: None,
                stored: false,
                sampling: chat().defaults().into(),
            };
            (service, info)
        });
        self.host.loaded(model, loaded);
        self.collect();
    }

    /// Processes the host's messages and its pending work.
    pub fn collect(&mut self) {
        for (tab, answer) in self.host.take_answers() {
            self.told.entry(tab).or_default().push(serde_json::to_value(answer).unwrap());
        }
        for task in self.host.take_tasks() {
            match task {
                Task::Load { model, url, options } => {
                    self.sparing.extend(options.sparing.then_some(model));
                    self.loading.push((model, url));
                }
                Task::Abort { model } => self.loading.retain(|(other, _)| *other != model),
                other => self.tasks.push(other),
            }
        }
    }
}

impl Page {
    pub fn greet(world: &mut World) -> Page {
        Page::greet_with(world, json!("shared"))
    }

    pub fn greet_with(world: &mut World, isolation: Value) -> Page {
        let page = Page { tab: world.connect() };
        let mut hello = hello();
        hello["isolation"] = isolation;
        world.post(page.tab, hello);
        assert_eq!(world.take(page.tab)[0]["value"]["protocol"], PROTOCOL);
        page
    }

    pub fn load(&self, world: &mut World, id: u32, url: &str) {
        world.post(self.tab, json!({"type": "load", "id": id, "url": url, "options": {}}));
    }

    /// Sends a request with a seed derived from the call's id, and unlimited credit for chunks.
    pub fn chat(&self, world: &mut World, id: u32, fields: Value) {
        world.post(self.tab, chat_call(id, fields));
    }
}

/// A call with a seed derived from its id.
pub fn chat_call(id: u32, fields: Value) -> Value {
    call("chat", id, json!({"messages": [{"role": "user", "content": "Hi!"}]}), fields)
}

/// The same as [`chat_call`], for text completions.
pub fn complete_call(id: u32, fields: Value) -> Value {
    call("complete", id, json!({"prompt": "Hi!"}), fields)
}

fn call(kind: &str, id: u32, question: Value, fields: Value) -> Value {
    let mut request = json!({"seed": id, "ignore_eos": true});
    request.as_object_mut().unwrap().extend(question.as_object().unwrap().clone());
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let moment = json!({"now": 1_800_000_000, "entropy": id});
    json!({"type": kind, "id": id, "request": request, "moment": moment, "credit": 60_000, "resume": null})
}

/// The built-in model's tokenizer and template.
pub fn chat() -> Chat {
    static FILES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let [tokenizer, config] = FILES.get_or_init(|| {
        let folder = format!("{}/www/model", env!("CARGO_MANIFEST_DIR"));
        ["tokenizer.json", "tokenizer_config.json"]
            .map(|file| fs::read(format!("{folder}/{file}")).expect("the built-in model is there"))
    });
    Chat::new(&ChatFiles { tokenizer, tokenizer_config: Some(config), ..Default::default() })
        .expect("a valid model")
}
