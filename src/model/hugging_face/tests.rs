use super::*;
use crate::model::{Activation, Caps, Naming, Norms, QkNorm, Rope, RopeScaling, Scales};
use serde_json::json;

mod families;

/// Llama 3.2 1B as published.
fn llama() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "attention_bias": false, "head_dim": 64,
        "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 8192,
        "max_position_embeddings": 131072, "mlp_bias": false, "num_attention_heads": 32,
        "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1,
        "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": true,
        "torch_dtype": "bfloat16", "vocab_size": 128256,
        "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    })
}

fn with(mut config: Value, changes: Value) -> Value {
    for (field, value) in changes.as_object().unwrap() {
        config[field] = value.clone();
    }
    config
}

fn without(mut config: Value, field: &str) -> Value {
    config.as_object_mut().unwrap().remove(field);
    config
}

fn read(config: &Value) -> Result<ModelConfig> {
    ModelConfig::from_json(config.to_string().as_bytes())
}

fn family(name: &str, changes: Value) -> Value {
    let base = without(without(llama(), "rope_scaling"), "attention_bias");
    with(with(base, json!({"architectures": [name]})), changes)
}

#[test]
fn llama_3_is_read_in_full() {
    let scaling =
        RopeScaling::Llama3 { factor: 32.0, low: 1.0, high: 4.0, original_context: 8192.0 };
    let rope = Rope { theta: 500000.0, dims: 64, scaling };
    let expected = ModelConfig {
        architecture: "LlamaForCausalLM".into(),
        hidden: 2048,
        intermediate: 8192,
        layers: 16,
        heads: 32,
        kv_heads: 8,
        head_dim: 64,
        vocab: 128256,
        context: 131072,
        norm_eps: 1e-5,
        layer_norm: false,
        positions: false,
        tied: true,
        fused: false,
        qkv_bias: false,
        output_bias: false,
        gated: true,
        mlp_bias: false,
        sinks: false,
        qk_norm: None,
        norms: Norms::Before,
        norms_less_one: false,
        activation: Activation::Silu,
        scales: Scales::default(),
        caps: Caps::default(),
        attention: vec![LayerAttention { window: None, rope: Some(rope) }; 16],
        experts: None,
        naming: Naming::HuggingFace,
    };
    assert_eq!(read(&llama()), Ok(expected.clone()));

    let newer = without(without(llama(), "rope_theta"), "rope_scaling");
    let parameters = json!({"rope_parameters": {"factor": 32.0, "high_freq_factor": 4.0,
        "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
        "rope_theta": 500000.0, "rope_type": "llama3"}});
    assert_eq!(read(&with(newer, parameters)), Ok(expected));
}

#[test]
fn absent_fields_have_the_defaults_of_transformers() {
    let mut bare = llama();
    for field in [
        "head_dim",
        "num_key_value_heads",
        "rope_theta",
        "rope_scaling",
        "hidden_act",
        "tie_word_embeddings",
        "attention_bias",
        "mlp_bias",
    ] {
        bare = without(bare, field);
    }
    let config = read(&bare).unwrap();
    assert_eq!((config.head_dim, config.kv_heads, config.tied), (64, 32, false));
    let rope = Rope { theta: 10000.0, dims: 64, scaling: RopeScaling::None };
    assert_eq!(config.attention[0].rope, Some(rope));
}

