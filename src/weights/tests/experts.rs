//! Mixtures of experts; a tensor may belong to one expert or to all.

use super::*;
use crate::layout::{HostMatrix, Layout};
use crate::model::{Param, Shape};
use ::safetensors::SafeTensors;
use std::path::Path;

/// The configuration and the tensors of a golden checkpoint.
fn golden(name: &str) -> (Value, Vec<Stored>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name);
    let read = |file| std::fs::read(folder.join(file)).expect(name);
    let bytes = read("model.safetensors");
    let stored = |(name, view): (String, TensorView)| {
        (name, view.dtype(), view.shape().to_vec(), view.data().to_vec())
    };
    let tensors = SafeTensors::deserialize(&bytes).unwrap().tensors();
    (
        serde_json::from_slice(&read("config.json")).unwrap(),
        tensors.into_iter().map(stored).collect(),
    )
}

fn source(config: &Value, tensors: &[Stored]) -> MemorySource {
    MemorySource::new([
        ("config.json", config.to_string().into_bytes()),
        ("model.safetensors", serialized(tensors)),
    ])
}

/// Joins the tensors of all experts that differ only in the expert's number.
fn stacked(tensors: &[Stored]) -> Vec<Stored> {
    let mut joined: BTreeMap<String, BTreeMap<usize, &Stored>> = BTreeMap::new();
    let mut others = Vec::new();
    for tensor in tensors {
        let Some((block, rest)) = tensor.0.split_once(".experts.") else {
            others.push(tensor.clone());
            continue;
        };
        let (expert, matrix) = rest.split_once('.').unwrap();
        let matrix = matrix.replace("w1", "gate_proj").replace("w2", "down_proj");
        let matrix = matrix.replace("w3", "up_proj");
        let of_all = joined.entry(format!("{block}.switch_mlp.{matrix}")).or_default();
        of_all.insert(expert.parse().unwrap(), tensor);
    }
    others.extend(joined.into_iter().map(|(name, tensors)| {
        let shape = [vec![tensors.len()], tensors[&0].2.clone()].concat();
        let bytes = tensors.values().flat_map(|tensor| tensor.3.clone()).collect();
        (name, tensors[&0].1, shape, bytes)
    }));
    others
}

#[test]
fn the_experts_of_a_layer_may_be_one_tensor() {
    for name in ["mixtral_bf16", "qwen3_moe_f32"] {
        let (config, tensors) = golden(name);
        let expected = load(&source(&config, &tensors), &Quantise::KEEP).unwrap();
        assert_eq!(load(&source(&config, &stacked(&tensors)), &Quantise::KEEP), Ok(expected));
    }
}

#[test]
fn the_experts_of_a_layer_quantised_by_mlx_may_be_one_tensor() {
    let (mut config, tensors) = golden("ct_int4_moe_g32_bf16");
    config.as_object_mut().unwrap().remove("quantization_config");
    config["quantization"] = json!({"group_size": 32, "bits": 4, "mode": "affine"});
    let mut quantised = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let named = |from, to| name.replace(from, to);
        match name.rsplit('.').next().unwrap() {
            "weight_packed" => {
                quantised.push((named("weight_packed", "weight"), Dtype::U32, shape, bytes));
            }
            "weight_scale" => {
                let biases = named("weight_scale", "biases");
                quantised.push((
                    biases,
                    dtype,
                    shape.clone(),
                    bytes.iter().rev().copied().collect(),
                ));
                quantised.push((named("weight_scale", "scales"), dtype, shape, bytes));
            }
            "weight_shape" => {}
            _ => quantised.push((name, dtype, shape, bytes)),
        }
    }
    let expected = load(&source(&config, &quantised), &Quantise::KEEP).unwrap();
    let [part] = &expected.matrices[&Param::ExpertGateUp(0)][..] else { panic!("parts") };
    assert_eq!((part.layout, part.n), (Layout::W4 { group: 32 }, 6 * 128));
    assert_eq!(load(&source(&config, &stacked(&quantised)), &Quantise::KEEP), Ok(expected));
}

/// The values of a matrix.
fn values(matrix: &HostMatrix) -> Vec<f32> {
    let mut values = vec![0.0; matrix.n * matrix.k];
    for (row, values) in values.chunks_exact_mut(matrix.k).enumerate() {
        matrix.dequantise_row(row, values);
    }
    values
}

#[test]
fn experts_of_gpt_oss_may_be_floats_by_columns() {
    let (mut config, mut tensors) = golden("gpt_oss_bf16");
    let packed = load(&source(&config, &tensors), &Quantise::KEEP).unwrap();
    config.as_object_mut().unwrap().remove("quantization_config");
    tensors.retain(|tensor| !tensor.0.ends_with("_blocks") && !tensor.0.ends_with("_scales"));
    let (experts, hidden, both) = (5, 64, 128);
    for layer in 0..2 {
        for (param, name, rows, k) in [
            (Param::ExpertGateUp(layer), "gate_up_proj", both, hidden),
            (Param::ExpertDown(layer), "down_proj", hidden, both / 2),
        ] {
            let values = values(&packed.matrices[&param][0]);
            // Every value of MXFP4 is also one of bfloat16.
            let bytes = |value: f32| half::bf16::from_f32(value).to_le_bytes();
            let stored = (0..experts * rows * k).flat_map(|i| {
                let (expert, column, row) = (i / (rows * k), i / rows % k, i % rows);
                // Gate and up rows alternate.
                let row = if rows == both { row % 2 * (both / 2) + row / 2 } else { row };
                bytes(values[(expert * rows + row) * k + column])
            });
            let name = format!("model.layers.{layer}.mlp.experts.{name}");
            tensors.push((name, Dtype::BF16, vec![experts, k, rows], stored.collect()));
        }
    }
    let floats = load(&source(&config, &tensors), &Quantise::KEEP).unwrap();
    assert_eq!(floats.vectors, packed.vectors);
    for (param, parts) in packed.matrices {
        assert_eq!(values(&floats.matrices[&param][0]), values(&parts[0]), "{param:?}");
    }
}

