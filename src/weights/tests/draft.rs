//! Draft heads for a small target.

pub(super) mod torch;
mod unfit;

use super::*;
use crate::layout::Layout;
use crate::model::{DraftConfig, DraftFamily, Features, FuseNorm, Param, QkNorm};

/// Hidden 20, 8 layers, a vocabulary of 11.
fn target() -> ModelConfig {
    let config = json!({
        "architectures": ["Qwen2ForCausalLM"], "hidden_size": 20, "intermediate_size": 12,
        "max_position_embeddings": 64, "num_attention_heads": 2, "num_hidden_layers": 8,
        "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "vocab_size": 11, "head_dim": 8,
        "hidden_act": "silu", "tie_word_embeddings": true,
    });
    ModelConfig::from_json(config.to_string().as_bytes()).unwrap()
}

fn eagle3_config() -> Value {
    json!({
        "architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 20, "intermediate_size": 28,
        "num_attention_heads": 3, "num_hidden_layers": 1, "num_key_value_heads": 1,
        "rms_norm_eps": 1e-5, "vocab_size": 11, "draft_vocab_size": 5, "head_dim": 16,
        "hidden_act": "silu", "rope_scaling": null, "rope_theta": 500000.0,
    })
}

/// Tensors of [`eagle3_config`].
const EAGLE3: [(&str, &[usize]); 15] = [
    ("d2t", &[5]),
    ("t2d", &[11]),
    ("fc.weight", &[20, 60]),
    ("midlayer.input_layernorm.weight", &[20]),
    ("midlayer.hidden_norm.weight", &[20]),
    ("midlayer.self_attn.q_proj.weight", &[48, 40]),
    ("midlayer.self_attn.k_proj.weight", &[16, 40]),
    ("midlayer.self_attn.v_proj.weight", &[16, 40]),
    ("midlayer.self_attn.o_proj.weight", &[20, 48]),
    ("midlayer.post_attention_layernorm.weight", &[20]),
    ("midlayer.mlp.gate_proj.weight", &[28, 20]),
    ("midlayer.mlp.up_proj.weight", &[28, 20]),
    ("midlayer.mlp.down_proj.weight", &[20, 28]),
    ("norm.weight", &[20]),
    ("lm_head.weight", &[5, 20]),
];

/// Target ids 1, 2, 5, 8, 10.
const OFFSETS: [i64; 5] = [1, 1, 3, 5, 6];

fn random(rng: &mut fastrand::Rng, name: &str, shape: &[usize]) -> Stored {
    let count: usize = shape.iter().product();
    let bytes = (0..count).flat_map(|_| (rng.f32() - 0.5).to_le_bytes()).collect();
    (name.into(), Dtype::F32, shape.to_vec(), bytes)
}

fn eagle3_tensors() -> Vec<Stored> {
    let rng = &mut fastrand::Rng::with_seed(11);
    let tensor = |(name, shape): &(&str, &[usize])| match *name {
        "d2t" => {
            let bytes = OFFSETS.iter().flat_map(|offset| offset.to_le_bytes()).collect();
            (name.to_string(), Dtype::I64, shape.to_vec(), bytes)
        }
        "t2d" => (name.to_string(), Dtype::BOOL, shape.to_vec(), vec![0; 11]),
        name => random(rng, name, shape),
    };
    EAGLE3.iter().map(tensor).collect()
}

fn folder(config: &Value, tensors: &[Stored]) -> MemorySource {
    MemorySource::new([
        ("config.json", config.to_string().into_bytes()),
        ("model.safetensors", serialized(tensors)),
    ])
}

fn load_draft(source: &impl Source, quantise: &Quantise) -> Result<(Draft, HostWeights)> {
    block_on(async {
        let prepared = open_draft(source, &target(), quantise).await?;
        let mut sink = HostSink::new();
        let bytes = prepared.bytes();
        let draft = prepared.load(&mut sink, |_| ControlFlow::Continue(())).await?;
        let weights = sink.into_weights();
        let vectors: usize = weights.vectors.values().map(|vector| 4 * vector.len()).sum();
        let matrices = weights.matrices.values().flatten();
        let matrices: usize = matrices.map(|part| 4 * (part.words.len() + part.scales.len())).sum();
        assert_eq!((vectors + matrices) as u64, bytes);
        Ok((draft, weights))
    })
}