/// `AutoModelForCausalLM` of transformers 5.24 takes a file by its `model_type`.
#[test]
fn files_without_architectures_are_known_by_their_type() {
    for (kind, architecture) in [
        ("llama", "LlamaForCausalLM"),
        ("mistral", "MistralForCausalLM"),
        ("qwen2", "Qwen2ForCausalLM"),
        ("qwen3", "Qwen3ForCausalLM"),
        ("smollm3", "SmolLM3ForCausalLM"),
        ("phi3", "Phi3ForCausalLM"),
        ("granite", "GraniteForCausalLM"),
        ("olmo2", "Olmo2ForCausalLM"),
        ("gemma2", "Gemma2ForCausalLM"),
        ("gemma3_text", "Gemma3ForCausalLM"),
        ("gpt2", "GPT2LMHeadModel"),
        ("mixtral", "MixtralForCausalLM"),
        ("qwen3_moe", "Qwen3MoeForCausalLM"),
        ("gpt_oss", "GptOssForCausalLM"),
    ] {
        let mut named = without(family(architecture, json!({"model_type": kind})), "hidden_act");
        for (field, value) in [
            ("n_embd", json!(64)),
            ("n_layer", json!(16)),
            ("n_head", json!(8)),
            ("n_positions", json!(128)),
            ("layer_norm_epsilon", json!(1e-5)),
            ("num_local_experts", json!(4)),
            ("num_experts_per_tok", json!(2)),
            ("moe_intermediate_size", json!(64)),
        ] {
            named[field] = value;
        }
        let expected = read(&named).unwrap();
        assert_eq!(expected.architecture, architecture);
        assert_eq!(read(&without(named.clone(), "architectures")), Ok(expected.clone()));
        for list in [json!(null), json!([]), json!([null])] {
            assert_eq!(
                read(&with(named.clone(), json!({"architectures": list}))),
                Ok(expected.clone())
            );
        }
        let other = with(named, json!({"architectures": ["OtherForCausalLM"]}));
        assert!(matches!(read(&other), Err(Error::UnsupportedArchitecture { .. })));
    }
    let images = json!({"model_type": "gemma3", "text_config": {"hidden_size": 2560,
        "intermediate_size": 10240, "num_hidden_layers": 34}});
    assert_eq!(read(&images).unwrap().architecture, "Gemma3ForConditionalGeneration");
    let unknown = read(&json!({"model_type": "mamba"}));
    assert!(
        matches!(unknown, Err(Error::UnsupportedArchitecture { found, .. }) if found == "mamba")
    );
}

#[test]
fn rope_scaling_is_read_in_all_its_spellings() {
    let linear = RopeScaling::Linear { factor: 4.0 };
    let (long, short) = (vec![2.0; 32], vec![1.0; 32]);
    let magnitude = (1.0 + 4f64.ln() / 32_768f64.ln()).sqrt();
    let longrope = RopeScaling::Long {
        original_context: 32_768,
        magnitude,
        short: short.clone(),
        long: long.clone(),
    };
    for (scaling, expected) in [
        // Within `max_position_embeddings`, transformers turns as without it.
        (json!({"type": "dynamic", "factor": 2.0}), RopeScaling::None),
        (json!({"rope_type": "dynamic", "factor": 4}), RopeScaling::None),
        (
            json!({"rope_type": "longrope", "short_factor": short, "long_factor": long,
                "original_max_position_embeddings": 32_768}),
            longrope,
        ),
        (json!(null), RopeScaling::None),
        (json!({"rope_type": "default"}), RopeScaling::None),
        (json!({"type": "linear", "factor": 4.0}), linear.clone()),
        (json!({"rope_type": "linear", "factor": 4}), linear),
    ] {
        let config = read(&with(llama(), json!({"rope_scaling": scaling}))).unwrap();
        let rope = Rope { theta: 500000.0, dims: 64, scaling: expected };
        assert_eq!(config.attention[15].rope, Some(rope));
    }
}

#[test]
fn families_differ_in_their_documented_fields() {
    let config = read(&family(
        "Qwen2ForCausalLM",
        json!({"sliding_window": 32768,
        "use_sliding_window": false, "max_window_layers": 16}),
    ));
    let config = config.unwrap();
    assert!(config.qkv_bias && config.qk_norm.is_none() && config.window().is_none());

    let qwen3 = family("Qwen3ForCausalLM", json!({"attention_bias": false}));
    let config = read(&without(qwen3, "head_dim")).unwrap();
    assert!(config.qk_norm == Some(QkNorm::Head) && !config.qkv_bias);
    assert_eq!((config.head_dim, config.attention[0].rope.as_ref().unwrap().dims), (128, 128));

    let config = read(&family("MistralForCausalLM", json!({"sliding_window": 1024}))).unwrap();
    assert_eq!(config.window(), Some(1024));
    let config = read(&family("MistralForCausalLM", json!({"sliding_window": null}))).unwrap();
    assert_eq!(config.window(), None);
    let bare = without(family("MistralForCausalLM", json!({})), "num_key_value_heads");
    let config = read(&bare).unwrap();
    assert_eq!((config.window(), config.kv_heads), (Some(4096), 8));
}

