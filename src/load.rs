//! Loads a model from a folder of files: configuration, tokenizer, weights, executor.

mod capacity;
mod inspect;
mod options;
mod parts;
mod texts;

use std::{cell::Cell, ops::ControlFlow};

use futures::future::Either;

pub use crate::gpu::SharedGpu;
use crate::{
    Error, Result,
    executor::{
        AnyExecutor, CpuExecutor, Drafter, GpuExecutor, KvKind, block_bytes, gpu_kv_kinds,
        host_kv_kinds,
    },
    gpu::{Power, Subgroups},
    layout::Layout,
    model::{DraftConfig, DraftProgram, ModelConfig, Quantization},
    step::{Capacity, Executor},
    text::{Chat, Tokenizer},
    weights::{
        self, Checkpoint, GpuSink, HostSink, LoadPlan, PreparedDraft, Quantise, Source, WeightSink,
        Within,
    },
};

pub use capacity::capacity;
use capacity::{draft_block_bytes, sized};
pub use inspect::{Inspection, inspect};
pub use options::{Device, DraftWith, Features, LoadOptions};
use parts::Part;

/// The progress of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Bytes of all weight files together; `file` is being read.
    Download { file: &'a str, loaded: u64, total: u64 },
    /// Number of compiled kernels.
    Compile { done: usize, total: usize },
}

/// A model that is ready to chat.
pub struct Model {
    pub chat: Chat,
    pub loaded: Loaded,
}

/// The destination of weights.
type AnySink<'a, 'g> = Either<&'a mut HostSink, &'a mut GpuSink<'g>>;

/// A loaded model without its tokenizer.
pub struct Loaded {
    pub config: ModelConfig,
    pub executor: AnyExecutor,
    /// Longest sequence in tokens, limited by context and KV cache.
    pub context: usize,
    /// Bytes of weights in memory, the drafter's included.
    pub weight_bytes: u64,
    /// If there is a drafter: the bytes of its weights, or why it cannot be used.
    pub draft: Option<Result<u64>>,
}

