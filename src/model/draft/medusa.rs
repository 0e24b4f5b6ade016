//! Medusa: several heads, each of which drafts one token from the target's last hidden state.

use super::config::{DraftConfig, DraftFamily, MOST_LAYERS, expect_target};
use crate::error::{Error, Result};
use crate::model::{ModelConfig, Param, ParamSpec, Shape, json::Fields};

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
        own_head: true,
        ..DraftConfig::new(target)
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