#[test]
fn experts_are_quantised_while_they_load_and_their_router_is_not() {
    let (config, tensors) = golden("mixtral_bf16");
    let layout = Layout::W4 { group: 32 };
    let quantise = Quantise { matrices: Some(layout), embeddings: None };
    let weights = load(&source(&config, &tensors), &quantise).unwrap();
    for (param, layout, rows) in [
        (Param::ExpertGateUp(1), layout, 5 * 80),
        (Param::ExpertDown(1), layout, 5 * 48),
        (Param::Router(1), Layout::Bf16, 5),
    ] {
        let [part] = &weights.matrices[&param][..] else { panic!("{param:?} has parts") };
        assert_eq!((part.layout, part.n), (layout, rows), "{param:?}");
    }
    // The size of experts is known before they are loaded.
    let config = ModelConfig::from_json(config.to_string().as_bytes()).unwrap();
    let source = source(&json!({}), &tensors);
    let checkpoint = block_on(Checkpoint::open(&source)).unwrap();
    let plan = checkpoint.plan(&config, None, &quantise).unwrap();
    let experts = plan.weights.iter().filter(|weight| weight.param.is_of_experts());
    let shapes: Vec<_> = experts.map(|weight| (weight.shape, weight.unit)).collect();
    let layer = [(Shape::Matrix { n: 400, k: 48 }, 80), (Shape::Matrix { n: 240, k: 40 }, 48)];
    assert_eq!(shapes, layer.repeat(2));
    assert!(plan.bytes() > 2 * (layout.bytes(400, 48) + layout.bytes(240, 40)));
}

#[test]
fn errors_name_what_does_not_fit_the_experts() {
    let refused = |name: &str, edit: &dyn Fn(&mut Value, &mut Vec<Stored>)| {
        let (mut config, mut tensors) = golden(name);
        edit(&mut config, &mut tensors);
        load(&source(&config, &tensors), &Quantise::KEEP).unwrap_err().to_string()
    };
    let gate = "model.layers.0.mlp.experts.gate_up_proj";
    for (error, parts) in [
        (
            refused("mixtral_bf16", &|config, _| config["num_local_experts"] = json!(6)),
            ["block_sparse_moe.gate.weight", "[5, 48]", "[6, 48]"],
        ),
        (
            refused("mixtral_bf16", &|_, tensors| {
                tensors
                    .retain(|tensor| !tensor.0.ends_with("1.block_sparse_moe.experts.3.w2.weight"));
            }),
            ["model.layers.1.block_sparse_moe.experts.3.w2.weight", "no tensor", ""],
        ),
        (
            refused("qwen3_moe_f32", &|config, _| config["moe_intermediate_size"] = json!(23)),
            ["mlp.experts.0.gate_proj.weight", "[24, 32]", "[23, 32]"],
        ),
        (
            refused("qwen3_moe_f32", &|config, tensors| {
                *tensors = stacked(tensors);
                config["num_experts"] = json!(5);
                tensors.iter_mut().find(|t| t.0.ends_with("0.mlp.gate.weight")).unwrap().2[0] = 5;
                let router = tensors.iter_mut().find(|t| t.0.ends_with("0.mlp.gate.weight"));
                router.unwrap().3.truncate(5 * 32 * 4);
            }),
            ["model.layers.0.mlp.switch_mlp.gate_proj.weight", "[6, 24, 32]", "[5, 24, 32]"],
        ),
        (
            refused("gpt_oss_bf16", &|config, _| config["intermediate_size"] = json!(32)),
            ["gate_up_proj_blocks", "[5, 128, 2, 16]", "[5, 64, 2, 16]"],
        ),
        (
            refused("gpt_oss_bf16", &|_, tensors| {
                let blocks = tensors.iter_mut().find(|t| t.0 == format!("{gate}_scales"));
                blocks.unwrap().2 = vec![128, 5, 2];
            }),
            ["gate_up_proj_scales", "[128, 5, 2]", "[5, 128, 2]"],
        ),
        (
            refused("gpt_oss_bf16", &|config, tensors| {
                config.as_object_mut().unwrap().remove("quantization_config");
                let bytes = vec![0; 5 * 128 * 64 * 2];
                tensors.retain(|tensor| !tensor.0.starts_with(&format!("{gate}_blocks")));
                tensors.push((gate.into(), Dtype::BF16, vec![5, 128, 64], bytes));
            }),
            [gate, "[5, 128, 64]", "[5, 64, 128]"],
        ),
    ] {
        for part in parts {
            assert!(error.contains(part), "{error}: no {part:?}");
        }
    }
}
