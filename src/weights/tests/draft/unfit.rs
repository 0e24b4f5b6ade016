//! Heads that are refused: of each family with a missing tensor, a tensor of another shape, or for another
//! model; and of EAGLE-3 with each part wrong.

use super::*;
use crate::model::DraftProgram;

/// Family name, configuration, and required tensors of a head.
type Head = (&'static str, Value, Vec<Stored>);

fn heads() -> [Head; 4] {
    let rng = &mut fastrand::Rng::with_seed(14);
    let mut tensor = |name: &str, shape: &[usize]| random(rng, name, shape);
    let mut eagle3 = eagle3_tensors();
    eagle3.retain(|tensor| tensor.0 != "t2d");

    let mut eagle_config = decoder();
    eagle_config["num_hidden_layers"] = json!(1);
    let mut eagle = vec![tensor("fc.weight", &[20, 40])];

    let mut mtp_config = decoder();
    mtp_config["model_type"] = json!("mimo");
    mtp_config["num_nextn_predict_layers"] = json!(1);
    let module = "model.mtp_layers.0";
    let mut mtp = vec![tensor(&format!("{module}.input_proj.weight"), &[20, 40])];
    for norm in ["token_layernorm", "hidden_layernorm", "final_layernorm", "input_layernorm"] {
        mtp.push(tensor(&format!("{module}.{norm}.weight"), &[20]));
    }

    let medusa_config = json!({
        "medusa_num_heads": 2, "medusa_num_layers": 1, "hidden_size": 20, "vocab_size": 11,
    });
    let mut medusa = Vec::new();
    for head in 0..3 {
        medusa.push(tensor(&format!("{head}.0.linear.weight"), &[20, 20]));
        medusa.push(tensor(&format!("{head}.0.linear.bias"), &[20]));
        medusa.push(tensor(&format!("{head}.1.weight"), &[11, 20]));
    }
    eagle.extend(layer(rng, "layers.0"));
    mtp.extend(layer(rng, module));
    [
        ("EAGLE-3", eagle3_config(), eagle3),
        ("EAGLE", eagle_config, eagle),
        ("MTP", mtp_config, mtp),
        ("Medusa", medusa_config, medusa),
    ]
}

fn refusal(config: &Value, tensors: &[Stored]) -> Error {
    keep(&folder(config, tensors)).expect_err("the head does not fit")
}

#[test]
fn errors_name_the_missing_tensor() {
    for (family, config, tensors) in heads() {
        keep(&folder(&config, &tensors)).expect(family);
        for missing in &tensors {
            let mut rest = tensors.clone();
            rest.retain(|tensor| tensor.0 != missing.0);
            let name = missing.0.clone();
            assert_eq!(refusal(&config, &rest), Error::MissingTensor { name }, "{family}");
        }
    }
}

#[test]
fn errors_name_the_tensor_of_the_wrong_shape() {
    for (family, config, tensors) in heads() {
        for at in 0..tensors.len() {
            let mut wrong = tensors.clone();
            let (name, _, shape, bytes) = &mut wrong[at];
            let row = bytes.len() / shape[0];
            shape[0] += 1;
            bytes.extend(vec![0; row]);
            let name = name.clone();
            match refusal(&config, &wrong) {
                Error::WrongTensor { name: found, .. } => assert_eq!(found, name, "{family}"),
                error => panic!("{family}, {name}: {error:?}"),
            }
        }
    }
}

#[test]
fn a_head_of_another_model_is_recognised_by_its_width_or_vocabulary() {
    for (family, config, tensors) in heads() {
        for (field, other) in [("hidden_size", 24), ("vocab_size", 12)] {
            let mut config = config.clone();
            config[field] = json!(other);
            match refusal(&config, &tensors) {
                Error::InvalidConfig { field: named, found, .. } => {
                    assert_eq!((&named[..], &found[..]), (field, &other.to_string()[..]));
                }
                error => panic!("{family}, {field}: {error:?}"),
            }
        }
    }
}

/// Their targets, Qwen3-Next and Qwen3.5, are not supported either.
#[test]
fn layers_that_gate_their_attention_are_read_and_refused() {
    let target = ModelConfig { hidden: 32, ..target() };
    let mut config = decoder();
    config["hidden_size"] = json!(32);
    config["model_type"] = json!("qwen3_5_text");
    config["mtp_num_hidden_layers"] = json!(1);
    let head = DraftConfig::from_json(config.to_string().as_bytes(), &target).unwrap();
    assert!(head.output_gate);
    let error = DraftProgram::head(&head, &target).unwrap_err();
    let expected = |field: &str| field == "attn_output_gate";
    assert!(matches!(&error, Error::InvalidConfig { field, .. } if expected(field)), "{error:?}");
}

/// A change that makes a head invalid, and a part of the error message.
type Wrong = (&'static str, fn(&mut Value), fn(&mut Vec<Stored>), &'static str);

fn keep_config(_: &mut Value) {}

fn keep_tensors(_: &mut Vec<Stored>) {}

fn set_offset(tensors: &mut [Stored], token: usize, offset: i64) {
    named(tensors, "d2t").3[8 * token..][..8].copy_from_slice(&offset.to_le_bytes());
}

#[test]
fn heads_that_do_not_fit_are_refused_before_any_weight_is_allocated() {
    let cases: [Wrong; 30] = [
        (
            "another width",
            |config| config["target_hidden_size"] = json!(24),
            keep_tensors,
            "target_hidden_size is 24, expected 20, the target's",
        ),
        (
            "another width, unsaid",
            |config| config["hidden_size"] = json!(24),
            keep_tensors,
            "hidden_size is 24, expected 20, the target's",
        ),
        (
            "another vocabulary",
            |config| config["vocab_size"] = json!(12),
            keep_tensors,
            "vocab_size is 12, expected 11, the target's",
        ),
        (
            "more tokens than the target",
            |config| config["draft_vocab_size"] = json!(12),
            keep_tensors,
            "draft_vocab_size is 12, expected an integer from 1 to 11",
        ),
        (
            "another model",
            |config| {
                config["speculators_config"] =
                    json!({"verifier": {"architectures": ["LlamaForCausalLM"]}});
            },
            keep_tensors,
            "speculators_config.verifier.architectures is [\"LlamaForCausalLM\"], expected \
             \"Qwen2ForCausalLM\"",
        ),
        (
            "an unknown family",
            |config| config["speculators_model_type"] = json!("dflash"),
            keep_tensors,
            "architecture \"dflash\" is not supported. Supported: EAGLE-3, EAGLE, MTP, Medusa",
        ),
        (
            "a whole model",
            |config| {
                *config = json!({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 16});
            },
            keep_tensors,
            "architecture \"LlamaForCausalLM\" is not supported. Supported: EAGLE-3",
        ),
        (
            "experts",
            |config| config["num_local_experts"] = json!(8),
            keep_tensors,
            "num_local_experts is 8, expected absent: draft layers with experts",
        ),
        (
            "latent attention",
            |config| config["kv_lora_rank"] = json!(512),
            keep_tensors,
            "kv_lora_rank is 512, expected absent: latent attention",
        ),
        (
            "one stream",
            |config| config["eagle_config"] = json!({"use_aux_hidden_state": false}),
            keep_tensors,
            "eagle_config.use_aux_hidden_state is false, expected true",
        ),
        (
            "two ways to normalise",
            |config| {
                config["norm_before_fc"] = json!(true);
                config["fc_norm"] = json!(true);
            },
            keep_tensors,
            "fc_norm is true, expected false",
        ),
        (
            "streams the tensors do not have",
            |config| config["eagle_aux_hidden_state_layer_ids"] = json!([1, 7]),
            keep_tensors,
            "tensor \"fc.weight\" is F32 [20, 60], expected F32 or F16 or BF16 [20, 40]",
        ),
        (
            "a norm the tensors do not have",
            |config| config["norm_before_fc"] = json!(true),
            keep_tensors,
            "no tensor \"input_norm.weight\"",
        ),
        (
            "biases the tensors do not have",
            |config| config["attention_bias"] = json!(true),
            keep_tensors,
            "no tensor \"midlayer.self_attn.q_proj.bias\"",
        ),
        (
            "another size of heads",
            |config| config["head_dim"] = json!(8),
            keep_tensors,
            "tensor \"midlayer.self_attn.q_proj.weight\" is F32 [48, 40], expected F32 or F16 or \
             BF16 [24, 40]",
        ),
        (
            "odd heads",
            |config| config["head_dim"] = json!(12),
            keep_tensors,
            "head_dim is 12, expected a multiple of 8 from 8 to 256",
        ),
        (
            "uneven heads",
            |config| config["num_key_value_heads"] = json!(2),
            keep_tensors,
            "num_key_value_heads is 2, expected a divisor of the number of query heads, 3",
        ),
        (
            "a layer more",
            |config| config["num_hidden_layers"] = json!(2),
            keep_tensors,
            "no tensor \"layers.1.input_layernorm.weight\"",
        ),
        (
            "a layer less",
            keep_config,
            |tensors| {
                let rng = &mut fastrand::Rng::with_seed(1);
                tensors.push(random(rng, "layers.1.self_attn.q_proj.weight", &[48, 20]));
            },
            "tensor \"layers.1.self_attn.q_proj.weight\" is there, expected absent",
        ),
        (
            "a bias of the MLP",
            keep_config,
            |tensors| {
                let rng = &mut fastrand::Rng::with_seed(1);
                tensors.push(random(rng, "midlayer.mlp.up_proj.bias", &[28]));
            },
            "tensor \"midlayer.mlp.up_proj.bias\" is there, expected absent",
        ),
        (
            "no layer",
            keep_config,
            |tensors| tensors.retain(|tensor| !tensor.0.contains("self_attn")),
            "no tensor \"layers.0.self_attn.q_proj.weight\"",
        ),
        (
            "no output matrix",
            keep_config,
            |tensors| tensors.retain(|tensor| tensor.0 != "lm_head.weight"),
            "no tensor \"lm_head.weight\"",
        ),
        (
            "no fusion",
            keep_config,
            |tensors| tensors.retain(|tensor| tensor.0 != "fc.weight"),
            "no tensor \"fc.weight\"",
        ),
        (
            "an output matrix of all tokens",
            keep_config,
            |tensors| {
                let rng = &mut fastrand::Rng::with_seed(1);
                *named(tensors, "lm_head.weight") = random(rng, "lm_head.weight", &[11, 20]);
            },
            "tensor \"lm_head.weight\" is F32 [11, 20], expected F32 or F16 or BF16 [5, 20]",
        ),
        (
            "no map",
            keep_config,
            |tensors| tensors.retain(|tensor| tensor.0 != "d2t"),
            "no tensor \"d2t\"",
        ),
        (
            "a map of other tokens",
            keep_config,
            |tensors| {
                let map = named(tensors, "d2t");
                map.2 = vec![4];
                map.3.truncate(32);
            },
            "tensor \"d2t\" is I64 [4], expected I64 or I32 [5]",
        ),
        (
            "a map of floats",
            keep_config,
            |tensors| named(tensors, "d2t").1 = Dtype::F64,
            "tensor \"d2t\" is F64 [5], expected I64 or I32 [5]",
        ),
        (
            "a token beyond the target's",
            keep_config,
            |tensors| set_offset(tensors, 4, 7),
            "tensor \"d2t\" is token 11 of the target for token 4, expected tokens below 11",
        ),
        (
            "a token below 0",
            keep_config,
            |tensors| set_offset(tensors, 2, -3),
            "tensor \"d2t\" is token -1 of the target for token 2, expected tokens below 11",
        ),
        (
            "a token twice",
            keep_config,
            |tensors| set_offset(tensors, 1, 0),
            "tensor \"d2t\" is token 1 of the target twice, expected each token once",
        ),
    ];
    for (what, edit_config, edit_tensors, expected) in cases {
        let (mut config, mut tensors) = (eagle3_config(), eagle3_tensors());
        edit_config(&mut config);
        edit_tensors(&mut tensors);
        let source = folder(&config, &tensors);
        let error = block_on(open_draft(&source, &target(), &Quantise::KEEP)).map(|_| ());
        let message = error.expect_err(what).to_string();
        assert!(message.contains(expected), "{what}: {message}");
    }
}
