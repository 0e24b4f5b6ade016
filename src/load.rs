//! From a folder of files to a model that runs: configuration, text, weights, executor.

use std::ops::ControlFlow;

use crate::{
    Error, Result,
    executor::{
        AnyExecutor, CpuExecutor, GpuExecutor, KvKind, block_bytes, gpu_kv_kinds, host_kv_kinds,
        layer_block_bytes,
    },
    gpu::{Gpu, Power},
    layout::Layout,
    model::{ModelConfig, Quantization},
    step::{BLOCK_SIZE, Capacity, Executor, Window},
    text::{Chat, ChatFiles},
    weights::{self, Checkpoint, GpuSink, HostSink, LoadPlan, Quantise, Source},
};

/// Rows of a step: enough to keep a GPU busy with a prompt, few enough to keep a step short.
const ROWS: usize = 256;
/// Sequences of a step; the kernels read each weight once for up to 16 rows.
const SEQS: usize = 16;
/// Memory for the KV cache, where the caller names none and [`KV_TOKENS`] do not need more.
const KV_BYTES: u64 = 256 << 20;
/// A conversation of this length fits by default.
const KV_TOKENS: usize = 4096;
/// The longest context of any model.
const MAX_CONTEXT: usize = 1 << 20;

/// How to load a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadOptions {
    pub device: Device,
    pub quantise: Quantise,
    /// Most tokens of one conversation; if none, the model's own, or 1,048,576 with sinks.
    pub context: Option<usize>,
    /// What each token sees of its conversation, for models that would see everything. With sinks a
    /// conversation may outgrow the model's context (StreamingLLM); what lies between them and the
    /// last tokens is forgotten.
    pub window: Option<Window>,
    /// How keys and values are held; layers for which int8 is unsafe stay in f16.
    pub kv: KvKind,
    /// Memory for the KV cache; if none, 256 MiB, or what 4096 tokens need where that is more.
    pub kv_bytes: Option<u64>,
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
    /// Most tokens of one conversation, by context and KV cache.
    pub context: usize,
    /// Bytes of weights in memory.
    pub weight_bytes: u64,
}

/// Loads a model from a folder in Hugging Face's layout, or from a GGUF file.
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
    let opened = Opened::open(source).await?;
    let chat = opened.chat().await?;
    let loaded = opened.prepare(options)?.load(on_progress).await?;
    Ok(Model { chat, loaded })
}

/// Loads a model without its text side.
pub async fn executor(
    source: &impl Source,
    options: &LoadOptions,
    on_progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Loaded> {
    Opened::open(source).await?.prepare(options)?.load(on_progress).await
}

/// A model whose configuration and headers have been read.
pub struct Opened<'a, S: Source> {
    source: &'a S,
    config: ModelConfig,
    quantization: Option<Quantization>,
    checkpoint: Checkpoint<'a, S>,
}

impl<'a, S: Source> Opened<'a, S> {
    /// Reads the configuration and the headers of the weights.
    pub async fn open(source: &'a S) -> Result<Opened<'a, S>> {
        if source.gguf().is_some() {
            let checkpoint = Checkpoint::open(source).await?;
            if let Some(config) = checkpoint.config()? {
                return Ok(Opened { source, config, quantization: None, checkpoint });
            }
        }
        let json = source.read("config.json").await?;
        let config = ModelConfig::from_json(&json)?;
        let quantization = Quantization::from_json(&json)?;
        let checkpoint = Checkpoint::open(source).await?;
        Ok(Opened { source, config, quantization, checkpoint })
    }

    /// Loads the text side of the model.
    pub async fn chat(&self) -> Result<Chat> {
        let chat = match (self.source.gguf(), self.checkpoint.metadata()) {
            (Some(file), Some(metadata)) => Chat::from_gguf(file, metadata)?,
            _ => read_chat(self.source).await?,
        };
        let (highest, vocab) = (chat.tokenizer().max_id(), self.config.vocab);
        if highest as usize >= vocab {
            return Err(Error::InvalidConfig {
                file: self.source.gguf().unwrap_or("config.json").into(),
                field: "vocab_size".into(),
                found: vocab.to_string(),
                expected: format!("more than {highest}, the highest id of the tokenizer"),
            });
        }
        Ok(chat)
    }

    /// Plans how the model will lie in memory.
    pub fn prepare(self, options: &LoadOptions) -> Result<Prepared<'a, S>> {
        let Opened { config, quantization, checkpoint, .. } = self;
        let kinds = vec![options.kv; config.layers];
        let blocks = capacity(&config, options, &kinds, u64::MAX)?.blocks;
        let kv_bytes = blocks as u64 * block_bytes(&config, &kinds);
        let plan = checkpoint.plan(&config, quantization, &options.quantise)?;
        Ok(Prepared { config, options: *options, checkpoint, plan, kv_bytes })
    }
}

