//! The buffers of a step, allocated once.

use super::{
    kv_places::{KvPlace, kinds_of_places, kv_places},
    shapes::{self, Widths},
};
use crate::{
    Result,
    gpu::{Gpu, Readback},
    kernels::{Batch, BlockTables, Group, KvGroup, KvKind, Table, Tuning, batch::SLOT_TOKENS},
    layout::row_stride,
    model::{Act, ModelConfig},
    step::{BlockCopy, Capacity},
};

/// KV cache of the layers at one place.
#[derive(Clone)]
pub struct Kv {
    pub kind: KvKind,
    pub buffer: wgpu::Buffer, // [blocks] of a block's words, see kernels::kv
    block_bytes: u64,
}

/// Activations and tables of an executor. Activations are f32 `[rows][row_stride(width)]`.
#[derive(Clone)]
pub struct StepBuffers {
    pub step: wgpu::Buffer,         // the words of a Batch
    pub tables: wgpu::Buffer,       // block tables, see kernels::tables
    pub residual: wgpu::Buffer,     // [rows][hidden]
    pub normed: wgpu::Buffer, // [rows][hidden or features], where the norm is a dispatch of its own
    pub qkv: wgpu::Buffer,    // [rows][(heads + 2 kv_heads)·head_dim]
    pub query: wgpu::Buffer,  // [rows][query heads·head_dim], see kernels::rope_kv
    pub attention: wgpu::Buffer, // [rows][heads·head_dim]
    pub partials: wgpu::Buffer, // attention's splits, see kernels::attention
    pub gated: wgpu::Buffer,  // [rows][intermediate], or of experts [rows·active][intermediate]
    pub router: wgpu::Buffer, // [rows][experts]
    pub routes: wgpu::Buffer, // [rows][active][2], see kernels::route
    pub groups: wgpu::Buffer, // see kernels::group
    pub chosen: wgpu::Buffer, // [rows·active][hidden]
    pub block: wgpu::Buffer,  // [rows][hidden], where blocks end with a norm
    pub embedded: wgpu::Buffer, // [rows][hidden], of a draft head
    pub features: wgpu::Buffer, // [rows][features]: the same buffer for a target and its head
    pub joined: wgpu::Buffer, // [rows][joined], of a draft head
    pub states: wgpu::Buffer, // [seqs][hidden], of a draft head
    pub ordered: wgpu::Buffer, // [rows][columns], where a matrix has an order of its own
    pub last: wgpu::Buffer,   // [logit rows][hidden]
    pub logits: wgpu::Buffer, // [logit rows][vocab]
    pub pooled: wgpu::Buffer, // [seqs][hidden]: sums of hidden states per slot
    pub last_samples: wgpu::Buffer, // [seqs][SLOT_TOKENS] u32, see kernels::batch
    pub results: wgpu::Buffer, // see kernels::Logprobs
    pub tallies: wgpu::Buffer, // per slot, see kernels::Table, as the next two
    pub bias: wgpu::Buffer,
    pub masks: wgpu::Buffer,
    pub kv_copy: wgpu::Buffer, // one layer's block, on its way to another
    kv: Vec<Kv>,               // [places]
    kv_places: Vec<KvPlace>,   // [layers]
    pub widths: Widths,
    ropes: Vec<wgpu::Buffer>,  // cosines and sines, see kernels::rope_kv
    rope_of_layer: Vec<usize>, // the place of a layer's among them
}

