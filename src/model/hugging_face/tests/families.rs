//! Differences of the architectures from Llama.

use super::*;
use crate::model::{Act, MatmulOutput, Op, Param, Product, Shape, program};

fn refused(config: &Value, changes: &[(&str, Value)]) {
    for (field, value) in changes {
        match read(&with(config.clone(), json!({*field: value}))) {
            Err(Error::InvalidConfig { field: named, .. }) => {
                assert_eq!(named.rsplit('.').next(), field.rsplit('.').next(), "{value}");
            }
            other => panic!("{field} = {value}: {other:?}"),
        }
    }
}

/// The names of the tensors of layer 1, in order.
fn layer_tensors(config: &ModelConfig) -> Vec<String> {
    let names = config.params().into_iter().flat_map(|spec| spec.sources);
    let short = |name: String| Some(name.strip_prefix("model.layers.1.")?.to_owned());
    names.filter_map(|source| short(source.name)).collect()
}

/// Phi 4 mini as published.
fn phi4_mini() -> Value {
    let config = family("Phi3ForCausalLM", json!({"hidden_size": 3072, "num_hidden_layers": 32}));
    with(
        without(config, "head_dim"),
        json!({"num_attention_heads": 24, "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
        "sliding_window": 262144, "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope", "short_factor": vec![1.0; 48],
            "long_factor": (0..48).map(|i| 1.0 + f64::from(i)).collect::<Vec<_>>()}}),
    )
}