/// Loads a model from a folder in Hugging Face's layout, or from a GGUF file.
///
/// [`ControlFlow::Break`] from `on_progress` aborts the load with [`Error::Aborted`].
///
/// # Errors
/// Errors that the files' headers show are returned before memory is allocated.
pub async fn model(
    source: &impl Source,
    options: &LoadOptions,
    on_progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Model> {
    let root = Within::all(source);
    let opened = Opened::open(&root).await?;
    let chat = opened.chat().await?;
    let folder = opened.draft_folder().await;
    let draft = opened.draft(&folder, options).await;
    let loaded = opened.prepare(options)?.with_draft(draft)?.load(on_progress).await?;
    Ok(Model { chat, loaded })
}

/// Loads a model without its tokenizer.
pub async fn executor(
    source: &impl Source,
    options: &LoadOptions,
    on_progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Loaded> {
    let root = Within::all(source);
    let opened = Opened::open(&root).await?;
    let folder = opened.draft_folder().await;
    let draft = opened.draft(&folder, options).await;
    opened.prepare(options)?.with_draft(draft)?.load(on_progress).await
}

/// A model whose configuration and headers have been read.
pub struct Opened<'a, S: Source> {
    source: &'a S,
    config: ModelConfig,
    quantization: Option<Quantization>,
    checkpoint: Checkpoint<'a, S>,
    /// Whether its files contain a draft head.
    has_head: bool,
}

impl<'a, S: Source> Opened<'a, S> {
    /// Reads the configuration and the headers of the weights.
    pub async fn open(source: &'a S) -> Result<Opened<'a, S>> {
        if source.gguf().is_some() {
            let checkpoint = Checkpoint::open(source).await?;
            if let Some(config) = checkpoint.config()? {
                let (quantization, has_head) = (None, false);
                return Ok(Opened { source, config, quantization, checkpoint, has_head });
            }
        }
        let json = match source.read("config.json").await {
            Ok(json) => json,
            Err(error) => return Err(Part::Config.explain(source, error).await),
        };
        let config = ModelConfig::from_json(&json)?;
        let quantization = Quantization::from_json(&json)?;
        let checkpoint = match Checkpoint::open(source).await {
            Ok(checkpoint) => checkpoint,
            Err(error) => return Err(Part::Weights.explain(source, error).await),
        };
        // What is wrong with a draft head does not concern the model.
        let has_head = DraftConfig::is_inside(&json).unwrap_or(false);
        Ok(Opened { source, config, quantization, checkpoint, has_head })
    }

    /// Loads the model's tokenizer, template and defaults.
    pub async fn chat(&self) -> Result<Chat> {
        let chat = match (self.source.gguf(), self.checkpoint.metadata()) {
            (Some(file), Some(metadata)) => Chat::from_gguf(file, metadata)?,
            _ => texts::read(self.source).await?,
        };
        // Added tokens may lack a row of the embedding: they are never sampled, and refused in prompts.
        let (tokenizer, vocab) = (chat.tokenizer(), self.config.vocab);
        let mut beyond = (vocab as u32..=tokenizer.max_id()).rev();
        if let Some(highest) = beyond.find(|id| !tokenizer.is_added(*id)) {
            return Err(Error::InvalidConfig {
                file: self.source.gguf().unwrap_or("config.json").into(),
                field: "vocab_size".into(),
                found: vocab.to_string(),
                expected: format!("more than {highest}, the highest id of the tokenizer"),
            });
        }
        Ok(chat)
    }

    /// Refuses what [`Opened::chat`] refuses, as far as the small files show it.
    async fn expect_text(&self) -> Result<()> {
        if self.checkpoint.metadata().is_some() {
            return self.chat().await.map(|_| ());
        }
        texts::check(self.source).await
    }

    /// Reads a drafter's configuration and headers; `None` if the folder has no drafter.
    pub async fn draft<'d, D: Source>(
        &self,
        folder: &'d D,
        options: &LoadOptions,
    ) -> Option<Result<OpenedDraft<'d, D>>> {
        match options.draft {
            DraftWith::Nothing => return None,
            DraftWith::EarlyExit(layers) => {
                let program = DraftProgram::early_exit(&self.config, layers);
                return Some(
                    program.map(|program| OpenedDraft { program, files: Files::None(layers) }),
                );
            }
            DraftWith::Bundled if self.source.gguf().is_some() => return None,
            DraftWith::Bundled | DraftWith::Separate => {}
        }
        let json = match options.draft {
            DraftWith::Separate => folder.read("config.json").await.map(Some),
            _ => folder.read_optional("config.json").await,
        };
        match json {
            Ok(None) => None,
            Ok(Some(json)) => Some(self.open_draft(folder, &json, options).await),
            Err(error) => Some(Err(error)),
        }
    }

    async fn open_draft<'d, D: Source>(
        &self,
        folder: &'d D,
        json: &[u8],
        options: &LoadOptions,
    ) -> Result<OpenedDraft<'d, D>> {
        let (target, quantise) = (&self.config, &options.quantise);
        match weights::open_draft(folder, target, quantise).await {
            Ok(head) => {
                let program = DraftProgram::head(&head.draft.config, target)?;
                Ok(OpenedDraft { program, files: Files::Head(Box::new(head)) })
            }
            Err(Error::UnsupportedArchitecture { .. }) => {
                let config = ModelConfig::from_json(json)?;
                let program = DraftProgram::model(&config, target)?;
                self.expect_same_tokens(folder).await?;
                let checkpoint = Checkpoint::open(folder).await?;
                let plan = checkpoint.plan(&config, Quantization::from_json(json)?, quantise)?;
                Ok(OpenedDraft { program, files: Files::Model(checkpoint, plan) })
            }
            Err(error) => Err(error),
        }
    }

    /// Refuses a draft model whose tokens differ, as far as the files of both show.
    async fn expect_same_tokens(&self, folder: &impl Source) -> Result<()> {
        let file = "tokenizer.json";
        let Some(drafted) = folder.read_optional(file).await? else { return Ok(()) };
        let own = match (self.source.gguf(), self.checkpoint.metadata()) {
            (Some(file), Some(metadata)) => Chat::from_gguf(file, metadata)?.tokenizer().clone(),
            _ => match self.source.read_optional(file).await? {
                Some(json) => Tokenizer::from_bytes(&json)?.into(),
                None => return Ok(()),
            },
        };
        let drafted = Tokenizer::from_bytes(&drafted)?;
        let Some(id) = own.first_difference(&drafted) else { return Ok(()) };
        let found = String::from_utf8_lossy(&drafted.spell(id)?).into_owned();
        Err(Error::InvalidConfig {
            file: file.into(),
            field: format!("token {id}"),
            found: format!("{found:?}"),
            expected: "the same token as in the target model".into(),
        })
    }

    /// Plans the model's memory layout.
    pub fn prepare(self, options: &LoadOptions) -> Result<Prepared<'a, S>> {
        let Opened { config, quantization, checkpoint, .. } = self;
        let plan = checkpoint.plan(&config, quantization, &options.quantise)?;
        let mut prepared =
            Prepared { config, options: *options, checkpoint, plan, draft: None, kv_bytes: 0 };
        prepared.kv_bytes = prepared.size_of_kv()?;
        Ok(prepared)
    }
}