impl StepBuffers {
    /// Allocates the buffers for a model and a capacity. `kinds`: per layer; `rope_factors`: as in
    /// [`shapes::rope_tables`].
    pub async fn new(
        gpu: &Gpu,
        config: &ModelConfig,
        capacity: &Capacity,
        kinds: &[KvKind],
        rope_factors: &[f32],
        tuning: Tuning,
        widths: Widths,
    ) -> Result<StepBuffers> {
        let activation = async |what: &str, rows: usize, width: usize| {
            gpu.storage(what, rows as u64 * row_stride(width) as u64 * 4).await
        };
        let words = async |what: &str, count: usize| gpu.storage(what, count as u64 * 4).await;
        let table = async |what: &str, table: Table| {
            words(what, capacity.seqs * table.stride(config.vocab)).await
        };
        let act = async |what: &str, act: Act| {
            let (rows, width) = shapes::act(config, widths, capacity, act);
            activation(what, rows, width).await
        };
        let rows = capacity.rows;
        let (experts, active) =
            config.experts.as_ref().map_or((0, 0), |experts| (experts.count, experts.active));
        let shapes::RopeTables { tables, of_layer } =
            shapes::rope_tables(config, rope_factors, capacity.context);
        let mut ropes = Vec::with_capacity(tables.len());
        for table in tables {
            ropes.push(gpu.upload("rope table", bytemuck::cast_slice(&table)).await?);
        }
        let kv_places = kv_places(config, capacity.groups);
        let mut kv = Vec::new();
        for (place, kind) in kinds_of_places(&kv_places, kinds).into_iter().enumerate() {
            let block_bytes = shapes::layer_block_bytes(config, kind);
            let bytes = capacity.blocks as u64 * block_bytes;
            let buffer = gpu.storage(&format!("KV cache, place {place}"), bytes).await?;
            kv.push(Kv { kind, buffer, block_bytes });
        }
        // A draft head may normalise all features that it reads as one row.
        let normed = config.hidden.max(if widths.joined > 0 { widths.features } else { 0 });
        let largest_block = kv.iter().map(|kv| kv.block_bytes).max().unwrap_or(0);
        // Partial results have the same size for every kind of KV cache.
        let window = capacity.groups.widest();
        let attention = shapes::attention(config, window, KvKind::F16, KvGroup::ALL);
        Ok(StepBuffers {
            step: words("step", Batch::max_words(capacity)).await?,
            tables: words("block tables", BlockTables::words(capacity)).await?,
            residual: act("residual", Act::Residual).await?,
            normed: activation("normed", rows, normed).await?,
            qkv: act("qkv", Act::Qkv).await?,
            query: act("query", Act::Query).await?,
            attention: act("attention", Act::Attention).await?,
            partials: words("partials", attention.partial_words(tuning, capacity)).await?,
            gated: act("gated", Act::Gated).await?,
            router: act("router", Act::Router).await?,
            routes: words("routes", 2 * rows * active).await?,
            groups: words("groups", Group::words(experts, active, rows)).await?,
            chosen: act("chosen", Act::Chosen).await?,
            block: act("block", Act::Block).await?,
            embedded: act("embeddings", Act::Embedded).await?,
            features: act("features", Act::Features).await?,
            joined: act("joined", Act::Joined).await?,
            states: activation(
                "states",
                if widths.joined == 0 { 0 } else { capacity.seqs },
                config.hidden,
            )
            .await?,
            ordered: activation(
                "activations in order",
                rows.max(capacity.logit_rows),
                widths.ordered,
            )
            .await?,
            last: act("last rows", Act::Last).await?,
            logits: act("logits", Act::Logits).await?,
            pooled: activation("pooled", capacity.seqs, config.hidden).await?,
            last_samples: words("last samples", capacity.seqs * SLOT_TOKENS as usize).await?,
            results: words("results", Batch::max_result_words(capacity)).await?,
            tallies: table("tallies", Table::Tallies).await?,
            bias: table("bias", Table::Bias).await?,
            masks: table("masks", Table::Masks).await?,
            kv_copy: gpu.storage("KV block", largest_block).await?,
            kv,
            kv_places,
            widths,
            ropes,
            rope_of_layer: of_layer,
        })
    }

    /// The buffers of a draft head; it shares tables, features, samples and results with its target.
    pub fn beside(self, target: &StepBuffers) -> StepBuffers {
        for own in [&self.tables, &self.features, &self.last_samples, &self.results] {
            own.destroy();
        }
        StepBuffers {
            tables: target.tables.clone(),
            features: target.features.clone(),
            last_samples: target.last_samples.clone(),
            results: target.results.clone(),
            ..self
        }
    }