/// The windows of the layers, and which layers have rope.
fn layers(config: &ModelConfig) -> (Vec<Option<usize>>, Vec<bool>) {
    config.attention.iter().map(|layer| (layer.window, layer.rope.is_some())).unzip()
}

#[test]
fn windows_are_set_per_layer() {
    let read_window = |changes: Value| {
        let changes = with(json!({"use_sliding_window": true, "sliding_window": 64}), changes);
        read(&family("Qwen2ForCausalLM", changes))
            .map(|config| (config.window(), layers(&config).0))
    };
    let types = |list: [&str; 2]| {
        let list: Vec<_> = (0..16).map(|i| list[i % 2]).collect();
        json!({"layer_types": list})
    };
    let all = Ok((Some(64), vec![Some(64); 16]));
    let none = Ok((None, vec![None; 16]));
    assert_eq!(read_window(json!({"max_window_layers": 0})), all);
    assert_eq!(read_window(json!({"max_window_layers": 16})), none);
    assert_eq!(read_window(types(["full_attention"; 2])), none);
    assert_eq!(read_window(types(["sliding_attention"; 2])), all);
    let upper = [vec![None; 10], vec![Some(64); 6]].concat();
    assert_eq!(read_window(json!({"max_window_layers": 10})), Ok((None, upper)));
    let odd = [None, Some(64)].repeat(8);
    assert_eq!(read_window(types(["full_attention", "sliding_attention"])), Ok((None, odd)));
    let error = read_window(types(["full_attention", "chunked_attention"])).unwrap_err();
    assert!(error.to_string().contains("layer_types is [\"full_attention\",\"chun"), "{error}");
    let error = read_window(json!({"layer_types": ["full_attention"]})).unwrap_err();
    assert!(error.to_string().contains("for 16 layers"), "{error}");
}

#[test]
fn some_layers_of_smollm3_have_no_rope() {
    let smollm3 = |changes| read(&family("SmolLM3ForCausalLM", changes));
    let turning = |config: &ModelConfig| layers(config).1;
    let every = |n: usize| (1..=16).map(|layer| layer % n != 0).collect::<Vec<_>>();
    assert_eq!(turning(&smollm3(json!({})).unwrap()), every(4));
    assert_eq!(turning(&smollm3(json!({"no_rope_layer_interval": 3})).unwrap()), every(3));
    let list = [vec![0, 1], vec![1; 14]].concat();
    let config = smollm3(json!({"no_rope_layers": list, "sliding_window": 64,
        "use_sliding_window": true}));
    let (windows, turning) = layers(&config.unwrap());
    assert_eq!(turning, [vec![false], vec![true; 15]].concat());
    assert_eq!(windows, [vec![Some(64)], vec![None; 15]].concat());
    for (field, value) in [
        ("no_rope_layers", json!([1, 0])),
        ("no_rope_layers", json!([2].repeat(16))),
        ("no_rope_layer_interval", json!(0)),
        ("attention_bias", json!(true)),
        ("mlp_bias", json!(true)),
    ] {
        let error = smollm3(json!({field: value})).unwrap_err();
        assert!(matches!(&error, Error::InvalidConfig { field: named, .. } if named == field));
    }
}

