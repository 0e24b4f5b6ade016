//! Tensor names of GGUF files and of GPT-2's folders; elsewhere the names are those that most Hugging
//! Face folders use.

/// Divisors of the rotary frequencies.
pub(super) const ROPE_FACTORS: &str = "rope_freqs.weight";
/// The same for short contexts.
pub(super) const SHORT_ROPE_FACTORS: &str = "rope_factors_short.weight";
pub(super) const LONG_ROPE_FACTORS: &str = "rope_factors_long.weight";

/// Module names in Hugging Face folders and in GGUF files.
const OF_GGUF: [(&str, &str); 24] = [
    ("embed_tokens", "token_embd"),
    ("embed_positions", "position_embd"),
    ("norm", "output_norm"),
    ("lm_head", "output"),
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.qkv_proj", "attn_qkv"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.o_proj", "attn_output"),
    ("post_attention_layernorm", "ffn_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.gate_up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("self_attn.sinks", "attn_sinks"),
    ("mlp.gate", "ffn_gate_inp"),
    ("mlp.experts.gate_proj", "ffn_gate_exps"),
    ("mlp.experts.up_proj", "ffn_up_exps"),
    ("mlp.experts.down_proj", "ffn_down_exps"),
];

/// The GGUF name of the tensor with this Hugging Face name. `after_attention`: the norm between
/// attention and MLP is named after attention.
pub(super) fn in_gguf(name: &str, after_attention: bool) -> String {
    match after_attention {
        true => renamed(&name.replace("attention_layernorm", "attention_norm"), "blk", &OF_GGUF),
        false => renamed(name, "blk", &OF_GGUF),
    }
}

/// Modules: the usual name and GPT-2's name.
const OF_GPT2: [(&str, &str); 10] = [
    ("embed_tokens", "transformer.wte"),
    ("embed_positions", "transformer.wpe"),
    ("norm", "transformer.ln_f"),
    ("lm_head", "lm_head"),
    ("input_layernorm", "ln_1"),
    ("self_attn.qkv_proj", "attn.c_attn"),
    ("self_attn.o_proj", "attn.c_proj"),
    ("post_attention_layernorm", "ln_2"),
    ("mlp.up_proj", "mlp.c_fc"),
    ("mlp.down_proj", "mlp.c_proj"),
];

/// GPT-2's name of the tensor with this Hugging Face name.
pub(super) fn in_gpt2(name: &str) -> String {
    renamed(name, "transformer.h", &OF_GPT2)
}

/// A Hugging Face tensor name with another module name from `modules`; `layers` is the prefix of layer
/// modules.
fn renamed(name: &str, layers: &str, modules: &[(&str, &str)]) -> String {
    let name = name.strip_prefix("model.").unwrap_or(name);
    let (module, kind) = name.rsplit_once('.').unwrap_or((name, ""));
    let layer = module.strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
    let module = layer.map_or(module, |(_, module)| module);
    let own = modules.iter().find(|(theirs, _)| *theirs == module).map_or(module, |(_, own)| own);
    match layer {
        Some((layer, _)) => format!("{layers}.{layer}.{own}.{kind}"),
        None => format!("{own}.{kind}"),
    }
}
