//! Loads models for a host: by `fetch`, or from files that a page passes in.

use std::ops::ControlFlow;

use futures::{
    channel::{mpsc::UnboundedSender, oneshot},
    future::Either,
};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;
use web_sys::AbortSignal;

use super::{
    BrowserStore, Fetch, FetchSource, Files, ModuleCompiler,
    claim::BrowserClaim,
    environment::Environment,
    event::{Event, send},
    loaded::{LoadedModel, open_prefixes},
    store::PATIENCE,
};
use crate::{
    Error, Result, engine,
    executor::{AnyExecutor, KvKind},
    host::{
        Device, Draft, DraftInfo, Info, Inspection, Keep, Kv, ModelId, Options, Progress, Quantize,
        SlidingWindow, Stage, VERSION, prefix_root,
    },
    layout::Layout,
    load::{self, DraftWith, LoadOptions, Loaded, Opened, SharedGpu, quantise_all},
    manifest::Manifest,
    prefixes::Shape,
    service::{SamplingDefaults, Service},
    step::{Executor, Window},
    timer::within,
    weights::{self, Claim, Claimed, Parallel, Quantise, Stored, Within, acquire},
};

/// A load of the model in the folder `url`, for a host.
pub struct Load<'a> {
    pub model: ModelId,
    pub url: &'a str,
    pub options: &'a Options,
    /// Ends the load, and frees its browser resources, such as its Web Locks.
    pub signal: &'a AbortSignal,
    pub environment: &'a Environment,
    pub device: &'a SharedGpu,
    pub inbox: &'a UnboundedSender<Event>,
}

impl Load<'_> {
    /// Loads the model by `fetch` or from `files`, if the host accepts its size.
    pub async fn run(&self, files: Option<JsValue>) -> Result<LoadedModel> {
        let mut claims = Vec::new();
        let loaded = self.run_once(files.clone(), &mut claims, true).await;
        if loaded.is_ok() || self.signal.aborted() || !claims.iter().any(Claim::is_lost) {
            return loaded;
        }
        // Another worker goes on with what this one had stored.
        claims.iter().for_each(BrowserClaim::release);
        self.run_once(files, &mut Vec::new(), false).await
    }

    /// The same. If it `yields`, it ends once another worker has taken one of its claims.
    async fn run_once(
        &self,
        files: Option<JsValue>,
        claims: &mut Vec<BrowserClaim>,
        yields: bool,
    ) -> Result<LoadedModel> {
        let (is_local, options) = (files.is_some(), self.options);
        let integrity = options.integrity.clone();
        let source = match files {
            // They are on the visitor's machine already: no store is needed.
            Some(files) => {
                let files = Files::new(self.url, &files, self.signal.clone())?;
                Stored::new(Either::Right(files), None, integrity)
            }
            None => self.served(self.url, integrity, claims).await,
        };
        let drafter = match &options.draft {
            Draft::Folder(url) => Some(self.served(url, None, claims).await),
            _ => None,
        };
        let loaded = self.load_from(&source, drafter.as_ref(), claims, yields).await;
        if let Some(drafter) = &drafter {
            let came = loaded.as_ref().map(|_| ()).map_err(Error::clone);
            // Its error is also part of the model's result.
            let _ = drafter.finish(came).await;
        }
        let drafter_digest = drafter.as_ref().map(Kept::digest);
        let digests = [source.digest(), drafter_digest.unwrap_or(source.digest())];
        let (service, mut info, shape) = source.finish(loaded).await?;
        info.stored = source.is_stored() && drafter.is_none_or(|drafter| drafter.is_stored());
        let mut prefixes = None;
        if let (false, Some(shape), [Some(own), Some(drafter)]) = (is_local, shape, digests) {
            let root = prefix_root(VERSION, options, &info, [own, drafter]);
            let most = options.prefix_cache.stored_bytes;
            if let Some(store) = find_store(Keep::Opfs, self.environment).await {
                prefixes = Some(open_prefixes(store, &info.model, root, shape, most).await);
            }
        }
        Ok(LoadedModel { service, info, prefixes })
    }

    /// The files at a URL, behind the store.
    async fn served(
        &self,
        url: &str,
        integrity: Option<Manifest>,
        claims: &mut Vec<BrowserClaim>,
    ) -> Kept {
        let server = Fetch::new(Some(self.signal.clone()));
        let store = self.claim_store(url, &server, claims).await;
        let manifest = match integrity {
            Some(manifest) => Some(manifest),
            None => {
                let hub = self.options.hub.as_deref();
                weights::listed(&server, hub, url, store.as_ref()).await
            }
        };
        let source = Parallel::new(FetchSource::new(server, url));
        Stored::new(Either::Left(source), store, manifest)
    }

    /// Opens the store, and waits while another worker downloads the same files into it.
    async fn claim_store(
        &self,
        url: &str,
        server: &Fetch,
        claims: &mut Vec<BrowserClaim>,
    ) -> Option<Claimed<BrowserStore, BrowserClaim>> {
        let store = find_store(self.options.store, self.environment).await?;
        let name = weights::unsigned(url);
        let claim = self.environment.claim(&format!("tabloom {name}"), self.signal);
        let on_news = |news: &str| {
            let progress = serde_json::from_str(news).ok();
            if let Some(progress @ Progress { stage: Stage::Download, .. }) = progress {
                send(self.inbox, Event::Progress(self.model, progress));
            }
        };
        // Where locks are denied, each worker downloads for itself.
        if acquire(&claim, server, on_news).await
            && let Some(kind) = kind_of(self.options.store)
        {
            // What stays is overwritten or never read.
            let swept = JsFuture::from(self.environment.sweep(kind, name));
            let _ = within(PATIENCE, swept).await;
        }
        claims.push(claim.clone());
        Some(Claimed::new(store, Some(claim)))
    }

    async fn load_from(
        &self,
        source: &Kept,
        drafter: Option<&Kept>,
        claims: &[BrowserClaim],
        yields: bool,
    ) -> Result<(Service<AnyExecutor>, Info, Option<Shape>)> {
        let root = Within::all(source);
        let opened = Opened::open(&root).await?;
        let chat = opened.chat().await?;
        let wanted = load_options(self.options);
        let folder = match drafter {
            Some(drafter) => Within::all(drafter),
            None => opened.draft_folder().await,
        };
        let draft = opened.draft(&folder, &wanted).await;
        let prepared = opened.prepare(&wanted)?.with_draft(draft)?;
        let (go_on, agreed) = oneshot::channel();
        send(self.inbox, Event::Sized(self.model, prepared.bytes(), go_on));
        // If the size was refused, the waiting calls have got the error.
        agreed.await.map_err(|_| Error::Aborted)?;

        let mut clock = (None, 0.0);
        let on_progress = |progress: load::Progress| {
            let (stage, file, loaded, total) = match progress {
                load::Progress::Download { file, loaded, total } => {
                    (Stage::Download, file, loaded as f64, total as f64)
                }
                load::Progress::Compile { done, total } => {
                    (Stage::Compile, "", done as f64, total as f64)
                }
            };
            if clock.0 != Some(stage) {
                clock = (Some(stage), js_sys::Date::now());
            }
            let seconds = ((js_sys::Date::now() - clock.1) / 1000.0).max(1e-3);
            let rate = loaded / seconds;
            let progress = Progress { stage, file: file.into(), loaded, total, rate };
            // Serialising plain data does not fail.
            let news = serde_json::to_string(&progress).unwrap_or_default();
            claims.iter().for_each(|claim| claim.tell(&news));
            send(self.inbox, Event::Progress(self.model, progress));
            let is_lost = yields && stage == Stage::Download && claims.iter().any(Claim::is_lost);
            match is_lost || self.signal.aborted() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let loaded = prepared.load_on(self.device, on_progress).await?;
        let name = weights::unsigned(self.url);
        let info = describe(&loaded, name, chat.defaults().into());
        let seed = (js_sys::Math::random() * 2f64.powi(53)) as u64;
        let inbox = self.inbox.clone();
        let wake = move || send(&inbox, Event::Woken);
        let max_drafts = self.options.speculation.max_drafts;
        let options = engine::Options { seed, max_drafts, ..Default::default() };
        let Loaded { executor, .. } = loaded;
        let capacity = executor.capacity();
        let groups = capacity.groups.count();
        let shape =
            Shape { run: capacity.host.reads / groups, groups, lookahead: executor.lookahead() };
        let service = Service::new(executor, chat, name.into(), options, engine::steady_clock())
            .with_compiler(Box::new(ModuleCompiler::new(self.environment.load_grammar(), wake)));
        Ok((service, info, Some(shape).filter(|shape| shape.run > 0)))
    }
}