#[test]
fn errors_name_impossible_values() {
    let huge = 1_000_000_000;
    for (field, value) in [
        ("num_hidden_layers", json!(huge)),
        ("num_hidden_layers", json!(0)),
        ("num_hidden_layers", json!(-1)),
        ("num_hidden_layers", json!(2.5)),
        ("num_attention_heads", json!(0)),
        ("num_attention_heads", json!(u64::MAX)),
        ("num_key_value_heads", json!(0)),
        ("num_key_value_heads", json!(5)),
        ("num_key_value_heads", json!(64)),
        ("head_dim", json!(60)),
        ("head_dim", json!(264)),
        ("head_dim", json!(0)),
        ("hidden_size", json!(0)),
        ("hidden_size", json!("2048")),
        ("hidden_size", json!(huge)),
        ("intermediate_size", json!(huge)),
        ("vocab_size", json!(huge)),
        ("vocab_size", json!(null)),
        ("max_position_embeddings", json!(0)),
        ("rms_norm_eps", json!(0.0)),
        ("rms_norm_eps", json!(-1e-5)),
        ("rms_norm_eps", json!(1.0)),
        ("rms_norm_eps", json!("nan")),
        ("rope_theta", json!(0.0)),
        ("rope_theta", json!(-10000.0)),
        ("hidden_act", json!("gelu")),
        ("mlp_bias", json!(true)),
        ("attention_bias", json!(true)),
        ("tie_word_embeddings", json!("yes")),
        ("partial_rotary_factor", json!(0.5)),
        ("rope_scaling", json!([8])),
    ] {
        match read(&with(llama(), json!({field: value}))) {
            Err(Error::InvalidConfig { field: named, found, expected, file }) => {
                assert_eq!((named.as_str(), file.as_str()), (field, "config.json"));
                assert_eq!(found, value.to_string());
                assert!(!expected.is_empty());
            }
            other => panic!("{field} = {value}: {other:?}"),
        }
    }
    for (field, value) in [
        ("rope_type", json!("ntk")),
        ("rope_type", json!("mrope")),
        ("factor", json!(0)),
        ("factor", json!(null)),
        ("low_freq_factor", json!("1")),
        ("high_freq_factor", json!(1.0)),
        ("original_max_position_embeddings", json!(-1)),
    ] {
        let mut config = llama();
        config["rope_scaling"][field] = value.clone();
        match read(&config) {
            Err(Error::InvalidConfig { field: named, .. }) => {
                assert_eq!(named, format!("rope_scaling.{field}"));
            }
            other => panic!("{field} = {value}: {other:?}"),
        }
    }
    // A head_dim that follows from other fields is checked as well.
    let derived = with(without(llama(), "head_dim"), json!({"hidden_size": 100}));
    let error = read(&derived).unwrap_err();
    assert!(error.to_string().contains("head_dim is 3, expected a multiple of 8"), "{error}");
}

#[test]
fn errors_say_what_is_not_a_configuration() {
    let unknown = read(&with(llama(), json!({"architectures": ["BertForMaskedLM"]})));
    let Err(Error::UnsupportedArchitecture { found, supported }) = unknown else {
        panic!("{unknown:?}");
    };
    assert_eq!(found, "BertForMaskedLM");
    assert!(supported.starts_with("LlamaForCausalLM, MistralForCausalLM, "), "{supported}");
    let nameless = read(&without(llama(), "architectures")).unwrap_err().to_string();
    assert!(nameless.contains("files name no architecture"), "{nameless}");
    assert!(nameless.contains("docs/models.md"), "{nameless}");
    for (bytes, words) in [
        (&b"<!DOCTYPE html><title>404</title>"[..], "found an HTML page"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
        (b"{\"hidden_size\": 20", "EOF while parsing"),
        (b"{\"rms_norm_eps\": NaN}", "expected value"),
        (b"[1, 2]", "found [1,2]"),
        (b"\xff\xfe", "expected value"),
        (b"", "EOF while parsing"),
    ] {
        let error = ModelConfig::from_json(bytes).unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }));
        assert!(error.to_string().contains(words), "{error}");
    }
}