#[test]
fn phi_rotates_part_of_a_head_with_one_of_two_lists_of_factors() {
    let config = read(&phi4_mini()).unwrap();
    assert_eq!((config.head_dim, config.window(), config.fused), (128, Some(262_144), true));
    let rope = config.attention[31].rope.clone().unwrap();
    assert_eq!(rope.dims, 96);
    assert!((rope.magnitude() - 1.190_238).abs() < 1e-6);
    // sqrt(1 + ln(32) / ln(4096)); the third frequency is 10000^(-4/96).
    let third = |context| rope.inverse_frequencies(&[], context)[2];
    assert!((third(4096) - 0.681_292).abs() < 1e-6);
    assert!((third(4097) - 0.681_292 / 3.0).abs() < 1e-6);
    assert_eq!(config.rope_factors(8192), None);
    let expected = [
        "input_layernorm.weight",
        "self_attn.qkv_proj.weight",
        "self_attn.o_proj.weight",
        "post_attention_layernorm.weight",
        "mlp.gate_up_proj.weight",
        "mlp.down_proj.weight",
    ];
    assert_eq!(layer_tensors(&config), expected);

    let scaling =
        |changes| json!({"rope_scaling": with(phi4_mini()["rope_scaling"].clone(), changes)});
    for field in ["rope_parameters", "rope_scaling"] {
        let mut scaling = scaling(json!({"attention_factor": 1.5}))["rope_scaling"].clone();
        scaling["rope_theta"] = json!(10000.0);
        let config = with(without(phi4_mini(), "rope_scaling"), json!({field: scaling}));
        assert_eq!(read(&config).unwrap().attention[0].rope.as_ref().unwrap().magnitude(), 1.5);
    }
    let whole = without(without(phi4_mini(), "rope_scaling"), "partial_rotary_factor");
    let rope = Rope { theta: 10000.0, dims: 128, scaling: RopeScaling::None };
    let part = json!({"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5}});
    let part = read(&with(whole.clone(), part)).unwrap();
    assert_eq!(part.attention[0].rope, Some(Rope { dims: 64, ..rope.clone() }));
    assert_eq!(read(&whole).unwrap().attention[0].rope, Some(rope));
    refused(
        &phi4_mini(),
        &[
            ("partial_rotary_factor", json!(1.5)),
            ("partial_rotary_factor", json!(0.77)),
            ("partial_rotary_factor", json!("3/4")),
            ("original_max_position_embeddings", json!(1)),
            ("sliding_window", json!(0)),
        ],
    );
    for (field, value) in [
        ("short_factor", json!([1.0])),
        ("long_factor", json!(vec![-1.0; 48])),
        ("long_factor", json!(null)),
        ("attention_factor", json!(0)),
        ("type", json!("ntk")),
    ] {
        let error = read(&with(phi4_mini(), scaling(json!({field: value})))).unwrap_err();
        assert!(error.to_string().contains(&format!("rope_scaling.{field}")), "{error}");
    }
}

#[test]
fn granite_multiplies_embeddings_scores_blocks_and_logits() {
    let granite = family(
        "GraniteForCausalLM",
        json!({"embedding_multiplier": 12.0, "attention_multiplier": 0.015625,
        "residual_multiplier": 0.22, "logits_scaling": 8.0}),
    );
    let config = read(&granite).unwrap();
    let attention = Some(0.015625);
    let expected = Scales { embedding: 12.0, attention, residual: 0.22, logits: 0.125 };
    assert_eq!(config.scales, expected);
    let ops = program(&config);
    let scale = |at: usize| match &ops[at] {
        Op::Embed { scale, .. } | Op::Matmul(Product { scale, .. }) => *scale,
        other => panic!("{other:?}"),
    };
    let last = ops.len() - 2;
    assert_eq!([0, 1, 4, 5, 6, last].map(scale), [12.0, 1.0, 0.22, 1.0, 0.22, 0.125]);
    refused(
        &granite,
        &[
            ("embedding_multiplier", json!(0)),
            ("attention_multiplier", json!("1")),
            ("residual_multiplier", json!(-1)),
            ("logits_scaling", json!(0.0)),
            ("attention_bias", json!(true)),
            ("mlp_bias", json!(true)),
        ],
    );
}

#[test]
fn olmo2_normalises_after_its_blocks_and_whole_rows() {
    let config = read(&family("Olmo2ForCausalLM", json!({}))).unwrap();
    assert_eq!((config.norms, config.qk_norm), (Norms::After, Some(QkNorm::Row)));
    let expected = [
        "self_attn.q_proj.weight",
        "self_attn.k_proj.weight",
        "self_attn.v_proj.weight",
        "self_attn.q_norm.weight",
        "self_attn.k_norm.weight",
        "self_attn.o_proj.weight",
        "post_attention_layernorm.weight",
        "mlp.gate_proj.weight",
        "mlp.up_proj.weight",
        "mlp.down_proj.weight",
        "post_feedforward_layernorm.weight",
    ];
    assert_eq!(layer_tensors(&config), expected);
    let params = config.params();
    let rows = |param| params.iter().find(|spec| spec.param == param).unwrap().sources[0].rows;
    assert_eq!((rows(Param::QNorm(1)), rows(Param::KNorm(1))), (2048, 512));
    let ops = program(&config);
    assert_eq!(ops[5], Op::AddNormed { norm: Param::AttentionOutNorm(0) });
    assert!(matches!(ops[4], Op::Matmul(Product { norm: None, out: Act::Block, .. })));
    refused(&family("Olmo2ForCausalLM", json!({})), &[("attention_bias", json!(true))]);
}

/// Gemma 3 1B as published, except for its sizes.
fn gemma3() -> Value {
    let config = without(family("Gemma3ForCausalLM", json!({})), "tie_word_embeddings");
    with(
        without(config, "hidden_act"),
        json!({"hidden_activation": "gelu_pytorch_tanh", "head_dim": 256, "hidden_size": 1152,
        "query_pre_attn_scalar": 256, "attn_logit_softcapping": null,
        "final_logit_softcapping": null, "rope_theta": 1000000, "rope_local_base_freq": 10000,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "sliding_window": 512,
        "sliding_window_pattern": 6, "torch_dtype": "bfloat16"}),
    )
}

#[test]
fn gemma3_has_five_local_layers_for_each_global_one() {
    let config = read(&gemma3()).unwrap();
    let global = |layer: usize| layer % 6 == 5;
    for (i, layer) in config.attention.iter().enumerate() {
        let scaling = RopeScaling::Linear { factor: 8.0 };
        let (window, theta, scaling) = match global(i) {
            true => (None, 1_000_000.0, scaling),
            false => (Some(512), 10_000.0, RopeScaling::None),
        };
        let rope = Some(Rope { theta, dims: 256, scaling });
        assert_eq!(*layer, LayerAttention { window, rope }, "layer {i}");
    }
    assert_eq!((config.window(), config.tied, config.norms_less_one), (None, true, true));
    assert_eq!((config.norms, config.qk_norm), (Norms::Around, Some(QkNorm::Head)));
    assert_eq!(config.activation, Activation::GeluTanh);
    assert_eq!(config.caps, Caps::default());
    // sqrt(1152) is 33.94, of which bfloat16 keeps 34.
    assert_eq!(config.scales.embedding, 34.0);
    assert_eq!(config.attention_scale(), 1.0 / 16.0);
    let names = layer_tensors(&config);
    let norms: Vec<_> = names.iter().filter(|name| name.contains("norm")).collect();
    let expected = [
        "input_layernorm.weight",
        "self_attn.q_norm.weight",
        "self_attn.k_norm.weight",
        "post_attention_layernorm.weight",
        "pre_feedforward_layernorm.weight",
        "post_feedforward_layernorm.weight",
    ];
    assert_eq!(norms, expected.each_ref());
    assert!(config.params().iter().all(|spec| spec.less_one == spec.param.is_norm()));
    let gate = MatmulOutput::GeluGate;
    assert!(program(&config).iter().any(|op| matches!(op, Op::Matmul(p) if p.output == gate)));

    let mut newer = gemma3();
    for field in ["rope_theta", "rope_local_base_freq", "rope_scaling", "sliding_window_pattern"] {
        newer = without(newer, field);
    }
    let kinds: Vec<_> = (0..16)
        .map(|layer| if global(layer) { "full_attention" } else { "sliding_attention" })
        .collect();
    let parameters = json!({"layer_types": kinds, "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}});
    assert_eq!(read(&with(newer, parameters)), Ok(config));
    refused(
        &gemma3(),
        &[
            ("attn_logit_softcapping", json!(50.0)),
            ("final_logit_softcapping", json!(-1)),
            ("hidden_activation", json!("gelu")),
            ("attention_bias", json!(true)),
            ("use_bidirectional_attention", json!(true)),
            ("sliding_window_pattern", json!(0)),
            ("query_pre_attn_scalar", json!(0)),
            ("rope_local_base_freq", json!(0)),
        ],
    );
}

#[test]
fn a_model_that_also_sees_images_is_its_text_model() {
    // Gemma 3 4B as published: fields with the usual value are absent.
    let published = json!({
        "architectures": ["Gemma3ForConditionalGeneration"], "eos_token_id": [1, 106],
        "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 1152},
        "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
            "model_type": "gemma3_text", "num_hidden_layers": 34,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
    });
    let config = read(&published).unwrap();
    let sizes = (config.hidden, config.heads, config.kv_heads, config.head_dim, config.vocab);
    assert_eq!(sizes, (2560, 8, 4, 256, 262_208));
    assert_eq!((config.context, config.norm_eps, config.tied), (131_072, 1e-6, true));
    // sqrt(2560) is 50.6, of which bfloat16 keeps 50.5.
    assert_eq!(config.scales.embedding, 50.5);
    let params = config.params();
    assert_eq!(params.last().unwrap().sources[0].name, "model.norm.weight");
    for (config, field) in [
        (without(published.clone(), "text_config"), "text_config"),
        (with(published, json!({"text_config": {"hidden_size": 0}})), "text_config."),
    ] {
        let error = read(&config).unwrap_err();
        assert!(error.to_string().contains(field), "{error}");
    }
}

#[test]
fn gemma2_caps_scores_and_logits() {
    let gemma2 = with(
        gemma3(),
        json!({"architectures": ["Gemma2ForCausalLM"], "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 224, "rope_scaling": null}),
    );
    let config = read(&gemma2).unwrap();
    assert_eq!(config.caps, Caps { attention: Some(50.0), logits: Some(30.0) });
    let bare = without(without(gemma2.clone(), "attn_logit_softcapping"), "sliding_window");
    let bare = read(&with(bare, json!({"final_logit_softcapping": null}))).unwrap();
    assert_eq!(bare.caps, Caps { attention: Some(50.0), logits: None });
    assert_eq!(layers(&config).0, [Some(512), None].repeat(8));
    assert_eq!(layers(&bare).0, [Some(4096), None].repeat(8));
    assert_eq!((config.qk_norm, config.scales.attention), (None, Some(224f32.sqrt().recip())));
    assert!(config.attention.iter().all(|layer| layer.rope == config.attention[0].rope));
}

#[test]
fn gpt2_has_names_of_its_own_positions_and_biases_but_no_gate_and_no_rotation() {
    let gpt2 = json!({
        "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5, "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
        "n_positions": 1024, "vocab_size": 50257,
    });
    let config = read(&gpt2).unwrap();
    assert_eq!((config.hidden, config.intermediate, config.context), (768, 3072, 1024));
    assert_eq!((config.head_dim, config.layers, config.tied), (64, 12, true));
    assert!(config.attention.iter().all(|layer| layer.rope.is_none()));
    let params = config.params();
    let source = |param: Param| {
        let spec = params.iter().find(|spec| spec.param == param).unwrap();
        let [source] = &spec.sources[..] else { panic!("{spec:?}") };
        (source.name.as_str(), spec.shape, source.by_columns)
    };
    let (vector, matrix) = (|n| Shape::Vector { n }, |n, k| Shape::Matrix { n, k });
    for (param, expected) in [
        (Param::Positions, ("transformer.wpe.weight", matrix(1024, 768), false)),
        (Param::Qkv(3), ("transformer.h.3.attn.c_attn.weight", matrix(2304, 768), true)),
        (Param::QkvBias(3), ("transformer.h.3.attn.c_attn.bias", vector(2304), false)),
        (Param::GateUp(0), ("transformer.h.0.mlp.c_fc.weight", matrix(3072, 768), true)),
        (Param::DownBias(0), ("transformer.h.0.mlp.c_proj.bias", vector(768), false)),
        (Param::AttentionNormBias(1), ("transformer.h.1.ln_1.bias", vector(768), false)),
        (Param::FinalNormBias, ("transformer.ln_f.bias", vector(768), false)),
    ] {
        assert_eq!(source(param), expected);
    }
    let ops = program(&config);
    assert!(matches!(ops[1], Op::Embed { weight: Param::Positions, positions: true, .. }));
    let up = Op::Matmul(Product {
        norm: Some(Param::MlpNorm(0)),
        bias: Some(Param::GateUpBias(0)),
        output: MatmulOutput::Gelu,
        ..Product::new(Act::Residual, Param::GateUp(0), Act::Gated)
    });
    assert!(ops.contains(&up));
    refused(
        &gpt2,
        &[
            ("n_embd", json!(0)),
            ("n_layer", json!("12")),
            ("n_positions", json!(null)),
            ("layer_norm_epsilon", json!(0)),
            ("activation_function", json!("relu")),
            ("scale_attn_by_inverse_layer_idx", json!(true)),
        ],
    );
}

#[test]
fn mixtral_has_experts_in_all_layers() {
    let mixtral = family(
        "MixtralForCausalLM",
        json!({"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": null}),
    );
    let config = read(&mixtral).unwrap();
    let experts = config.experts.clone().unwrap();
    assert_eq!((experts.count, experts.active, experts.intermediate), (8, 2, 8192));
    assert!(experts.normalise && !experts.biases && experts.layers == [true; 16]);
    let names = layer_tensors(&config);
    let expected = [
        "block_sparse_moe.gate.weight",
        "block_sparse_moe.experts.0.w1.weight",
        "block_sparse_moe.experts.0.w3.weight",
        "block_sparse_moe.experts.1.w1.weight",
    ];
    assert_eq!(names[6..10], expected);
    assert_eq!(names.last().unwrap(), "block_sparse_moe.experts.7.w2.weight");
    assert_eq!(names.len(), 6 + 1 + 3 * 8);
    let bare = read(&without(mixtral.clone(), "rope_theta")).unwrap();
    assert_eq!(bare.attention[0].rope.as_ref().unwrap().theta, 1_000_000.0);
    refused(
        &mixtral,
        &[
            ("num_local_experts", json!(0)),
            ("num_local_experts", json!(2000)),
            ("num_experts_per_tok", json!(0)),
            ("num_experts_per_tok", json!(9)),
        ],
    );
}

#[test]
fn qwen3_has_experts_in_the_layers_it_says() {
    let qwen = family(
        "Qwen3MoeForCausalLM",
        json!({"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
            "decoder_sparse_step": 2, "mlp_only_layers": [3], "norm_topk_prob": true}),
    );
    let config = read(&qwen).unwrap();
    let experts = config.experts.clone().unwrap();
    assert_eq!((experts.count, experts.active, experts.intermediate), (128, 8, 768));
    let sparse: Vec<_> = (0..16).filter(|layer| config.experts_of(*layer).is_some()).collect();
    assert_eq!(sparse, [1, 5, 7, 9, 11, 13, 15]);
    assert!(experts.normalise && config.qk_norm == Some(QkNorm::Head));
    let ops = program(&config);
    let routed = ops.iter().filter(|op| **op == Op::Route).count();
    let combined = ops.iter().filter(|op| **op == Op::Combine { scale: 1.0 }).count();
    assert_eq!((routed, combined), (7, 7));
    let plain = read(&without(qwen.clone(), "norm_topk_prob")).unwrap();
    assert!(!plain.experts.unwrap().normalise);
    refused(
        &qwen,
        &[
            ("num_experts", json!("8")),
            ("moe_intermediate_size", json!(null)),
            ("decoder_sparse_step", json!(0)),
            ("mlp_only_layers", json!(3)),
            ("attention_bias", json!(true)),
        ],
    );
}

/// gpt-oss 20B as published.
fn gpt_oss() -> Value {
    family(
        "GptOssForCausalLM",
        json!({"attention_bias": true, "head_dim": 64, "hidden_size": 2880,
            "intermediate_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8,
            "num_local_experts": 32, "num_experts_per_tok": 4, "rope_theta": 150000,
            "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
                "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false},
            "sliding_window": 128, "swiglu_limit": 7.0, "tie_word_embeddings": false}),
    )
}

#[test]
fn gpt_oss_has_biases_sinks_and_windows_on_every_other_layer() {
    let config = read(&gpt_oss()).unwrap();
    assert!(config.qkv_bias && config.output_bias && config.sinks);
    assert_eq!(layers(&config).0, [Some(128), None].repeat(8));
    assert_eq!(config.activation, Activation::Clamped);
    let scaling = RopeScaling::Yarn {
        factor: 32.0,
        original_context: 4096.0,
        fast: 32.0,
        slow: 1.0,
        truncate: false,
        magnitude: 1.0 + 0.1 * 32f64.ln(),
    };
    let rope = Rope { theta: 150_000.0, dims: 64, scaling };
    assert!(config.attention.iter().all(|layer| layer.rope.as_ref() == Some(&rope)));
    let mut names = layer_tensors(&config);
    // The tensors of all experts are joined.
    names.dedup();
    let expected = [
        "input_layernorm.weight",
        "self_attn.q_proj.weight",
        "self_attn.k_proj.weight",
        "self_attn.v_proj.weight",
        "self_attn.q_proj.bias",
        "self_attn.k_proj.bias",
        "self_attn.v_proj.bias",
        "self_attn.o_proj.weight",
        "self_attn.o_proj.bias",
        "self_attn.sinks",
        "post_attention_layernorm.weight",
        "mlp.router.weight",
        "mlp.router.bias",
        "mlp.experts.gate_up_proj.weight",
        "mlp.experts.down_proj.weight",
        "mlp.experts.gate_up_proj_bias",
        "mlp.experts.down_proj_bias",
    ];
    assert_eq!(names, expected);
    refused(
        &gpt_oss(),
        &[
            ("attention_bias", json!(false)),
            ("swiglu_limit", json!(6.0)),
            ("swiglu_alpha", json!(1.0)),
            ("num_experts_per_tok", json!(33)),
        ],
    );
    for (rope, field) in [
        (json!({"rope_type": "yarn"}), "factor"),
        (json!({"rope_type": "yarn", "factor": 2, "truncate": 1}), "truncate"),
        (json!({"rope_type": "yarn", "factor": 2, "attention_factor": -1}), "attention_factor"),
    ] {
        let error = read(&with(gpt_oss(), json!({"rope_scaling": rope}))).unwrap_err();
        assert!(error.to_string().contains(&format!("rope_scaling.{field}")), "{error}");
    }
}
