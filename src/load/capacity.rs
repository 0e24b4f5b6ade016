//! The executor's sizes: how much context, and how many KV blocks, a model gets.

use super::options::LoadOptions;
use crate::{
    Error, Result,
    executor::{KvKind, block_bytes, kv_groups, layer_block_bytes},
    model::ModelConfig,
    step::{BLOCK_SIZE, Capacity, HostMemory, KvGroups, Window},
};

/// Rows per step: enough to keep a GPU busy in prefill, few enough to keep a step short.
const ROWS: usize = 256;
/// Sequences per step; the kernels read each weight once for up to 16 rows.
const SEQS: usize = 16;
/// Default memory for the KV cache, unless [`KV_TOKENS`] need more.
const KV_BYTES: u64 = 256 << 20;
/// The same where there is a budget for all models: this part of it, and no more than [`KV_MOST`].
const KV_SHARE: u64 = 16;
const KV_MOST: u64 = 1 << 30;
/// The default KV cache holds at least this many tokens.
const KV_TOKENS: usize = 4096;
/// What [`LoadOptions::sparing`] divides steps and KV cache by.
const SPARING: usize = 4;
/// Memory of a read-back of blocks that a step saves: for those of its rows at least, and at most twice these.
const SAVE_BYTES: u64 = 16 << 20;
/// Memory of a read-back of entries that are stored, and most of them.
const READ_BYTES: u64 = 8 << 20;
const MOST_READ: usize = 16;
/// Upper limit of host memory, in KV caches that every sequence of a step can fill: what is kept of a block
/// beside its content is allocated at once.
const HOST_TIMES: u64 = 4;
/// Upper limit of the context length.
const MAX_CONTEXT: usize = 1 << 20;

/// The executor's sizes for a model whose layers have KV caches of these kinds, on a device that can
/// bind buffers of `largest_binding` bytes.
///
/// # Errors
/// [`Error::InvalidRequest`] for a context or window that the model was not trained for, or a KV cache
/// too small for one block.
pub fn capacity(
    config: &ModelConfig,
    options: &LoadOptions,
    kinds: &[KvKind],
    largest_binding: u64,
) -> Result<Capacity> {
    sized(config, options, kinds, None, largest_binding)
}

/// The same with a drafter that has keys and values of its own in each KV block.
pub fn sized(
    config: &ModelConfig,
    options: &LoadOptions,
    kinds: &[KvKind],
    draft: Option<&ModelConfig>,
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
    let groups = kv_groups(config, kinds, window);
    let draft_bytes = draft.map_or(0, |draft| draft_block_bytes(draft, groups));
    let block = block_bytes(config, kinds, groups) + draft_bytes;
    // One extra block: the null block.
    let share = options.budget.map_or(KV_BYTES, |budget| (budget / KV_SHARE).min(KV_MOST));
    let default = share.max(block * (groups.blocks(longest.min(KV_TOKENS)) as u64 + 1));
    let mut kv_bytes = options.kv_bytes.unwrap_or(default);
    let least = block * (groups.blocks(1) as u64 + 1);
    if kv_bytes < least {
        let expected = format!("at least {least}, which hold {BLOCK_SIZE} tokens");
        return refuse("kvBytes", format!("found {kv_bytes}, expected {expected}"));
    }
    let mut rows = ROWS;
    if options.sparing {
        kv_bytes = (kv_bytes / SPARING as u64).max(least);
        rows /= SPARING;
    }
    // A layer's keys and values are one binding.
    let layer = kinds.iter().map(|kind| layer_block_bytes(config, *kind)).max().unwrap_or(block);
    let layer = layer.max(draft_bytes);
    let most = (groups.blocks(context) * SEQS) as u64 + 1;
    Ok(Capacity {
        rows,
        seqs: SEQS,
        logit_rows: SEQS,
        blocks: (kv_bytes / block).min(largest_binding / layer).min(most) as usize,
        context,
        vocab: config.vocab,
        groups,
        host: match (options.host_bytes / block).min(HOST_TIMES * most) as usize {
            0 => HostMemory::NONE,
            blocks => {
                let entry = groups.count();
                let chunk = rows / BLOCK_SIZE * entry;
                let saves = ((SAVE_BYTES / block) as usize).clamp(chunk, 2 * chunk);
                let most = (READ_BYTES / block) as usize / entry;
                let reads = if options.stores { most.clamp(1, MOST_READ) * entry } else { 0 };
                HostMemory { blocks, saves, reads }
            }
        },
    })
}

/// Bytes of a drafter's own keys and values in each KV block.
pub fn draft_block_bytes(draft: &ModelConfig, groups: KvGroups) -> u64 {
    block_bytes(draft, &vec![KvKind::F16; draft.layers], groups)
}

/// The attention window: the requested one, if the model was trained for it.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 layers of 2 KV heads of 16 dims: in f16, 128 bytes per token and layer.
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
    fn the_context_is_the_model_s_unless_a_shorter_one_is_requested() {
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
    fn the_kv_cache_has_as_many_blocks_as_fit_its_memory() {
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
    fn the_default_kv_cache_is_a_share_of_the_budget() {
        let bytes = |budget| {
            let options = LoadOptions { budget: Some(budget), ..Default::default() };
            sized(&llama(1 << 20), options).unwrap().blocks * 4096
        };
        assert_eq!(bytes(2 << 30), 128 << 20);
        assert_eq!(bytes(1 << 40), 1 << 30);
        // 4096 tokens and the null block.
        assert_eq!(bytes(1 << 20), 257 * 4096);
    }

    #[test]
    fn a_sparing_load_has_a_quarter_of_the_steps_and_of_the_kv_cache() {
        let both = |kv_bytes| {
            [false, true].map(|sparing| {
                let options = LoadOptions { kv_bytes, sparing, ..Default::default() };
                let Capacity { rows, blocks, .. } = sized(&llama(65_536), options).unwrap();
                (rows, blocks)
            })
        };
        let [whole, spared] = both(None);
        assert_eq!(spared, (whole.0 / 4, whole.1 / 4));
        // Never too small for a block, beside the null block.
        assert_eq!(both(Some(8192)), [(256, 2), (64, 2)]);
    }

    #[test]
    fn host_memory_has_whole_blocks_and_an_end() {
        let host = |host_bytes| {
            let options = LoadOptions { host_bytes, ..Default::default() };
            sized(&llama(1024), options).unwrap().host
        };
        // Blocks of 4096 bytes, 64 of them for a context.
        assert_eq!(host(0), HostMemory::NONE);
        assert_eq!(host(4095), HostMemory::NONE);
        assert_eq!(host(3 * 4096 + 1), HostMemory { blocks: 3, saves: 32, reads: 0 });
        assert_eq!(host(u64::MAX).blocks, 4 * (64 * SEQS + 1));
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
            (found.context, found.groups),
            (1 << 20, KvGroups::one(Some(Window { sinks: 16, tokens: 1008 })))
        );
        assert_eq!(sized(&model, streaming(0, 100, None)).unwrap().context, 1024);
        let found = sized(&mistral, LoadOptions::default()).unwrap();
        assert_eq!(found.groups, KvGroups::one(Some(Window { sinks: 0, tokens: 512 })));

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
