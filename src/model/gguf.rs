//! GGUF metadata: the sizes of a model.

use super::config::{LayerAttention, ModelConfig, Naming, check_heads};
use super::families::FAMILIES;
use super::json::Fields;
use super::metadata::EXPERT_COUNT;
use super::names::{LONG_ROPE_FACTORS, ROPE_FACTORS};
use super::rope::{Rope, RopeScaling, yarn_magnitude};
use crate::error::{Error, Result};
use serde_json::{Map, Value};

const EMBEDDING: &str = "token_embd.weight";

impl ModelConfig {
    /// Reads the metadata of a GGUF file.
    ///
    /// `shape` returns the shape of a tensor of the file, row length last; `None` if there is no such
    /// tensor.
    pub fn from_gguf<'a>(
        file: &str,
        metadata: &Map<String, Value>,
        shape: impl Fn(&str) -> Option<&'a [u64]>,
    ) -> Result<ModelConfig> {
        let general = Fields::section(file, metadata, "general.");
        expect_model(&general)?;
        let found = general.text("architecture")?.unwrap_or("");
        let family = FAMILIES.iter().find(|family| family.name == found);
        let family = family.ok_or_else(|| Error::UnsupportedArchitecture {
            found: found.into(),
            supported: FAMILIES.each_ref().map(|family| family.name).join(", "),
        })?;

        let mut fields = Fields::section(file, metadata, &format!("{found}."));
        let layers = fields.count("block_count", 1..=1024)?;
        fields.join_layers(layers);
        let heads = fields.count("attention.head_count", 1..=1024)?;
        let hidden = fields.count("embedding_length", 1..=1 << 16)?;
        let head_dim = fields.count_or("attention.key_length", 8..=256, hidden / heads)?;
        let whole = |size| {
            fields.require(size, &[head_dim.into()], &format!("{head_dim}, the size of a head"))
        };
        whole("attention.value_length")?;
        if family.interleaved {
            whole("rope.dimension_count")?;
        }
        let embedding = shape(EMBEDDING).and_then(|shape| shape.first());
        let embedding = embedding.ok_or_else(|| Error::MissingTensor { name: EMBEDDING.into() })?;
        let epsilon = match found {
            "gpt2" => "attention.layer_norm_epsilon",
            _ => "attention.layer_norm_rms_epsilon",
        };
        let rope = Some(rope(&fields, head_dim, |tensor| shape(tensor).is_some())?);
        let mut config = ModelConfig {
            architecture: found.into(),
            hidden,
            intermediate: fields.count("feed_forward_length", 1..=1 << 18)?,
            layers,
            heads,
            kv_heads: fields.count_or("attention.head_count_kv", 1..=1024, heads)?,
            head_dim,
            vocab: usize::try_from(*embedding).ok().filter(|n| *n <= 1 << 21).ok_or_else(|| {
                Error::WrongTensor {
                    name: EMBEDDING.into(),
                    found: format!("of {embedding} rows"),
                    expected: "at most 2097152 rows".into(),
                }
            })?,
            context: fields.count("context_length", 1..=1 << 24)?,
            norm_eps: fields.epsilon(epsilon)?,
            tied: shape("output.weight").is_none(),
            gated: true,
            attention: vec![LayerAttention { window: None, rope }; layers],
            naming: Naming::Gguf { interleaved: family.interleaved },
            ..ModelConfig::default()
        };
        (family.configure)(&fields, &mut config)?;
        if config.experts.is_none() {
            let expected = "0: mixtures of experts of this architecture are not supported";
            fields.require(EXPERT_COUNT, &[0.into()], expected)?;
        }
        let kv_heads = ("attention.head_count_kv", config.kv_heads);
        check_heads(&fields, config.heads, ("attention.key_length", config.head_dim), kv_heads)?;
        Ok(config)
    }
}

