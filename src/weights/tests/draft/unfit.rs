//! Heads of each family with a missing tensor, a tensor of another shape, or for another model.

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
