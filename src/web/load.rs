//! Loads models for a host: by `fetch`, or from files that a page passes in.

use std::{ops::ControlFlow, pin::pin, time::Duration};

use futures::{
    channel::{mpsc::UnboundedSender, oneshot},
    future::{Either, select},
};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;
use web_sys::AbortSignal;

use super::{
    BrowserStore, Fetch, FetchSource, Files, ModuleCompiler,
    environment::Environment,
    event::{Event, send},
    loaded::{LoadedModel, open_prefixes, prefix_root},
};
use crate::{
    Error, Result, engine,
    executor::{AnyExecutor, KvKind},
    host::{
        Device, Draft, DraftInfo, Info, Inspection, Keep, Kv, ModelId, Options, Progress, Quantize,
        SlidingWindow,
    },
    layout::Layout,
    load::{self, DraftWith, LoadOptions, Loaded, Opened, SharedGpu, quantise_all},
    manifest::Manifest,
    prefixes::Shape,
    service::{SamplingDefaults, Service},
    step::{Executor, Window},
    weights::{self, Parallel, Quantise, Server, Stored, Within},
};

/// Longest wait for another worker that loads the same model: it may be frozen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Loads the model in the folder `url`, or from `files`, if the host accepts its size.
///
/// The load keeps browser resources, such as its Web Lock, until `signal` is aborted.
pub async fn load(
    model: ModelId,
    url: &str,
    files: Option<JsValue>,
    options: &Options,
    signal: AbortSignal,
    environment: &Environment,
    (device, inbox): (&SharedGpu, &UnboundedSender<Event>),
) -> Result<LoadedModel> {
    let is_local = files.is_some();
    let integrity = options.integrity.clone();
    let source = match files {
        // They are on the visitor's machine already: no store is needed.
        Some(files) => {
            let files = Files::new(url, &files, signal.clone())?;
            Stored::new(Either::Right(files), None, integrity)
        }
        None => served(url, integrity, options, &signal, environment).await,
    };
    let drafter = match &options.draft {
        Draft::Folder(url) => Some(served(url, None, options, &signal, environment).await),
        _ => None,
    };
    let sources = (&source, drafter.as_ref());
    let loaded =
        load_from(sources, model, url, options, signal, environment, (device, inbox)).await;
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
        let root = prefix_root(options, &info, [own, drafter]);
        let most = options.prefix_cache.stored_bytes;
        if let Some(store) = find_store(Keep::Opfs, environment).await {
            prefixes = Some(open_prefixes(store, &info.model, root, shape, most).await);
        }
    }
    Ok(LoadedModel { service, info, prefixes })
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
type Kept = Stored<Either<Parallel<Fetch>, Files>, BrowserStore>;

/// The files at a URL, behind the store.
async fn served(
    url: &str,
    integrity: Option<Manifest>,
    options: &Options,
    signal: &AbortSignal,
    environment: &Environment,
) -> Kept {
    let server = Fetch::new(Some(signal.clone()));
    let store = open_store(url, options.store, &server, signal, environment).await;
    let manifest = match integrity {
        Some(manifest) => Some(manifest),
        None => weights::listed(&server, options.hub.as_deref(), url, store.as_ref()).await,
    };
    let source = Parallel::new(FetchSource::new(server, url));
    Stored::new(Either::Left(source), store, manifest)
}

/// Opens the store, and waits while another worker downloads the same model.
async fn open_store(
    url: &str,
    keep: Keep,
    server: &Fetch,
    signal: &AbortSignal,
    environment: &Environment,
) -> Option<BrowserStore> {
    let store = find_store(keep, environment).await?;
    // After the wait, the other worker's files are in the store. If the lock is denied, do not wait.
    let held = environment.hold(&format!("tabloom {}", weights::unsigned(url)), signal);
    select(pin!(JsFuture::from(held)), pin!(server.wait(PATIENCE))).await;
    Some(store)
}

async fn find_store(keep: Keep, environment: &Environment) -> Option<BrowserStore> {
    let kind = match keep {
        Keep::Cache => "cache",
        Keep::Opfs => "opfs",
        Keep::None => return None,
    };
    BrowserStore::new(JsFuture::from(environment.open_store(kind)).await.ok()?)
}

async fn load_from(
    (source, drafter): (&Kept, Option<&Kept>),
    model: ModelId,
    url: &str,
    options: &Options,
    signal: AbortSignal,
    environment: &Environment,
    (device, inbox): (&SharedGpu, &UnboundedSender<Event>),
) -> Result<(Service<AnyExecutor>, Info, Option<Shape>)> {
    let root = Within::all(source);
    let opened = Opened::open(&root).await?;
    let chat = opened.chat().await?;
    let wanted = load_options(options);
    let folder = match drafter {
        Some(drafter) => Within::all(drafter),
        None => opened.draft_folder().await,
    };
    let draft = opened.draft(&folder, &wanted).await;
    let prepared = opened.prepare(&wanted)?.with_draft(draft)?;
    let (go_on, agreed) = oneshot::channel();
    send(inbox, Event::Sized(model, prepared.bytes(), go_on));
    // If the size was refused, the waiting calls have got the error.
    agreed.await.map_err(|_| Error::Aborted)?;

    let mut clock = ("", 0.0);
    let on_progress = |progress: load::Progress| {
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
        send(inbox, Event::Progress(model, progress));
        match signal.aborted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let loaded = prepared.load_on(device, on_progress).await?;
    let name = weights::unsigned(url);
    let info = describe(&loaded, name, chat.defaults().into());
    let seed = (js_sys::Math::random() * 2f64.powi(53)) as u64;
    let inbox = inbox.clone();
    let wake = move || send(&inbox, Event::Woken);
    let max_drafts = options.speculation.max_drafts;
    let options = engine::Options { seed, max_drafts, ..Default::default() };
    let Loaded { executor, .. } = loaded;
    let capacity = executor.capacity();
    let groups = capacity.groups.count();
    let shape =
        Shape { run: capacity.host.reads / groups, groups, lookahead: executor.lookahead() };
    let service = Service::new(executor, chat, name.into(), options, engine::steady_clock())
        .with_compiler(Box::new(ModuleCompiler::new(environment.load_grammar(), wake)));
    Ok((service, info, Some(shape).filter(|shape| shape.run > 0)))
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
