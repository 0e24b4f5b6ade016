//! The weights of heads with layers.

use super::config::{DraftConfig, Features, FuseNorm};
use crate::model::{Param, ParamSpec, Shape};

/// Lists them in the order of use.
pub(super) fn params(config: &DraftConfig) -> Vec<ParamSpec> {
    let DraftConfig { hidden, intermediate, head_dim, .. } = *config;
    let names = &config.names;
    let vector = |n| Shape::Vector { n };
    let matrix = |n, k| Shape::Matrix { n, k };
    let norm = |param, module: &str, n| ParamSpec {
        less_one: config.norms_less_one,
        ..ParamSpec::one(param, format!("{module}.weight"), vector(n))
    };

    let mut list = Vec::new();
    if config.own_embed {
        let name = config.module("embed_tokens.weight");
        list.push(ParamSpec::one(Param::Embed, name, matrix(config.target_vocab, hidden)));
    }
    let streams = match &config.features {
        Features::Streams(streams) => streams.len(),
        Features::Last => 0,
    };
    let width = config.feature_width;
    match config.fuse_norm {
        Some(FuseNorm::Row) => {
            list.push(norm(Param::FuseNorm, &config.module("input_norm"), streams * width));
        }
        Some(FuseNorm::Each) => {
            let each = (0..streams).map(|i| (config.module(&format!("fc_norm.{i}.weight")), width));
            list.push(ParamSpec::joined(Param::FuseNorm, vector(streams * width), each));
        }
        None => {}
    }
    let fuse = format!("{}.weight", names.fuse);
    list.push(ParamSpec::one(Param::Fuse, fuse, matrix(hidden, config.fuse_columns())));
    if config.fuse_bias {
        let name = format!("{}.bias", names.fuse);
        list.push(ParamSpec::one(Param::FuseBias, name, vector(hidden)));
    }
    if config.has_input_norms() {
        let features = match config.features {
            Features::Streams(_) => hidden,
            Features::Last => config.feature_width,
        };
        list.push(norm(Param::EmbedNorm, &names.embed_norm, hidden));
        list.push(norm(Param::HiddenNorm, &names.hidden_norm, features));
    }
    for (i, layer) in names.layers.iter().enumerate() {
        let layer = |name: &str| format!("{layer}.{name}");
        if config.has_attention_norm(i) {
            list.push(norm(Param::AttentionNorm(i), &layer("input_layernorm"), hidden));
        }
        let (q, kv) = (config.heads * head_dim, config.kv_heads * head_dim);
        let parts = [("q_proj", config.qkv_rows() - 2 * kv), ("k_proj", kv), ("v_proj", kv)];
        let qkv = |kind: &str| {
            parts.map(|(name, rows)| (layer(&format!("self_attn.{name}.{kind}")), rows))
        };
        let shape = matrix(config.qkv_rows(), config.qkv_columns(i));
        list.push(ParamSpec::joined(Param::Qkv(i), shape, qkv("weight")));
        if config.qkv_bias {
            let shape = vector(config.qkv_rows());
            list.push(ParamSpec::joined(Param::QkvBias(i), shape, qkv("bias")));
        }
        if config.qk_norm.is_some() {
            list.push(norm(Param::QNorm(i), &layer("self_attn.q_norm"), head_dim));
            list.push(norm(Param::KNorm(i), &layer("self_attn.k_norm"), head_dim));
        }
        let name = layer("self_attn.o_proj.weight");
        list.push(ParamSpec::one(Param::Output(i), name, matrix(hidden, q)));
        if config.output_bias {
            let name = layer("self_attn.o_proj.bias");
            list.push(ParamSpec::one(Param::OutputBias(i), name, vector(hidden)));
        }
        list.push(norm(Param::MlpNorm(i), &layer("post_attention_layernorm"), hidden));
        let gate_up = ["gate_proj", "up_proj"];
        let gate_up = gate_up.map(|name| (layer(&format!("mlp.{name}.weight")), intermediate));
        let shape = matrix(2 * intermediate, hidden);
        list.push(ParamSpec::joined(Param::GateUp(i), shape, gate_up));
        let name = layer("mlp.down_proj.weight");
        list.push(ParamSpec::one(Param::Down(i), name, matrix(hidden, intermediate)));
    }
    if config.final_norm {
        list.push(norm(Param::FinalNorm, &names.final_norm, hidden));
    }
    if config.own_head {
        let name = config.module("lm_head.weight");
        list.push(ParamSpec::one(Param::Head, name, matrix(config.vocab, hidden)));
    }
    list
}