impl<'a, S: Source> Opened<'a, Within<'a, S>> {
    /// The folder of the model's bundled drafter: its subfolder `draft`, or the model's own folder if its
    /// weights include a layer for multi-token prediction.
    ///
    /// Such a layer is read in a second pass over the model's files.
    pub async fn draft_folder(&self) -> Within<'a, S> {
        let subfolder = Within { folder: "draft", source: self.source.source };
        match self.has_head && !matches!(subfolder.read_optional("config.json").await, Ok(Some(_)))
        {
            true => Within { folder: "", ..subfolder },
            false => subfolder,
        }
    }
}

/// A model whose headers have been checked; nothing is allocated yet.
pub struct Prepared<'a, S: Source, D: Source = S> {
    config: ModelConfig,
    options: LoadOptions,
    checkpoint: Checkpoint<'a, S>,
    plan: LoadPlan,
    draft: Option<Result<OpenedDraft<'a, D>>>,
    kv_bytes: u64,
}

/// A drafter whose headers have been checked; nothing is allocated yet.
pub struct OpenedDraft<'a, D: Source> {
    program: DraftProgram,
    files: Files<'a, D>,
}

/// The files of a drafter.
enum Files<'a, D: Source> {
    /// This many of the target model's first layers.
    None(usize),
    Head(Box<PreparedDraft<'a, D>>),
    Model(Checkpoint<'a, D>, LoadPlan),
}

impl<D: Source> OpenedDraft<'_, D> {
    /// Bytes that its weights will take in memory.
    fn bytes(&self) -> u64 {
        match &self.files {
            Files::None(_) => 0,
            Files::Head(head) => head.bytes(),
            Files::Model(_, plan) => plan.bytes(),
        }
    }

    /// Size of its files.
    fn file_bytes(&self) -> u64 {
        match &self.files {
            Files::None(_) => 0,
            Files::Head(head) => head.file_bytes(),
            Files::Model(checkpoint, _) => checkpoint.file_bytes(),
        }
    }

    async fn load(
        self,
        sink: &mut impl WeightSink,
        on_progress: impl FnMut(weights::Progress) -> ControlFlow<()>,
    ) -> Result<Drafter<()>> {
        Ok(match self.files {
            Files::None(layers) => Drafter::EarlyExit(layers),
            Files::Head(head) => Drafter::Head(Box::new(head.load(sink, on_progress).await?), ()),
            Files::Model(checkpoint, plan) => {
                checkpoint.load(&plan, sink, on_progress).await?;
                Drafter::Model(Box::new(self.program.config), ())
            }
        })
    }

    /// Its configuration, if it has keys and values of its own.
    fn with_own_kv(&self) -> Option<&ModelConfig> {
        let DraftProgram { config, is_inside, .. } = &self.program;
        (!is_inside).then_some(config)
    }
}

