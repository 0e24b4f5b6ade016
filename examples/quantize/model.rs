//! The model on Tabloom's CPU executor.

use std::{ops::ControlFlow, path::Path};

use anyhow::Result;
use pollster::block_on;
use tabloom::{
    executor::{CpuExecutor, KvKind},
    load::{self, LoadOptions},
    model::{ModelConfig, Quantization},
    step::{Capacity, KvGroups, RowTokens, SeqPlan, StepPlan},
    weights::{self, FolderSource, HostSink, HostWeights, Quantise, Source},
};

/// A model in main memory.
pub struct Model {
    pub config: ModelConfig,
    pub weights: HostWeights,
}

impl Model {
    /// Loads a folder without quantising.
    pub fn load(folder: &Path) -> Result<Model> {
        let source = FolderSource::new(folder);
        let json = block_on(source.read("config.json"))?;
        let config = ModelConfig::from_json(&json)?;
        let quantization = Quantization::from_json(&json)?;
        let checkpoint = block_on(weights::Checkpoint::open(&source))?;
        let plan = checkpoint.plan(&config, quantization, &Quantise::KEEP)?;
        let mut sink = HostSink::new();
        block_on(checkpoint.load(&plan, &mut sink, |_| ControlFlow::Continue(())))?;
        Ok(Model { config, weights: sink.into_weights() })
    }

    /// An executor for sequences of up to `longest` tokens, with `rows` rows and `logit_rows` rows of
    /// logits per step.
    pub fn executor(
        self,
        sequences: usize,
        longest: usize,
        rows: usize,
        logit_rows: usize,
    ) -> Result<CpuExecutor> {
        let Model { config, weights } = self;
        let kinds = vec![KvKind::F16; config.layers];
        let options = LoadOptions { context: Some(longest), ..LoadOptions::default() };
        let capacity = load::capacity(&config, &options, &kinds, u64::MAX)?;
        let capacity = Capacity {
            rows,
            seqs: sequences,
            logit_rows: logit_rows.max(sequences),
            blocks: 1 + sequences * capacity.groups.blocks(longest),
            ..capacity
        };
        Ok(CpuExecutor::new(config, weights, capacity, kinds)?)
    }
}

/// A step over whole sequences, each with its own KV blocks.
pub fn plan(sequences: &[Vec<u32>], groups: KvGroups) -> StepPlan {
    let mut next = 1;
    let seqs = (0..).zip(sequences).map(|(slot, tokens)| {
        let blocks = next..next + groups.blocks(tokens.len()) as u32;
        next = blocks.end;
        SeqPlan {
            slot,
            tokens: RowTokens::Known(tokens.clone()),
            blocks: blocks.collect(),
            ..SeqPlan::default()
        }
    });
    StepPlan { seqs: seqs.collect(), ..StepPlan::default() }
}