pub(super) fn keep(source: &impl Source) -> Result<(Draft, HostWeights)> {
    load_draft(source, &Quantise::KEEP)
}

/// The numbers of stored tensors, one after the other.
fn numbers(tensors: &[Stored], names: &[&str]) -> Vec<f32> {
    let bytes = names.iter().flat_map(|name| {
        let found = tensors.iter().find(|tensor| tensor.0 == *name);
        &found.unwrap_or_else(|| panic!("no tensor {name}")).3
    });
    let bytes: Vec<u8> = bytes.copied().collect();
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// The rows of a matrix one after the other.
fn matrix(weights: &HostWeights, param: Param) -> Vec<f32> {
    let mut all = Vec::new();
    for part in &weights.matrices[&param] {
        for row in 0..part.n {
            let mut values = vec![0.0; part.k];
            part.dequantise_row(row, &mut values);
            all.extend(values);
        }
    }
    all
}

fn named<'a>(tensors: &'a mut [Stored], name: &str) -> &'a mut Stored {
    tensors.iter_mut().find(|tensor| tensor.0 == name).expect("the test's own tensor")
}

#[test]
fn an_eagle3_head_is_loaded_in_both_namings() {
    let tensors = eagle3_tensors();
    let midlayer = keep(&folder(&eagle3_config(), &tensors)).unwrap();
    let (Draft { config, vocabulary }, weights) = &midlayer;
    assert_eq!(config.family, DraftFamily::Eagle3);
    assert_eq!(config.features, Features::Streams(vec![2, 4, 5]));
    assert_eq!((config.vocab, config.own_head, config.own_embed), (5, true, false));
    assert_eq!(vocabulary.as_deref(), Some(&[1, 2, 5, 8, 10][..]));
    let qkv =
        ["q_proj", "k_proj", "v_proj"].map(|name| format!("midlayer.self_attn.{name}.weight"));
    let gate_up = ["gate_proj", "up_proj"].map(|name| format!("midlayer.mlp.{name}.weight"));
    let all =
        |names: &[String]| numbers(&tensors, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let one = |name: &str| numbers(&tensors, &[name]);
    assert_eq!(matrix(weights, Param::Qkv(0)), all(&qkv));
    assert_eq!(weights.matrices[&Param::Qkv(0)][0].k, 40);
    assert_eq!(matrix(weights, Param::GateUp(0)), all(&gate_up));
    assert_eq!(matrix(weights, Param::Fuse), one("fc.weight"));
    assert_eq!(matrix(weights, Param::Head), one("lm_head.weight"));
    for (param, name) in [
        (Param::EmbedNorm, "midlayer.input_layernorm.weight"),
        (Param::HiddenNorm, "midlayer.hidden_norm.weight"),
        (Param::MlpNorm(0), "midlayer.post_attention_layernorm.weight"),
        (Param::FinalNorm, "norm.weight"),
    ] {
        assert_eq!(weights.vectors[&param], one(name), "{name}");
    }
    assert_eq!(weights.matrices.len() + weights.vectors.len(), 10);

    for (from, to) in [("midlayer.", "layers.0."), ("midlayer.", "model.layers.0.")] {
        let renamed = tensors.iter().cloned().map(|mut tensor| {
            tensor.0 = tensor.0.replace(from, to);
            tensor
        });
        let renamed: Vec<_> = renamed.collect();
        let (draft, same) = keep(&folder(&eagle3_config(), &renamed)).unwrap();
        assert_eq!((&same, &draft.vocabulary), (weights, vocabulary), "{to}");
    }
}

#[test]
fn a_heads_matrices_are_quantised_as_asked() {
    let quantise = Quantise {
        matrices: Some(Layout::W4 { group: 32 }),
        embeddings: Some(Layout::W8 { group: 32 }),
    };
    let source = folder(&eagle3_config(), &eagle3_tensors());
    let (_, weights) = load_draft(&source, &quantise).unwrap();
    assert_eq!(weights.matrices[&Param::Fuse][0].layout, Layout::W4 { group: 32 });
    assert_eq!(weights.matrices[&Param::Head][0].layout, Layout::W8 { group: 32 });
}

#[test]
fn stream_indices_follow_their_format() {
    let streams = |changes: Value| {
        let mut config = eagle3_config();
        for (field, value) in changes.as_object().unwrap() {
            config[field] = value.clone();
        }
        DraftConfig::from_json(config.to_string().as_bytes(), &target())
            .map(|config| config.features)
    };
    const IDS: &str = "eagle_aux_hidden_state_layer_ids";
    let expected = |list: &[usize]| Ok(Features::Streams(list.to_vec()));
    assert_eq!(streams(json!({})), expected(&[2, 4, 5]));
    assert_eq!(streams(json!({IDS: [6, 1, 8]})), expected(&[1, 6, 8]));
    assert_eq!(streams(json!({IDS: null})), expected(&[2, 4, 5]));
    assert_eq!(streams(json!({"eagle_config": {IDS: [1, 3, 7]}})), expected(&[2, 4, 8]));
    assert_eq!(streams(json!({"eagle_config": {IDS: [3]}})), expected(&[4]));
    for wrong in [json!([1, 1, 2]), json!([1, 2, 9]), json!([1, "2", 3]), json!([1, -1])] {
        let error = streams(json!({IDS: wrong})).unwrap_err();
        assert!(matches!(error, Error::InvalidConfig { field, .. } if field == IDS));
    }
}

#[test]
fn token_maps_may_be_int32_or_absent_if_they_change_nothing() {
    let mut tensors = eagle3_tensors();
    let map = named(&mut tensors, "d2t");
    map.1 = Dtype::I32;
    map.3 = OFFSETS.iter().flat_map(|offset| (*offset as i32).to_le_bytes()).collect();
    let (draft, _) = keep(&folder(&eagle3_config(), &tensors)).unwrap();
    assert_eq!(draft.vocabulary.as_deref(), Some(&[1, 2, 5, 8, 10][..]));

    let mut config = eagle3_config();
    config["draft_vocab_size"] = json!(11);
    tensors.retain(|tensor| !["d2t", "t2d", "lm_head.weight"].contains(&&tensor.0[..]));
    let (draft, weights) = keep(&folder(&config, &tensors)).unwrap();
    assert_eq!((draft.vocabulary, draft.config.own_head), (None, false));
    assert!(!weights.matrices.contains_key(&Param::Head));
}

#[test]
fn optional_parts_of_eagle3_are_found_by_their_tensors() {
    let rng = &mut fastrand::Rng::with_seed(3);
    let mut tensors = eagle3_tensors();
    for (name, shape) in [
        ("midlayer.self_attn.q_proj.bias", &[48][..]),
        ("midlayer.self_attn.k_proj.bias", &[16]),
        ("midlayer.self_attn.v_proj.bias", &[16]),
        ("midlayer.self_attn.o_proj.bias", &[20]),
        ("midlayer.self_attn.q_norm.weight", &[16]),
        ("midlayer.self_attn.k_norm.weight", &[16]),
        ("fc.bias", &[20]),
        ("fc_norm.0.weight", &[20]),
        ("fc_norm.1.weight", &[20]),
        ("fc_norm.2.weight", &[20]),
        ("embed_tokens.weight", &[11, 20]),
        ("layers.1.input_layernorm.weight", &[20]),
        ("layers.1.self_attn.q_proj.weight", &[48, 20]),
        ("layers.1.self_attn.k_proj.weight", &[16, 20]),
        ("layers.1.self_attn.v_proj.weight", &[16, 20]),
        ("layers.1.self_attn.o_proj.weight", &[20, 48]),
        ("layers.1.self_attn.q_proj.bias", &[48]),
        ("layers.1.self_attn.k_proj.bias", &[16]),
        ("layers.1.self_attn.v_proj.bias", &[16]),
        ("layers.1.self_attn.o_proj.bias", &[20]),
        ("layers.1.self_attn.q_norm.weight", &[16]),
        ("layers.1.self_attn.k_norm.weight", &[16]),
        ("layers.1.post_attention_layernorm.weight", &[20]),
        ("layers.1.mlp.gate_proj.weight", &[28, 20]),
        ("layers.1.mlp.up_proj.weight", &[28, 20]),
        ("layers.1.mlp.down_proj.weight", &[20, 28]),
    ] {
        tensors.push(random(rng, name, shape));
    }
    let mut config = eagle3_config();
    config["num_hidden_layers"] = json!(2);
    let (Draft { config, .. }, weights) = keep(&folder(&config, &tensors)).unwrap();
    assert_eq!(config.fuse_norm, Some(FuseNorm::Each));
    assert!(config.fuse_bias && config.qkv_bias && config.output_bias && config.own_embed);
    assert_eq!(config.qk_norm, Some(QkNorm::Head));
    for (param, name) in [
        (Param::FuseBias, "fc.bias"),
        (Param::OutputBias(0), "midlayer.self_attn.o_proj.bias"),
        (Param::AttentionNorm(1), "layers.1.input_layernorm.weight"),
        (Param::KNorm(1), "layers.1.self_attn.k_norm.weight"),
    ] {
        assert_eq!(weights.vectors[&param], numbers(&tensors, &[name]), "{name}");
    }
    let norms = ["fc_norm.0.weight", "fc_norm.1.weight", "fc_norm.2.weight"];
    assert_eq!(weights.vectors[&Param::FuseNorm], numbers(&tensors, &norms));
    assert_eq!(matrix(&weights, Param::Embed), numbers(&tensors, &["embed_tokens.weight"]));
    assert_eq!(weights.matrices[&Param::Qkv(1)][0].k, 20);
    assert!(!weights.vectors.contains_key(&Param::AttentionNorm(0)));
}

#[test]
fn heads_of_speculators_are_read() {
    let mut layer = eagle3_config();
    for (field, value) in [("architectures", Value::Null), ("model_type", json!("qwen3"))] {
        layer[field] = value;
    }
    layer.as_object_mut().unwrap().remove("draft_vocab_size");
    let mut config = json!({
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3",
        "draft_vocab_size": 5, "norm_before_fc": true, "norm_output": true,
        "embed_requires_grad": false, "transformer_layer_config": layer,
        "eagle_aux_hidden_state_layer_ids": [1, 4, 7], "target_hidden_size": null,
        "speculators_config": {"algorithm": "eagle3",
            "verifier": {"architectures": ["Qwen2ForCausalLM"], "name_or_path": "tiny"}},
    });
    let mut tensors = eagle3_tensors();
    tensors.iter_mut().for_each(|tensor| tensor.0 = tensor.0.replace("midlayer", "layers.0"));
    let rng = &mut fastrand::Rng::with_seed(4);
    for (name, shape) in [
        ("layers.0.self_attn.q_norm.weight", &[16][..]),
        ("layers.0.self_attn.k_norm.weight", &[16]),
        ("input_norm.weight", &[60]),
        ("embed_tokens.weight", &[11, 20]),
    ] {
        tensors.push(random(rng, name, shape));
    }
    let (draft, weights) = keep(&folder(&config, &tensors)).unwrap();
    let read = draft.config;
    assert_eq!(read.features, Features::Streams(vec![1, 4, 7]));
    assert!(read.norm_before_residual && read.norm_output && read.final_norm && !read.own_embed);
    assert_eq!((read.fuse_norm, read.qk_norm), (Some(FuseNorm::Row), Some(QkNorm::Head)));
    assert_eq!(weights.vectors[&Param::FuseNorm].len(), 60);

    config["norm_before_residual"] = json!(false);
    config.as_object_mut().unwrap().remove("embed_requires_grad");
    let (draft, _) = keep(&folder(&config, &tensors)).unwrap();
    assert!(!draft.config.norm_before_residual && draft.config.own_embed);
}

#[test]
fn a_head_may_be_narrower_than_its_target() {
    let mut config = eagle3_config();
    config["hidden_size"] = json!(12);
    config["target_hidden_size"] = json!(20);
    let narrow = |(name, shape): &(&str, &[usize])| {
        let shape: Vec<usize> = shape
            .iter()
            .map(|n| match *n {
                20 => 12,
                40 => 24,
                n => n,
            })
            .collect();
        random(&mut fastrand::Rng::with_seed(5), name, &shape)
    };
    let mut tensors: Vec<_> = EAGLE3[2..].iter().map(narrow).collect();
    tensors.extend(eagle3_tensors().into_iter().take(2));
    let source = folder(&config, &tensors);
    let error = block_on(open_draft(&source, &target(), &Quantise::KEEP)).map(|_| ());
    assert_eq!(error, Err(Error::MissingTensor { name: "embed_tokens.weight".into() }));
    tensors.push(random(&mut fastrand::Rng::with_seed(6), "embed_tokens.weight", &[11, 12]));
    let (draft, weights) = keep(&folder(&config, &tensors)).unwrap();
    assert!(draft.config.own_embed && draft.config.own_head);
    assert_eq!(weights.matrices[&Param::Fuse][0].k, 60);
    assert_eq!(weights.matrices[&Param::Qkv(0)][0].k, 24);
}

/// A decoder layer of one KV head of 8 dims and two query heads, by the name of its module.
fn layer(rng: &mut fastrand::Rng, module: &str) -> Vec<Stored> {
    let parts: [(&str, &[usize]); 8] = [
        ("self_attn.q_proj", &[16, 20]),
        ("self_attn.k_proj", &[8, 20]),
        ("self_attn.v_proj", &[8, 20]),
        ("self_attn.o_proj", &[20, 16]),
        ("post_attention_layernorm", &[20]),
        ("mlp.gate_proj", &[12, 20]),
        ("mlp.up_proj", &[12, 20]),
        ("mlp.down_proj", &[20, 12]),
    ];
    let named =
        |(name, shape): &(&str, &[usize])| random(rng, &format!("{module}.{name}.weight"), shape);
    parts.iter().map(named).collect()
}

/// [`target`]'s own file.
fn decoder() -> Value {
    json!({
        "architectures": ["Qwen2ForCausalLM"], "hidden_size": 20, "intermediate_size": 12,
        "num_attention_heads": 2, "num_hidden_layers": 8, "num_key_value_heads": 1,
        "rms_norm_eps": 1e-6, "vocab_size": 11, "head_dim": 8, "hidden_act": "silu",
    })
}

#[test]
fn eagle_1_and_2_share_the_targets_matrices() {
    let rng = &mut fastrand::Rng::with_seed(8);
    let mut tensors = layer(rng, "layers.0");
    tensors.push(random(rng, "fc.weight", &[20, 40]));
    tensors.push(random(rng, "fc.bias", &[20]));
    tensors.push(random(rng, "embed_tokens.weight", &[11, 20]));
    let mut config = decoder();
    config["num_hidden_layers"] = json!(1);
    let (draft, weights) = keep(&folder(&config, &tensors)).unwrap();
    assert_eq!(draft.vocabulary, None);
    let read = draft.config;
    assert_eq!((read.family, &read.features), (DraftFamily::Eagle, &Features::Last));
    assert!(read.fuse_bias && !read.final_norm && !read.own_embed && !read.own_head);
    assert!(read.embedding_first && !read.has_input_norms() && !read.has_attention_norm(0));
    let params = [
        Param::Fuse,
        Param::FuseBias,
        Param::Qkv(0),
        Param::Output(0),
        Param::MlpNorm(0),
        Param::GateUp(0),
        Param::Down(0),
    ];
    assert_eq!(read.params().iter().map(|spec| spec.param).collect::<Vec<_>>(), params);
    assert_eq!(weights.vectors[&Param::FuseBias], numbers(&tensors, &["fc.bias"]));

    config["architectures"] = json!(["EAGLEModel"]);
    let nested = json!({"architectures": ["EAGLEModel"], "model_type": "eagle", "model": config});
    assert_eq!(keep(&folder(&nested, &tensors)).unwrap().0.config, read);
    config["hidden_size"] = json!(24);
    let error = keep(&folder(&config, &tensors)).unwrap_err();
    assert!(error.to_string().contains("hidden_size is 24, expected 20, the target's"));
}

#[test]
fn layers_for_multi_token_prediction_are_found_in_the_targets_checkpoint() {
    let cases = [
        (
            json!({"model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1,
                "rope_parameters": {"rope_type": "default", "rope_theta": 1e7,
                    "partial_rotary_factor": 0.5}}),
            "mtp.layers.0",
            ["mtp.fc", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.norm"],
        ),
        (
            json!({"model_type": "glm4", "num_nextn_predict_layers": 1}),
            "model.layers.8",
            [
                "model.layers.8.eh_proj",
                "model.layers.8.enorm",
                "model.layers.8.hnorm",
                "model.layers.8.shared_head.norm",
            ],
        ),
        (
            json!({"model_type": "mimo", "num_nextn_predict_layers": 1}),
            "model.mtp_layers.0",
            [
                "model.mtp_layers.0.input_proj",
                "model.mtp_layers.0.token_layernorm",
                "model.mtp_layers.0.hidden_layernorm",
                "model.mtp_layers.0.final_layernorm",
            ],
        ),
    ];
    for (fields, module, names) in cases {
        let rng = &mut fastrand::Rng::with_seed(9);
        let mut config = decoder();
        for (field, value) in fields.as_object().unwrap() {
            config[field] = value.clone();
        }
        let is_qwen = module.starts_with("mtp.");
        let mut tensors = layer(rng, module);
        if is_qwen {
            let q = format!("{module}.self_attn.q_proj.weight");
            *named(&mut tensors, &q) = random(rng, &q, &[32, 20]);
        }
        let [fuse, embed_norm, hidden_norm, final_norm] =
            names.map(|name| format!("{name}.weight"));
        tensors.push(random(rng, &fuse, &[20, 40]));
        let input_norm = format!("{module}.input_layernorm.weight");
        for norm in [&embed_norm, &hidden_norm, &final_norm, &input_norm] {
            tensors.push(random(rng, norm, &[20]));
        }
        tensors.push(random(rng, "model.layers.0.mlp.up_proj.weight", &[12, 20]));

        let (draft, weights) = keep(&folder(&config, &tensors)).unwrap();
        let read = draft.config;
        assert_eq!((read.family, &read.features), (DraftFamily::Mtp, &Features::Last));
        assert_eq!(read.embedding_first, !module.contains("mtp_layers"), "{module}");
        assert_eq!((read.output_gate, read.norms_less_one), (is_qwen, is_qwen));
        assert_eq!(read.rope.dims, if is_qwen { 4 } else { 8 });
        assert!(read.norm_output && read.final_norm && read.has_attention_norm(0));
        assert_eq!(matrix(&weights, Param::Fuse), numbers(&tensors, &[&fuse]));
        for (param, name) in [
            (Param::EmbedNorm, &embed_norm),
            (Param::HiddenNorm, &hidden_norm),
            (Param::FinalNorm, &final_norm),
            (Param::AttentionNorm(0), &input_norm),
        ] {
            let mut expected = numbers(&tensors, &[name]);
            if is_qwen {
                expected.iter_mut().for_each(|x| *x += 1.0);
            }
            assert_eq!(weights.vectors[&param], expected, "{name}");
        }

        let refused = |field: &str, value: Value, expected: &str| {
            let mut config = config.clone();
            config[field] = value;
            let message = keep(&folder(&config, &tensors)).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        };
        refused("n_routed_experts", json!(64), "layers with experts are not supported");
        refused("kv_lora_rank", json!(512), "latent attention is not supported");
        refused("num_nextn_predict_layers", json!(2), "several layers that draft");
        tensors.push(random(rng, &format!("{module}.mlp.experts.0.up_proj.weight"), &[4, 20]));
        let message = keep(&folder(&config, &tensors)).unwrap_err().to_string();
        assert!(message.contains("layers with experts are not supported"), "{message}");
    }
}

#[test]
fn medusa_heads_are_several_blocks_and_matrices() {
    let rng = &mut fastrand::Rng::with_seed(10);
    let mut tensors = Vec::new();
    for head in 0..3 {
        tensors.push(random(rng, &format!("medusa_head.{head}.0.linear.weight"), &[20, 20]));
        tensors.push(random(rng, &format!("medusa_head.{head}.0.linear.bias"), &[20]));
        tensors.push(random(rng, &format!("medusa_head.{head}.1.weight"), &[11, 20]));
    }
    let config = json!({"medusa_num_heads": 3, "medusa_num_layers": 1});
    let source = MemorySource::new([
        ("config.json", config.to_string().into_bytes()),
        ("medusa_lm_head.safetensors", serialized(&tensors)),
    ]);
    let (draft, weights) = keep(&source).unwrap();
    assert_eq!(draft.config.family, DraftFamily::Medusa { heads: 3, blocks: 1 });
    let name = "medusa_head.2.0.linear.weight";
    assert_eq!(matrix(&weights, Param::MedusaBlock(2)), numbers(&tensors, &[name]));
    let name = "medusa_head.1.1.weight";
    assert_eq!(matrix(&weights, Param::MedusaHead(1)), numbers(&tensors, &[name]));

    for stated in [json!(2), json!(5), json!("some")] {
        let config = json!({"medusa_num_heads": stated});
        let (draft, _) = keep(&folder(&config, &tensors)).unwrap();
        assert_eq!(draft.config.family, DraftFamily::Medusa { heads: 3, blocks: 1 });
    }
    let refusal = |tensors: &[Stored]| keep(&folder(&config, tensors)).unwrap_err();
    let mut gap = tensors.clone();
    gap.retain(|tensor| !tensor.0.starts_with("medusa_head.1."));
    let name = "medusa_head.1.0.linear.weight".into();
    assert_eq!(refusal(&gap), Error::MissingTensor { name });
    tensors.push(random(rng, "medusa_head.64.1.weight", &[11, 20]));
    let error = refusal(&tensors);
    let is_last = |name: &str| name == "medusa_head.64.1.weight";
    assert!(matches!(&error, Error::WrongTensor { name, .. } if is_last(name)), "{error:?}");
}

#[test]
fn quantised_heads_are_read_as_models_are() {
    let mut config = eagle3_config();
    config["quantization_config"] = json!({
        "quant_method": "compressed-tensors", "format": "pack-quantized",
        "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "symmetric": true,
            "strategy": "group", "group_size": 32}}},
    });
    let mut tensors = eagle3_tensors();
    let rng = &mut fastrand::Rng::with_seed(12);
    let name = "midlayer.self_attn.o_proj";
    tensors.retain(|tensor| tensor.0 != format!("{name}.weight"));
    let packed = (0..20 * 6 * 4).map(|_| rng.u8(..)).collect();
    tensors.push((format!("{name}.weight_packed"), Dtype::I32, vec![20, 6], packed));
    tensors.push(random(rng, &format!("{name}.weight_scale"), &[20, 2]));
    let shape = [20_i64, 48].iter().flat_map(|n| n.to_le_bytes()).collect();
    tensors.push((format!("{name}.weight_shape"), Dtype::I64, vec![2], shape));
    let (_, weights) = keep(&folder(&config, &tensors)).unwrap();
    let part = &weights.matrices[&Param::Output(0)][0];
    assert_eq!((part.n, part.k, part.layout), (20, 48, Layout::W4 { group: 32 }));
}