    /// The same buffers, except for the words of a step: for a drafter inside its target.
    pub async fn inside(&self, gpu: &Gpu, capacity: &Capacity) -> Result<StepBuffers> {
        let words = Batch::max_words(capacity) as u64;
        Ok(StepBuffers { step: gpu.storage("draft step", words * 4).await?, ..self.clone() })
    }

    /// Records the copy of a block at all places, via `kv_copy`: no buffer can be copied to itself.
    pub fn copy_block(&self, encoder: &mut wgpu::CommandEncoder, copy: BlockCopy) {
        for Kv { buffer, block_bytes: bytes, .. } in &self.kv {
            let [from, to] = [copy.from, copy.to].map(|block| u64::from(block) * bytes);
            encoder.copy_buffer_to_buffer(buffer, from, &self.kv_copy, 0, *bytes);
            encoder.copy_buffer_to_buffer(&self.kv_copy, 0, buffer, to, *bytes);
        }
    }

    /// Bytes of a KV block at all places.
    pub fn block_bytes(&self) -> u64 {
        self.kv.iter().map(|kv| kv.block_bytes).sum()
    }

    /// Records copies of a block's content to a read-back, place by place.
    pub fn save_block(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        block: u32,
        readback: &mut Readback,
    ) {
        for Kv { buffer, block_bytes: bytes, .. } in &self.kv {
            let at = u64::from(block) * bytes;
            readback.copy_range(encoder, buffer, at..at + bytes);
        }
    }

    /// Writes a block's content, place by place; returns the words that are left.
    pub fn restore_block<'a>(&self, gpu: &Gpu, block: u32, mut words: &'a [u32]) -> &'a [u32] {
        for Kv { buffer, block_bytes: bytes, .. } in &self.kv {
            let (content, rest) = words.split_at(*bytes as usize / 4);
            gpu.queue.write_buffer(buffer, u64::from(block) * bytes, bytemuck::cast_slice(content));
            words = rest;
        }
        words
    }

    /// The KV cache of a layer, and its group.
    pub fn kv(&self, layer: usize) -> (&Kv, KvGroup) {
        let KvPlace { group, place } = self.kv_places[layer];
        (&self.kv[place], group)
    }

    /// The rope table of a layer.
    pub fn rope(&self, layer: usize) -> &wgpu::Buffer {
        &self.ropes[self.rope_of_layer[layer]]
    }

    /// The buffer of an activation.
    pub fn act(&self, act: Act) -> &wgpu::Buffer {
        match act {
            Act::Residual => &self.residual,
            Act::Qkv => &self.qkv,
            Act::Query => &self.query,
            Act::Attention => &self.attention,
            Act::Gated => &self.gated,
            Act::Router => &self.router,
            Act::Chosen => &self.chosen,
            Act::Block => &self.block,
            Act::Embedded => &self.embedded,
            Act::Features => &self.features,
            Act::Joined => &self.joined,
            Act::Last => &self.last,
            Act::Logits => &self.logits,
        }
    }

    /// The buffer of a per-slot table.
    pub fn table(&self, table: Table) -> &wgpu::Buffer {
        match table {
            Table::Tallies => &self.tallies,
            Table::Bias => &self.bias,
            Table::Masks => &self.masks,
        }
    }

    /// Frees the memory; dropping a buffer does not on the web.
    pub fn destroy(&self) {
        let shared = [
            &self.step,
            &self.tables,
            &self.residual,
            &self.normed,
            &self.qkv,
            &self.query,
            &self.attention,
            &self.partials,
            &self.gated,
            &self.router,
            &self.routes,
            &self.groups,
            &self.chosen,
            &self.block,
            &self.embedded,
            &self.features,
            &self.joined,
            &self.states,
            &self.ordered,
            &self.last,
            &self.logits,
            &self.pooled,
            &self.last_samples,
            &self.results,
            &self.tallies,
            &self.bias,
            &self.masks,
            &self.kv_copy,
        ];
        let kv = self.kv.iter().map(|kv| &kv.buffer);
        shared.into_iter().chain(kv).chain(&self.ropes).for_each(wgpu::Buffer::destroy);
    }
}
