//! Quantised checkpoints that contradict their configuration.

use super::*;
use ::safetensors::SafeTensors;
use std::path::Path;

const K: &str = "model.layers.0.self_attn.k_proj";

type Edit = fn(&mut Vec<Stored>);

/// A golden checkpoint with other tensors.
fn edited(name: &str, edit: Edit) -> MemorySource {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/formats").join(name);
    let read = |file| std::fs::read(folder.join(file)).expect(name);
    let bytes = read("model.safetensors");
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let stored = |(name, view): (String, TensorView)| {
        (name, view.dtype(), view.shape().to_vec(), view.data().to_vec())
    };
    let mut tensors: Vec<Stored> = tensors.tensors().into_iter().map(stored).collect();
    edit(&mut tensors);
    MemorySource::new([
        ("config.json", read("config.json")),
        ("model.safetensors", serialized(&tensors)),
    ])
}

fn tensor<'a>(tensors: &'a mut [Stored], name: &str) -> &'a mut Stored {
    let name = format!("{K}.{name}");
    tensors.iter_mut().find(|tensor| tensor.0 == name).expect("the test's own tensor")
}

fn remove(tensors: &mut Vec<Stored>, name: &str) {
    let name = format!("{K}.{name}");
    tensors.retain(|tensor| tensor.0 != name);
}

#[test]
fn errors_name_what_does_not_fit_the_format() {
    let state = "weight.quant_state.bitsandbytes__nf4";
    let cases: [(&str, Edit, &str, &str); 13] = [
        (
            "gptq_act_order_g32_f16",
            |tensors| tensor(tensors, "g_idx").3[..4].copy_from_slice(&99_i32.to_le_bytes()),
            "g_idx",
            "is with groups of other sizes, expected each group of 32 columns to be full",
        ),
        (
            "gptq_act_order_g32_f16",
            |tensors| tensor(tensors, "g_idx").3.rotate_left(4),
            "../q_proj.g_idx",
            "is in another order, expected that of the modules it is joined with",
        ),
        ("gptq_act_order_g32_f16", |t| remove(t, "g_idx"), "g_idx", "no tensor"),
        (
            "gptq_v2_asym_g32_f16",
            |tensors| tensor(tensors, "scales").2 = vec![8, 32],
            "scales",
            "one number per 32, 64 or a multiple of 128 of 128 columns",
        ),
        (
            "awq_gemm_g128_f16",
            |tensors| tensor(tensors, "qweight").2 = vec![64, 16],
            "qweight",
            "is I32 [64, 16], expected I32 [128, 8]",
        ),
        (
            "awq_gemv_g64_f16",
            |tensors| tensor(tensors, "scales").2 = vec![32, 32],
            "scales",
            "is F16 [32, 32], expected F32 or F16 or BF16 [64, 16]",
        ),
        ("mlx_q4_g64_bf16", |t| remove(t, "biases"), "biases", "no tensor"),
        (
            "fp8_block_f32_scales_bf16",
            |t| remove(t, "weight_scale_inv"),
            "weight_scale",
            "no tensor",
        ),
        (
            "ct_mxfp4_bf16",
            |tensors| tensor(tensors, "weight_scale").1 = Dtype::I8,
            "weight_scale",
            "is I8 [64, 4], expected U8 [64, 4]",
        ),
        (
            "hqq_int4_g64_bf16",
            |tensors| tensor(tensors, "W_q").2 = vec![32, 128],
            "scale",
            "is BF16 [128, 1], expected F32 or F16 or BF16 [64, 1]",
        ),
        (
            "bnb_nf4_nested_bf16",
            |tensors| tensor(tensors, "weight.absmax").2 = vec![2, 64],
            "weight.absmax",
            "a scale for each 64 or more columns of rows of 128",
        ),
        (
            "bnb_nf4_nested_bf16",
            |tensors| tensor(tensors, "weight.quant_state.bitsandbytes__nf4").3[0] = b'[',
            state,
            "is not a valid state of bitsandbytes' quantisation",
        ),
        (
            "bnb_nf4_nested_bf16",
            |tensors| {
                let json = &mut tensor(tensors, "weight.quant_state.bitsandbytes__nf4").3;
                let text = String::from_utf8(json.clone()).unwrap();
                let changed =
                    text.replace("\"nested_blocksize\": 256", "\"nested_blocksize\": 128");
                assert_ne!(text, changed);
                *json = changed.into_bytes();
            },
            state,
            "its nested_blocksize is 128, expected 256",
        ),
    ];
    for (name, edit, at, words) in cases {
        let error = load(&edited(name, edit), &Quantise::KEEP).unwrap_err();
        let message = error.to_string();
        let at = match at.strip_prefix("../") {
            Some(sibling) => K.replace("k_proj", sibling),
            None => format!("{K}.{at}"),
        };
        assert!(message.contains(&at), "{name}: {message}");
        assert!(message.contains(words), "{name}: {message}");
        assert!(load(&edited(name, |_| ()), &Quantise::KEEP).is_ok(), "{name} itself loads");
    }
}

#[test]
fn tensors_may_come_in_any_order() {
    for name in ["bnb_nf4_nested_bf16", "gptq_act_order_g32_f16", "mlx_q8_g64_f16"] {
        let expected = load(&edited(name, |_| ()), &Quantise::KEEP).unwrap();
        // The library sorts by type and name: other names give another order.
        let folder = edited(name, |_| ());
        let (header, data) = folder.files["model.safetensors"][8..].split_at(u64::from_le_bytes(
            *folder.files["model.safetensors"].first_chunk().unwrap(),
        ) as usize);
        let header: serde_json::Map<String, Value> = serde_json::from_slice(header).unwrap();
        let mut tensors: Vec<_> = header.into_iter().collect();
        tensors.retain(|(name, _)| name != "__metadata__");
        fastrand::Rng::with_seed(3).shuffle(&mut tensors);
        let (mut bytes, mut moved) = (Vec::<u8>::new(), serde_json::Map::new());
        for (name, mut tensor) in tensors {
            let offsets = &mut tensor["data_offsets"];
            let [start, end] = [0, 1].map(|i| offsets[i].as_u64().unwrap() as usize);
            *offsets = json!([bytes.len(), bytes.len() + end - start]);
            bytes.extend(&data[start..end]);
            moved.insert(name, tensor);
        }
        let header = Value::from(moved).to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend(bytes);
        let mut shuffled = edited(name, |_| ());
        *shuffled.file("model.safetensors") = file;
        assert_eq!(load(&shuffled, &Quantise::KEEP).unwrap(), expected, "{name}");
    }
}