/// A model whose headers have been checked; nothing is allocated yet.
pub struct Prepared<'a, S: Source> {
    config: ModelConfig,
    options: LoadOptions,
    checkpoint: Checkpoint<'a, S>,
    plan: LoadPlan,
    kv_bytes: u64,
}

impl<S: Source> Prepared<'_, S> {
    /// Bytes that weights, keys and values will take, unless the device binds less.
    pub fn bytes(&self) -> u64 {
        self.plan.bytes() + self.kv_bytes
    }

    /// Loads the weights and makes the executor ready.
    pub async fn load(
        self,
        mut on_progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Loaded> {
        let Prepared { config, options, checkpoint, plan, .. } = self;
        let on_bytes = |progress: weights::Progress| {
            let weights::Progress { file, loaded, total } = progress;
            on_progress(Progress::Download { file, loaded, total })
        };
        let executor = match options.device {
            Device::Cpu => {
                let mut sink = HostSink::new();
                checkpoint.load(&plan, &mut sink, on_bytes).await?;
                let weights = sink.into_weights();
                let kinds = host_kv_kinds(&config, &weights, options.kv)?;
                let capacity = capacity(&config, &options, &kinds, u64::MAX)?;
                let executor = CpuExecutor::new(config.clone(), weights, capacity, kinds)?;
                AnyExecutor::Cpu(Box::new(executor))
            }
            Device::Gpu => {
                let gpu = Gpu::open(Power::HighPerformance).await?;
                let mut sink = GpuSink::new(&gpu, gpu.largest_binding()).await?;
                checkpoint.load(&plan, &mut sink, on_bytes).await?;
                let weights = sink.into_weights();
                let kinds = gpu_kv_kinds(&gpu, &config, &weights, options.kv).await?;
                let capacity = capacity(&config, &options, &kinds, gpu.largest_binding())?;
                let on_compiled = |done, total| on_progress(Progress::Compile { done, total });
                let executor =
                    GpuExecutor::new(gpu, &config, weights, capacity, &kinds, on_compiled);
                AnyExecutor::Gpu(Box::new(executor.await?))
            }
        };
        let context = executor.capacity().longest();
        Ok(Loaded { config, executor, context, weight_bytes: plan.bytes() })
    }
}

async fn read_chat(source: &impl Source) -> Result<Chat> {
    let config = source.read("config.json").await?;
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
        config: Some(&config),
    })
}

/// Sizes an executor for a model whose layers hold keys and values as `kinds` say, on a device that
/// can bind buffers of `largest_binding` bytes.
///
/// # Errors
/// [`Error::InvalidRequest`] for a context or window the model was not trained for, or a KV cache
/// without room for a block.
pub fn capacity(
    config: &ModelConfig,
    options: &LoadOptions,
    kinds: &[KvKind],
    largest_binding: u64,
) -> Result<Capacity> {
    let refuse =
        |param: &str, message: String| Err(Error::InvalidRequest { param: param.into(), message });
    let window = window(config, options.window)?;
    let longest = match window {
        Some(Window { sinks: 1.., .. }) if !config.positions => MAX_CONTEXT,
        _ => config.context.min(MAX_CONTEXT),
    };
    let context = options.context.unwrap_or(longest);
    if !(1..=longest).contains(&context) {
        return refuse(
            "context",
            format!("found {context}, expected 1 to {longest}, which the model can take"),
        );
    }
    let block = block_bytes(config, kinds);
    // One more block than hold tokens: the null block.
    let default = KV_BYTES.max(block * (longest.min(KV_TOKENS).div_ceil(BLOCK_SIZE) + 1) as u64);
    let kv_bytes = options.kv_bytes.unwrap_or(default);
    if kv_bytes < 2 * block {
        let expected = format!("at least {}, which hold {BLOCK_SIZE} tokens", 2 * block);
        return refuse("kvBytes", format!("found {kv_bytes}, expected {expected}"));
    }
    // A layer's keys and values are one binding.
    let layer = kinds.iter().map(|kind| layer_block_bytes(config, *kind)).max().unwrap_or(block);
    let most = (context.div_ceil(BLOCK_SIZE) * SEQS + 1) as u64;
    Ok(Capacity {
        rows: ROWS,
        seqs: SEQS,
        logit_rows: SEQS,
        blocks: (kv_bytes / block).min(largest_binding / layer).min(most) as usize,
        context,
        vocab: config.vocab,
        window,
    })
}

/// What rows see: as asked for, within what the model was trained for.
fn window(config: &ModelConfig, asked: Option<Window>) -> Result<Option<Window>> {
    let own = config.window().map(|tokens| Window { sinks: 0, tokens });
    let Some(Window { sinks, tokens }) = asked else { return Ok(own) };
    let trained = config.window().map_or(config.context, |window| window.min(config.context));
    if !sinks.is_multiple_of(BLOCK_SIZE) || tokens == 0 || tokens > trained.saturating_sub(sinks) {
        return Err(Error::InvalidRequest {
            param: "slidingWindow".into(),
            message: format!(
                "found {sinks} sinks and {tokens} tokens, expected sinks a multiple of \
                 {BLOCK_SIZE}, a token or more, and at most {trained} of both, which the model was \
                 trained for"
            ),
        });
    }
    Ok(asked)
}