impl<'a, S: Source, D: Source> Prepared<'a, S, D> {
    /// The same model with a drafter.
    pub fn with_draft<E: Source>(
        self,
        draft: Option<Result<OpenedDraft<'a, E>>>,
    ) -> Result<Prepared<'a, S, E>> {
        let Prepared { config, options, checkpoint, plan, .. } = self;
        let mut prepared = Prepared { config, options, checkpoint, plan, draft, kv_bytes: 0 };
        prepared.kv_bytes = prepared.size_of_kv()?;
        Ok(prepared)
    }

    /// Bytes of weights and KV cache, unless the device's binding limit makes the cache smaller.
    pub fn bytes(&self) -> u64 {
        let draft = self.draft.as_ref().and_then(|draft| draft.as_ref().ok());
        self.plan.bytes() + draft.map_or(0, OpenedDraft::bytes) + self.kv_bytes
    }

    /// Bytes of the files, the drafter's included.
    fn file_bytes(&self) -> u64 {
        let draft = self.draft.as_ref().and_then(|draft| draft.as_ref().ok());
        self.checkpoint.file_bytes() + draft.map_or(0, OpenedDraft::file_bytes)
    }

    fn size_of_kv(&mut self) -> Result<u64> {
        let Prepared { config, options, draft, .. } = self;
        let kinds = vec![options.kv; config.layers];
        let Capacity { blocks, groups, .. } =
            capacity_with_draft(draft, config, options, &kinds, u64::MAX)?;
        let of_draft = with_own_kv(draft).map_or(0, |draft| draft_block_bytes(draft, groups));
        Ok(blocks as u64 * (block_bytes(config, &kinds, groups) + of_draft))
    }

    /// Loads the weights and creates the executor, on a device of its own.
    pub async fn load(
        self,
        on_progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Loaded> {
        self.load_on(&SharedGpu::default(), on_progress).await
    }

    /// As [`Prepared::load`], on a device that models share.
    pub async fn load_on(
        self,
        device: &SharedGpu,
        mut on_progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Loaded> {
        let total = self.file_bytes();
        let Prepared { config, options, checkpoint, plan, mut draft, .. } = self;
        // Progress counts the model's files, then the drafter's.
        let (own, before) = (checkpoint.file_bytes(), Cell::new(0));
        let mut on_bytes = |progress: weights::Progress| {
            let weights::Progress { file, loaded, .. } = progress;
            on_progress(Progress::Download { file, loaded: before.get() + loaded, total })
        };
        let mut weight_bytes = plan.bytes();
        let mut outcome = None;
        let (executor, refused) = match options.device {
            Device::Cpu => {
                let mut sink = HostSink::new();
                checkpoint.load(&plan, &mut AnySink::Left(&mut sink), &mut on_bytes).await?;
                before.set(own);
                let weights = sink.into_weights();
                let kinds = host_kv_kinds(&config, &weights, options.kv)?;
                let capacity =
                    capacity_with_draft(&mut draft, &config, &options, &kinds, u64::MAX)?;
                let mut sink = HostSink::new();
                let draft =
                    load_draft(draft, &mut AnySink::Left(&mut sink), &mut on_bytes, &mut outcome)
                        .await?;
                let draft = draft.map(|draft| draft.with(sink.into_weights()));
                let config = config.clone();
                let (executor, refused) =
                    CpuExecutor::with_draft(config, weights, draft, capacity, kinds)?;
                (AnyExecutor::Cpu(Box::new(executor)), refused)
            }
            Device::Gpu => {
                let mut gpu = device.get(Power::HighPerformance).await?;
                if !options.features.subgroups {
                    gpu.adapter.subgroups = Subgroups::No;
                }
                let mut sink = GpuSink::new(&gpu, gpu.largest_binding()).await?;
                checkpoint.load(&plan, &mut AnySink::Right(&mut sink), &mut on_bytes).await?;
                before.set(own);
                let weights = sink.into_weights();
                let kinds = gpu_kv_kinds(&gpu, &config, &weights, options.kv).await?;
                let largest = gpu.largest_binding();
                let capacity = capacity_with_draft(&mut draft, &config, &options, &kinds, largest)?;
                let mut sink = GpuSink::new(&gpu, largest).await?;
                let draft =
                    load_draft(draft, &mut AnySink::Right(&mut sink), &mut on_bytes, &mut outcome)
                        .await?;
                let draft = draft.map(|draft| draft.with(sink.into_weights()));
                let on_compiled = |done, total| on_progress(Progress::Compile { done, total });
                let made = GpuExecutor::with_draft(
                    gpu,
                    &config,
                    weights,
                    draft,
                    capacity,
                    &kinds,
                    on_compiled,
                );
                let (executor, refused) = made.await?;
                (AnyExecutor::Gpu(Box::new(executor)), refused)
            }
        };
        outcome = refused.map(without_drafter).or(outcome);
        if let Some(Ok(bytes)) = outcome {
            weight_bytes += bytes;
        }
        let context = executor.capacity().longest();
        Ok(Loaded { config, executor, context, weight_bytes, draft: outcome })
    }
}

/// The configuration of a drafter that has keys and values of its own.
fn with_own_kv<'a, D: Source>(
    draft: &'a Option<Result<OpenedDraft<'_, D>>>,
) -> Option<&'a ModelConfig> {
    draft.as_ref()?.as_ref().ok()?.with_own_kv()
}

