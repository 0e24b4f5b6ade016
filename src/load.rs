//! From a folder of files to a model that runs: configuration, text, weights, executor.

use std::ops::ControlFlow;

use crate::{
    Error, Result,
    executor::{AnyExecutor, CpuExecutor, GpuExecutor, block_bytes},
    gpu::{Gpu, Power},
    layout::Layout,
    model::{ModelConfig, Quantization},
    step::{BLOCK_SIZE, Capacity, Window},
    text::{Chat, ChatFiles},
    weights::{self, Checkpoint, GpuSink, HostSink, Quantise, Source},
};

/// Rows of a step: enough to keep a GPU busy with a prompt, few enough to keep a step short.
const ROWS: usize = 256;
/// Sequences of a step; the kernels read each weight once for up to 16 rows.
const SEQS: usize = 16;
/// The context of a conversation, where the caller names none and the model allows it.
const DEFAULT_CONTEXT: usize = 4096;
/// Memory for the KV cache, unless one conversation of full length needs more.
const KV_BYTES: u64 = 256 << 20;

/// How to load a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadOptions {
    pub device: Device,
    pub quantise: Quantise,
    /// Most tokens of one conversation.
    pub context: Option<usize>,
}

/// What a model runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    #[default]
    Gpu,
    /// Plain Rust on the processor: slow, but it needs nothing.
    Cpu,
}

/// How far loading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Bytes of all weight files together; `file` is being read.
    Download { file: &'a str, loaded: u64, total: u64 },
    /// Kernels that are ready to run.
    Compile { done: usize, total: usize },
}

/// A model that is ready to chat.
pub struct Model {
    pub chat: Chat,
    pub loaded: Loaded,
}

/// Weights on an executor.
pub struct Loaded {
    pub config: ModelConfig,
    pub executor: AnyExecutor,
    /// Most tokens of one conversation.
    pub context: usize,
    /// Bytes of weights in memory.
    pub weight_bytes: u64,
}

/// Loads a model from a folder in Hugging Face's layout.
///
/// `on_progress` ends the load with [`Error::Aborted`] by [`ControlFlow::Break`].
///
/// # Errors
/// Whatever is wrong with the files is found before memory is allocated, as far as their headers
/// tell.
pub async fn model(
    source: &impl Source,
    options: &LoadOptions,
    on_progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Model> {
    let config_json = source.read("config.json").await?;
    let vocab = ModelConfig::from_json(&config_json)?.vocab;
    let chat = read_chat(source, &config_json).await?;
    let highest = chat.tokenizer().max_id();
    if highest as usize >= vocab {
        return Err(Error::InvalidConfig {
            file: "config.json".into(),
            field: "vocab_size".into(),
            found: vocab.to_string(),
            expected: format!("more than {highest}, the highest id of tokenizer.json"),
        });
    }
    let loaded = executor(source, options, on_progress).await?;
    Ok(Model { chat, loaded })
}

/// Loads a model without its text side.
pub async fn executor(
    source: &impl Source,
    options: &LoadOptions,
    mut on_progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Loaded> {
    let config_json = source.read("config.json").await?;
    let config = ModelConfig::from_json(&config_json)?;
    let quantization = Quantization::from_json(&config_json)?;
    let capacity = capacity(&config, options.context)?;
    let checkpoint = Checkpoint::open(source).await?;
    let plan = checkpoint.plan(&config, quantization, &options.quantise)?;

    let on_bytes = |progress: weights::Progress| {
        let weights::Progress { file, loaded, total } = progress;
        on_progress(Progress::Download { file, loaded, total })
    };
    let executor = match options.device {
        Device::Cpu => {
            let mut sink = HostSink::new();
            checkpoint.load(&plan, &mut sink, on_bytes).await?;
            let weights = sink.into_weights();
            AnyExecutor::Cpu(Box::new(CpuExecutor::new(config.clone(), weights, capacity)?))
        }
        Device::Gpu => {
            let gpu = Gpu::open(Power::HighPerformance).await?;
            let mut sink = GpuSink::new(&gpu, gpu.largest_binding()).await?;
            checkpoint.load(&plan, &mut sink, on_bytes).await?;
            let weights = sink.into_weights();
            let on_compiled = |done, total| on_progress(Progress::Compile { done, total });
            let executor = GpuExecutor::new(gpu, &config, weights, capacity, on_compiled).await?;
            AnyExecutor::Gpu(Box::new(executor))
        }
    };
    Ok(Loaded { config, executor, context: capacity.context, weight_bytes: plan.bytes() })
}

async fn read_chat(source: &impl Source, config: &[u8]) -> Result<Chat> {
    let tokenizer = source.read("tokenizer.json").await?;
    let tokenizer_config = source.read_optional("tokenizer_config.json").await?;
    let generation_config = source.read_optional("generation_config.json").await?;
    let chat_template_jinja = source.read_optional("chat_template.jinja").await?;
    let chat_template_json = source.read_optional("chat_template.json").await?;
    Chat::new(&ChatFiles {
        tokenizer: &tokenizer,
        tokenizer_config: tokenizer_config.as_deref(),
        chat_template_jinja: chat_template_jinja.as_deref(),
        chat_template_json: chat_template_json.as_deref(),
        generation_config: generation_config.as_deref(),
        config: Some(config),
    })
}

/// Sizes an executor for a model.
///
/// # Errors
/// [`Error::InvalidRequest`] for a context the model was not trained for.
pub fn capacity(config: &ModelConfig, context: Option<usize>) -> Result<Capacity> {
    let context = match context {
        Some(context) if context == 0 || context > config.context => {
            return Err(Error::InvalidRequest {
                param: "context".into(),
                message: format!(
                    "found {context}, expected 1 to {}, the model's own",
                    config.context
                ),
            });
        }
        Some(context) => context,
        None => config.context.min(DEFAULT_CONTEXT),
    };
    let least = context.div_ceil(BLOCK_SIZE);
    let affordable = (KV_BYTES / block_bytes(config)) as usize;
    Ok(Capacity {
        rows: ROWS,
        seqs: SEQS,
        logit_rows: SEQS,
        blocks: affordable.clamp(least, least * SEQS) + 1, // the null block
        context,
        vocab: config.vocab,
        window: config.window.map(|tokens| Window { sinks: 0, tokens }),
    })
}

/// Quantisation of everything that is stored in 16 or 32 bits.
pub fn quantise_all(layout: Layout) -> Quantise {
    Quantise { matrices: Some(layout), embeddings: Some(Layout::W8 { group: 32 }) }
}