/// Begins to load the model in the folder `url`, and stops before its weights. What is not kept in the
/// store is not stored.
pub async fn inspect(
    url: &str,
    options: &Options,
    environment: &Environment,
) -> Result<Inspection> {
    let glimpsed = async |url: &str| {
        let source = Parallel::new(FetchSource::sparing(Fetch::new(None), url));
        let store = find_store(options.store, environment).await;
        let store = store.map(|store| Claimed::new(store, None));
        Kept::new(Either::Left(source), store, options.integrity.clone())
    };
    let source = glimpsed(url).await;
    let drafter = match &options.draft {
        Draft::Folder(url) => Some(glimpsed(url).await),
        _ => None,
    };
    let found = load::inspect(&source, drafter.as_ref(), &load_options(options)).await?;
    Ok(Inspection {
        weight_bytes: found.weight_bytes as f64,
        kv_bytes: found.kv_bytes as f64,
        file_bytes: found.file_bytes as f64,
    })
}

/// A source of files: a server or the page, behind a store in the browser.
type Kept = Stored<Either<Parallel<Fetch>, Files>, Claimed<BrowserStore, BrowserClaim>>;

async fn find_store(keep: Keep, environment: &Environment) -> Option<BrowserStore> {
    BrowserStore::open(environment, kind_of(keep)?).await
}

/// The name of a kind of store in `pkg-template/models/store.js`.
fn kind_of(keep: Keep) -> Option<&'static str> {
    match keep {
        Keep::Cache => Some("cache"),
        Keep::Opfs => Some("opfs"),
        Keep::None => None,
    }
}

fn load_options(options: &Options) -> LoadOptions {
    LoadOptions {
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
        budget: options.budget_bytes,
        host_bytes: options.prefix_cache.host_bytes,
        stores: options.prefix_cache.stored_bytes > 0,
        sparing: options.sparing,
        features: load::Features { subgroups: options.gpu.subgroups },
        draft: match options.draft {
            Draft::Bundled => DraftWith::Bundled,
            Draft::Nothing => DraftWith::Nothing,
            Draft::EarlyExit(layers) => DraftWith::EarlyExit(layers),
            Draft::Folder(_) => DraftWith::Separate,
        },
    }
}

fn describe(loaded: &Loaded, url: &str, sampling: SamplingDefaults) -> Info {
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
        stored: false,
        draft: loaded.draft.as_ref().map(|draft| match draft {
            Ok(bytes) => DraftInfo::WeightBytes(*bytes as f64),
            Err(error) => DraftInfo::Error(error.to_string()),
        }),
        sampling,
    }
}