/// Loads a drafter into `sink`. Its errors are stored in `outcome` and do not fail the model's load,
/// except [`Error::Aborted`].
async fn load_draft<D: Source>(
    draft: Option<Result<OpenedDraft<'_, D>>>,
    sink: &mut impl WeightSink,
    on_bytes: impl FnMut(weights::Progress) -> ControlFlow<()>,
    outcome: &mut Option<Result<u64>>,
) -> Result<Option<Drafter<()>>> {
    let Some(draft) = draft else { return Ok(None) };
    let loaded = match draft {
        Ok(draft) => {
            let bytes = draft.bytes();
            draft.load(sink, on_bytes).await.map(|draft| (draft, bytes))
        }
        Err(error) => Err(error),
    };
    match loaded {
        Ok((draft, bytes)) => {
            *outcome = Some(Ok(bytes));
            Ok(Some(draft))
        }
        Err(Error::Aborted) => Err(Error::Aborted),
        Err(error) => {
            *outcome = Some(without_drafter(error));
            Ok(None)
        }
    }
}

/// Logs why the model runs without its drafter.
fn without_drafter(error: Error) -> Result<u64> {
    log::warn!("the drafter cannot be used, speculative decoding runs without it: {error}");
    Err(error)
}

/// The executor's sizes for a model with a drafter, whose keys and values take part of each KV block's memory. If
/// the cache is then too small for one block, the drafter is not used.
fn capacity_with_draft<D: Source>(
    draft: &mut Option<Result<OpenedDraft<'_, D>>>,
    config: &ModelConfig,
    options: &LoadOptions,
    kinds: &[KvKind],
    largest_binding: u64,
) -> Result<Capacity> {
    match sized(config, options, kinds, with_own_kv(draft), largest_binding) {
        Err(error) if with_own_kv(draft).is_some() => {
            let capacity = capacity(config, options, kinds, largest_binding)?;
            *draft = Some(Err(error));
            Ok(capacity)
        }
        found => found,
    }
}

/// Quantises all tensors that are stored in 16 or 32 bits.
pub fn quantise_all(layout: Layout) -> Quantise {
    Quantise { matrices: Some(layout), embeddings: Some(Layout::W8 { group: 32 }) }
}