/// Refuses the files that lie beside those of models.
fn expect_model(general: &Fields) -> Result<()> {
    let advice =
        |is: &str| format!("that of a model: this file is {is}. Load the model's own file");
    let expect = |field: &str| match general.text(field)? {
        Some("mmproj" | "clip" | "projector") => Err(general
            .invalid(field, advice("a projector, with which a model reads images or sounds"))),
        Some("adapter") => Err(general.invalid(field, advice("an adapter (LoRA) of a model"))),
        Some("imatrix") => Err(general.invalid(field, advice("what a quantiser measured"))),
        Some("vocab") => Err(general.invalid(field, advice("a vocabulary without weights"))),
        _ => Ok(()),
    };
    ["type", "architecture"].into_iter().try_for_each(expect)
}

fn rope(fields: &Fields, head_dim: usize, has: impl Fn(&str) -> bool) -> Result<Rope> {
    let dims = fields.count_or("rope.dimension_count", 4..=head_dim, head_dim)?;
    if !dims.is_multiple_of(4) {
        return Err(fields.invalid("rope.dimension_count", "a multiple of 4"));
    }
    let (factors, long) = (has(ROPE_FACTORS), has(LONG_ROPE_FACTORS));
    let theta = match fields.get("rope.freq_base") {
        Some(_) => fields.positive("rope.freq_base")?,
        None => 10_000.0,
    };
    let kind = "rope.scaling.type";
    let scaling = match (fields.text(kind)?, fields.get("rope.scaling.factor").is_some()) {
        (None | Some("none" | "longrope"), _) if long => RopeScaling::Long {
            original_context: fields.count("rope.scaling.original_context_length", 1..=1 << 24)?,
            magnitude: match fields.get("rope.scaling.attn_factor") {
                Some(_) => fields.positive("rope.scaling.attn_factor")?,
                None => 1.0,
            },
            short: Vec::new(),
            long: Vec::new(),
        },
        (None | Some("none"), false) | (Some("none"), true) if factors => RopeScaling::Factors,
        (Some("none"), _) | (None, false) => RopeScaling::None,
        (None | Some("linear"), true) if !factors => {
            RopeScaling::Linear { factor: fields.positive("rope.scaling.factor")? }
        }
        (Some("yarn"), _) if !factors => {
            let factor = fields.positive("rope.scaling.factor")?;
            let attention = fields.positive_or("rope.scaling.attn_factor", 1.0)?;
            RopeScaling::Yarn {
                factor,
                original_context: fields.positive("rope.scaling.original_context_length")?,
                fast: fields.positive_or("rope.scaling.yarn_beta_fast", 32.0)?,
                slow: fields.positive_or("rope.scaling.yarn_beta_slow", 1.0)?,
                truncate: true,
                magnitude: attention * yarn_magnitude(factor, 1.0),
            }
        }
        _ => {
            let expected =
                "\"none\", or \"linear\" or \"yarn\" with a factor and without rope_freqs.weight";
            return Err(fields.invalid(kind, expected));
        }
    };
    Ok(Rope { theta, dims, scaling })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::families::Family;
    use crate::model::{Activation, Caps, Norms, Param, ParamSource, Scales};
    use serde_json::json;
    use std::collections::HashMap;

    /// Llama 3.2 1B as converted.
    fn llama() -> Value {
        json!({
            "general.architecture": "llama",
            "general.file_type": 1,
            "llama.block_count": 16,
            "llama.context_length": 131072,
            "llama.embedding_length": 2048,
            "llama.feed_forward_length": 8192,
            "llama.attention.head_count": 32,
            "llama.attention.head_count_kv": 8,
            "llama.rope.freq_base": 500000.0,
            "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "llama.attention.key_length": 64,
            "llama.attention.value_length": 64,
            "llama.vocab_size": 128256,
            "llama.rope.dimension_count": 64,
            "tokenizer.ggml.model": "gpt2",
        })
    }

    fn shapes() -> HashMap<&'static str, Vec<u64>> {
        HashMap::from([(EMBEDDING, vec![128256, 2048]), (ROPE_FACTORS, vec![32])])
    }

    fn read(metadata: &Value, shapes: &HashMap<&str, Vec<u64>>) -> Result<ModelConfig> {
        let shape = |name: &str| shapes.get(name).map(Vec::as_slice);
        ModelConfig::from_gguf("model.gguf", metadata.as_object().unwrap(), shape)
    }

    /// The rotary scaling of the first layer.
    fn scaling(config: &ModelConfig) -> RopeScaling {
        config.attention[0].rope.clone().unwrap().scaling
    }

    #[test]
    fn llama_3_is_read_in_full() {
        let expected = ModelConfig {
            architecture: "llama".into(),
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
            attention: vec![
                LayerAttention {
                    window: None,
                    rope: Some(Rope { theta: 500000.0, dims: 64, scaling: RopeScaling::Factors }),
                };
                16
            ],
            experts: None,
            naming: Naming::Gguf { interleaved: true },
        };
        assert_eq!(read(&llama(), &shapes()), Ok(expected));
    }

    #[test]
    fn families_differ_in_biases_norms_and_the_order_of_rows() {
        let family = |name: &str| {
            let metadata = llama().to_string().replace("llama", name);
            let mut shapes = shapes();
            shapes.insert("output.weight", vec![128256, 2048]);
            shapes.remove(ROPE_FACTORS);
            read(&serde_json::from_str(&metadata).unwrap(), &shapes).unwrap()
        };
        let sources = |config: &ModelConfig, param| {
            config.params().into_iter().find(|spec| spec.param == param).map(|spec| spec.sources)
        };
        let source = |name: &str, rows, interleaved| ParamSource {
            name: name.into(),
            rows,
            interleaved,
            by_columns: false,
            slice: None,
        };
        for (name, head) in [("llama", Some(64)), ("qwen2", None), ("qwen3", None)] {
            let config = family(name);
            assert_eq!(scaling(&config), RopeScaling::None);
            assert_eq!(
                sources(&config, Param::Qkv(3)).unwrap(),
                [
                    source("blk.3.attn_q.weight", 2048, head),
                    source("blk.3.attn_k.weight", 512, head),
                    source("blk.3.attn_v.weight", 512, None),
                ]
            );
            let bias = sources(&config, Param::QkvBias(3)).map(|sources| sources[1].name.clone());
            assert_eq!(bias, (name == "qwen2").then(|| "blk.3.attn_k.bias".into()));
            let norm = sources(&config, Param::KNorm(0)).map(|sources| sources[0].name.clone());
            assert_eq!(norm, (name == "qwen3").then(|| "blk.0.attn_k_norm.weight".into()));
            let head = sources(&config, Param::Head).unwrap();
            assert_eq!(head, [source("output.weight", 128256, None)]);
        }
    }

    #[test]
    fn families_have_their_own_settings() {
        let family = |name: &str, changes: Value| {
            let metadata = llama().to_string().replace("llama", name);
            let mut metadata: Value = serde_json::from_str(&metadata).unwrap();
            metadata.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            read(&metadata, &HashMap::from([(EMBEDDING, vec![128256, 2048])]))
        };
        let windows = |config: &ModelConfig| -> Vec<Option<usize>> {
            config.attention.iter().map(|layer| layer.window).collect()
        };
        let smollm3 = family("smollm3", json!({})).unwrap();
        let turns = |(i, layer): (usize, &LayerAttention)| layer.rope.is_some() == (i % 4 != 3);
        assert!(smollm3.attention.iter().enumerate().all(turns));
        let gemma2 = family("gemma2", json!({})).unwrap();
        assert_eq!(gemma2.caps, Caps { attention: Some(50.0), logits: Some(30.0) });
        assert_eq!(windows(&gemma2), [Some(4096), None].repeat(8));
        assert_eq!(gemma2.attention_scale(), 0.125);
        let largest = json!({"gemma2.block_count": 46, "gemma2.embedding_length": 4608});
        assert_eq!(family("gemma2", largest).unwrap().attention_scale(), 1.0 / 12.0);
        let gemma3 = family("gemma3", json!({"gemma3.attention.sliding_window": 512})).unwrap();
        let local = [vec![Some(512); 5], vec![None]].concat();
        assert_eq!(windows(&gemma3), [&local[..], &local, &local[..4]].concat());
        let theta = |layer: usize| gemma3.attention[layer].rope.as_ref().unwrap().theta;
        assert_eq!([theta(0), theta(5)], [10_000.0, 500_000.0]);
        assert!(!gemma3.norms_less_one);
        let slides: Vec<bool> = (0..16).map(|layer| layer % 4 != 3).collect();
        let listed = family(
            "gemma3",
            json!({"gemma3.attention.sliding_window_pattern": slides,
            "gemma3.attention.sliding_window": 512}),
        );
        let every_fourth = [Some(512), Some(512), Some(512), None].repeat(4);
        assert_eq!(windows(&listed.unwrap()), every_fourth);
        for (name, field, value) in [
            ("olmo2", "attention.sliding_window", json!(4096)),
            ("granite", "logit_scale", json!(0.0)),
            ("granite", "rope.dimension_count", json!(32)),
            ("phi3", "rope.dimension_count", json!(30)),
            ("gemma2", "attn_logit_softcapping", json!(-1.0)),
            ("gemma3", "attention.sliding_window_pattern", json!([1, 0])),
            ("gemma3", "attention.scale", json!("x")),
        ] {
            let key = format!("{name}.{field}");
            let error = family(name, json!({key.clone(): value})).unwrap_err();
            assert!(matches!(&error, Error::InvalidConfig { field, .. } if *field == key), "{key}");
        }
    }

    /// As llama.cpp reads `get_key_or_arr`: the files of Granite 4 without experts have such lists.
    #[test]
    fn lists_of_equal_numbers_are_that_number() {
        for Family { name, .. } in FAMILIES {
            let metadata = llama().to_string().replace("llama", name);
            let mut metadata: Value = serde_json::from_str(&metadata).unwrap();
            let shapes = HashMap::from([(EMBEDDING, vec![128256, 2048])]);
            for (field, value) in [("layer_norm_epsilon", json!(1e-5)), ("key_length", json!(64))] {
                metadata[format!("{name}.attention.{field}")] = value;
            }
            if ["qwen3moe", "gpt-oss"].contains(&name) {
                metadata[format!("{name}.expert_count")] = json!(4);
                metadata[format!("{name}.expert_used_count")] = json!(2);
            }
            let expected = read(&metadata, &shapes).unwrap();
            for field in [
                "feed_forward_length",
                "attention.head_count",
                "attention.head_count_kv",
                "attention.key_length",
                "attention.value_length",
                "attention.layer_norm_rms_epsilon",
                "rope.dimension_count",
                "rope.freq_base",
            ] {
                let key = format!("{name}.{field}");
                let mut listed = metadata.clone();
                listed[&key] = vec![metadata[&key].clone(); 16].into();
                assert_eq!(read(&listed, &shapes).as_ref(), Ok(&expected), "{key}");
                listed[&key][7] = json!(24);
                match read(&listed, &shapes) {
                    Err(Error::InvalidConfig { field, .. }) => assert_eq!(field, key),
                    // GPT-2 has its own norms and no rotary embedding.
                    Ok(found) => assert!(found == expected && name == "gpt2", "{key}"),
                    other => panic!("{key}: {other:?}"),
                }
            }
        }
        let mut differing = llama();
        differing["llama.attention.head_count_kv"] = [8, 4].repeat(8).into();
        let error = read(&differing, &shapes()).unwrap_err().to_string();
        assert!(error.ends_with("an integer from 1 to 1024, the same for all layers"), "{error}");
    }

    #[test]
    fn every_tensor_has_its_name() {
        let config = read(&llama(), &shapes()).unwrap();
        let names: Vec<_> = config.params().into_iter().flat_map(|spec| spec.sources).collect();
        let names: Vec<_> = names.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(
            names[..12],
            [
                "token_embd.weight",
                "blk.0.attn_norm.weight",
                "blk.0.attn_q.weight",
                "blk.0.attn_k.weight",
                "blk.0.attn_v.weight",
                "blk.0.attn_output.weight",
                "blk.0.ffn_norm.weight",
                "blk.0.ffn_gate.weight",
                "blk.0.ffn_up.weight",
                "blk.0.ffn_down.weight",
                "blk.1.attn_norm.weight",
                "blk.1.attn_q.weight",
            ]
        );
        assert_eq!(names[names.len() - 2..], ["output_norm.weight", "rope_freqs.weight"]);
        assert_eq!(names.len(), 3 + 16 * 9);
    }

    #[test]
    fn rotary_scaling_is_read() {
        let linear = json!({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0});
        let yarn = json!({"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0});
        let none = json!({"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 4.0});
        let scaling = |changes: &Value, factors: bool| {
            let (mut metadata, mut shapes) = (llama(), shapes());
            metadata.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            if !factors {
                shapes.remove(ROPE_FACTORS);
            }
            read(&metadata, &shapes).map(|config| self::scaling(&config))
        };
        assert_eq!(scaling(&linear, false), Ok(RopeScaling::Linear { factor: 4.0 }));
        assert_eq!(scaling(&none, false), Ok(RopeScaling::None));
        assert_eq!(scaling(&none, true), Ok(RopeScaling::Factors));
        for (changes, factors) in [(&yarn, false), (&yarn, true), (&linear, true)] {
            assert!(matches!(scaling(changes, factors), Err(Error::InvalidConfig { .. })));
        }
    }

    #[test]
    fn errors_name_what_is_missing_or_out_of_range() {
        for (key, value) in [
            ("llama.block_count", Value::Null),
            ("llama.block_count", json!(0)),
            ("llama.block_count", json!(u32::MAX)),
            ("llama.attention.head_count", json!(0)),
            ("llama.attention.head_count_kv", json!(0)),
            ("llama.attention.head_count_kv", json!(7)),
            ("llama.attention.head_count_kv", json!([8, 8])),
            ("llama.embedding_length", json!("2048")),
            ("llama.feed_forward_length", json!(0)),
            ("llama.context_length", json!(0)),
            ("llama.attention.key_length", json!(512)),
            ("llama.attention.value_length", json!(128)),
            ("llama.rope.dimension_count", json!(32)),
            ("llama.rope.freq_base", json!(0.0)),
            ("llama.rope.freq_base", json!("NaN")),
            ("llama.attention.layer_norm_rms_epsilon", json!("NaN")),
            ("llama.attention.layer_norm_rms_epsilon", json!(-1e-5)),
            ("llama.attention.layer_norm_rms_epsilon", json!(1)),
            ("llama.expert_count", json!(1025)),
            ("general.architecture", json!(3)),
        ] {
            let mut metadata = llama();
            metadata[key] = value.clone();
            match read(&metadata, &shapes()).unwrap_err() {
                Error::InvalidConfig { file, field, .. } => {
                    assert_eq!((&file[..], &field[..]), ("model.gguf", key), "{value}");
                }
                other => panic!("{key} = {value}: {other}"),
            }
        }
        for (key, kind) in [
            ("general.architecture", "clip"),
            ("general.type", "mmproj"),
            ("general.type", "adapter"),
            ("general.type", "imatrix"),
        ] {
            let mut metadata = llama();
            metadata[key] = json!(kind);
            let error = read(&metadata, &shapes()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("model.gguf: {key} is {kind:?}, ")), "{error}");
            assert!(error.ends_with("Load the model's own file"), "{error}");
        }
        for name in ["bert", "", "%s%n%s"] {
            let mut metadata = llama();
            metadata["general.architecture"] = json!(name);
            let error = read(&metadata, &shapes()).unwrap_err();
            assert!(
                matches!(&error, Error::UnsupportedArchitecture { found, .. } if found == name)
            );
            assert!(error.to_string().contains("llama, qwen2, qwen3"));
        }
        let error = read(&llama(), &HashMap::new()).unwrap_err();
        assert!(matches!(error, Error::MissingTensor { name } if name == EMBEDDING));
    }
}