/// Quantisation of everything that is stored in 16 or 32 bits.
pub fn quantise_all(layout: Layout) -> Quantise {
    Quantise { matrices: Some(layout), embeddings: Some(Layout::W8 { group: 32 }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 layers of 2 KV heads of 16 dims: in halves, 128 bytes a token and layer.
    fn config(architecture: &str, context: usize) -> ModelConfig {
        let json = format!(
            r#"{{"architectures": ["{architecture}"], "hidden_size": 64, "intermediate_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "head_dim": 16, "vocab_size": 10, "max_position_embeddings": {context},
            "sliding_window": 512, "rms_norm_eps": 1e-6, "hidden_act": "silu"}}"#
        );
        ModelConfig::from_json(json.as_bytes()).unwrap()
    }

    fn llama(context: usize) -> ModelConfig {
        config("LlamaForCausalLM", context)
    }

    fn sized(config: &ModelConfig, options: LoadOptions) -> Result<Capacity> {
        capacity(config, &options, &[options.kv; 2], u64::MAX)
    }

    fn refused(config: &ModelConfig, options: LoadOptions) -> Option<String> {
        match sized(config, options) {
            Err(Error::InvalidRequest { param, .. }) => Some(param),
            _ => None,
        }
    }

    #[test]
    fn a_context_is_the_models_own_unless_a_shorter_one_is_asked_for() {
        let context = |asked| LoadOptions { context: asked, ..Default::default() };
        assert_eq!(sized(&llama(131_072), context(None)).unwrap().context, 131_072);
        assert_eq!(sized(&llama(131_072), context(Some(100))).unwrap().context, 100);
        assert_eq!(sized(&llama(1 << 24), context(None)).unwrap().context, 1 << 20);
        for asked in [0, 2049] {
            let refused = refused(&llama(2048), context(Some(asked)));
            assert_eq!(refused.as_deref(), Some("context"));
        }
    }

    #[test]
    fn the_cache_has_the_blocks_that_its_memory_holds() {
        let config = llama(65_536);
        let blocks = |kv, kv_bytes, largest_binding| {
            let options = LoadOptions { kv, kv_bytes, ..Default::default() };
            let capacity = capacity(&config, &options, &[kv; 2], largest_binding);
            capacity.map(|capacity| capacity.blocks)
        };
        use KvKind::{F16, Int8};
        // 16 tokens of 128 bytes in 2 layers; in int8 64 bytes and 4 scales.
        assert_eq!(blocks(F16, Some(1 << 20), u64::MAX).unwrap(), (1 << 20) / 4096);
        assert_eq!(blocks(Int8, Some(1 << 20), u64::MAX).unwrap(), (1 << 20) / 2560);
        assert_eq!(blocks(F16, Some(1 << 20), 64 << 10).unwrap(), 32);
        assert_eq!(blocks(F16, None, u64::MAX).unwrap(), 65_536);
        assert_eq!(blocks(F16, Some(u64::MAX), u64::MAX).unwrap(), 65_537);
        assert_eq!(blocks(F16, Some(8192), u64::MAX).unwrap(), 2);
        assert!(blocks(F16, Some(8191), u64::MAX).is_err());
    }

    #[test]
    fn sinks_lift_the_limit_of_the_context_within_a_window_the_model_knows() {
        let streaming = |sinks, tokens, context| LoadOptions {
            window: Some(Window { sinks, tokens }),
            context,
            ..Default::default()
        };
        let (model, mistral) = (llama(1024), config("MistralForCausalLM", 1024));
        let found = sized(&model, streaming(16, 1008, None)).unwrap();
        assert_eq!(
            (found.context, found.window),
            (1 << 20, Some(Window { sinks: 16, tokens: 1008 }))
        );
        assert_eq!(sized(&model, streaming(0, 100, None)).unwrap().context, 1024);
        let found = sized(&mistral, LoadOptions::default()).unwrap();
        assert_eq!(found.window, Some(Window { sinks: 0, tokens: 512 }));

        let refused =
            |config, sinks, tokens, context| refused(config, streaming(sinks, tokens, context));
        for (sinks, tokens) in [(4, 100), (16, 0), (16, 1009), (1040, 100)] {
            assert_eq!(refused(&model, sinks, tokens, None).as_deref(), Some("slidingWindow"));
        }
        assert_eq!(refused(&mistral, 16, 500, None).as_deref(), Some("slidingWindow"));
        assert_eq!(refused(&model, 0, 100, Some(2000)).as_deref(), Some("context"));
        assert_eq!(refused(&model, 16, 100, Some((1 << 20) + 1)).as_deref(), Some("context"));
    }
}
