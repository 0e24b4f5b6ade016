//! Medusa: several heads, each of which drafts one token from the target's last hidden state.

use super::super::config::Activation;
use super::super::json::Fields;
use super::super::rope::{Rope, RopeScaling};
use super::super::{ModelConfig, Param, ParamSpec, Shape};
use super::{DraftConfig, DraftFamily, Features, MOST_LAYERS, Names, expect_target};
use crate::error::{Error, Result};

pub(super) fn read(fields: &Fields, target: &ModelConfig) -> Result<DraftConfig> {
    expect_target(fields, "hidden_size", target)?;
    let of_target = format!("{}, the target's", target.vocab);
    if fields.count_or("vocab_size", 1..=1 << 21, target.vocab)? != target.vocab {
        return Err(fields.invalid("vocab_size", of_target));
    }
    Ok(DraftConfig {
        family: DraftFamily::Medusa {
            // Counted from the tensors: published files say 2 and have 5.
            heads: 0,
            blocks: fields.count_or("medusa_num_layers", 0..=MOST_LAYERS, 1)?,
        },
        hidden: target.hidden,
        intermediate: 0,
        heads: 0,
        kv_heads: 0,
        head_dim: 0,
        activation: Activation::Silu,
        norm_eps: target.norm_eps,
        norms_less_one: false,
        rope: Rope { theta: 1.0, dims: 0, scaling: RopeScaling::None },
        layers: 0,
        vocab: target.vocab,
        target_vocab: target.vocab,
        own_head: true,
        own_embed: false,
        features: Features::Last,
        feature_width: target.hidden,
        fuse_norm: None,
        fuse_bias: false,
        embedding_first: true,
        norm_before_residual: false,
        final_norm: false,
        norm_output: false,
        qkv_bias: false,
        output_bias: false,
        qk_norm: None,
        output_gate: false,
        names: Names::default(),
    })
}

pub(super) fn settle<'a>(
    config: &mut DraftConfig,
    mut names: impl Iterator<Item = &'a str> + Clone,
) -> Result<()> {
    let DraftFamily::Medusa { heads, blocks } = &mut config.family else { return Ok(()) };
    let first = if *blocks == 0 { "0.0.weight" } else { "0.0.linear.weight" };
    let prefix = names
        .clone()
        .filter_map(|name| name.strip_suffix(first))
        .find(|prefix| prefix.is_empty() || prefix.ends_with('.'));
    let prefix = prefix.ok_or_else(|| Error::MissingTensor { name: first.into() })?;
    let number = |name: &str| name.strip_prefix(prefix)?.split('.').next()?.parse().ok();
    let last = names.clone().filter_map(number).max().unwrap_or(0);
    if last >= MOST_LAYERS {
        let name = names.find(|name| number(name) == Some(last)).unwrap_or_default();
        return Err(Error::WrongTensor {
            name: name.into(),
            found: "there".into(),
            expected: format!("absent: more than {MOST_LAYERS} heads are not supported"),
        });
    }
    // If a head is incomplete, loading reports a missing tensor.
    *heads = last + 1;
    config.names.prefix = prefix.into();
    Ok(())
}

pub(super) fn params(config: &DraftConfig, heads: usize, blocks: usize) -> Vec<ParamSpec> {
    let DraftConfig { hidden, vocab, .. } = *config;
    let mut list = Vec::new();
    for head in 0..heads {
        let module = |name: String| config.module(&format!("{head}.{name}"));
        for block in 0..blocks {
            let index = head * blocks + block;
            let linear = |kind: &str| module(format!("{block}.linear.{kind}"));
            let shape = Shape::Matrix { n: hidden, k: hidden };
            list.push(ParamSpec::one(Param::MedusaBlock(index), linear("weight"), shape));
            let shape = Shape::Vector { n: hidden };
            list.push(ParamSpec::one(Param::MedusaBlockBias(index), linear("bias"), shape));
        }
        let shape = Shape::Matrix { n: vocab, k: hidden };
        let name = module(format!("{blocks}.weight"));
        list.push(ParamSpec::one(Param::MedusaHead(head), name, shape));
    }
    list
}
