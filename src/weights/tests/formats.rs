//! Quantised checkpoints that contradict their configuration.

use super::*;
use crate::model::Param;
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
    let cases: [(&str, Edit, &str, &str); 12] = [
        (
            "gptq_act_order_g32_f16",
            |tensors| tensor(tensors, "g_idx").3[..4].copy_from_slice(&99_i32.to_le_bytes()),
            "g_idx",
            "is with groups of other sizes, expected each group of 32 columns to be full",
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
        let at = format!("{K}.{at}");
        assert!(message.contains(&at), "{name}: {message}");
        assert!(message.contains(words), "{name}: {message}");
        assert!(load(&edited(name, |_| ()), &Quantise::KEEP).is_ok(), "{name} itself loads");
    }
}

/// GPTQModel's `dynamic` gives modules other numbers of bits than the file has.
#[test]
fn modules_of_gptq_have_the_bits_that_their_tensors_show() {
    for (name, bits, own) in [("gptq_int8_g32_f16", 4, 8), ("gptq_v1_sym_g128_f16", 8, 4)] {
        let expected = load(&edited(name, |_| ()), &Quantise::KEEP).unwrap();
        let mut source = edited(name, |_| ());
        let file = source.file("config.json");
        let mut config: Value = serde_json::from_slice(file).unwrap();
        let quantization = &mut config["quantization_config"];
        quantization["bits"] = json!(bits);
        quantization["dynamic"] = json!({"+:.*_proj": {"bits": own}});
        *file = config.to_string().into_bytes();
        assert_eq!(load(&source, &Quantise::KEEP).unwrap(), expected, "{name}");
    }
}

#[test]
fn modules_whose_columns_have_orders_of_their_own_are_parts_of_their_own() {
    let name = "gptq_act_order_g32_f16";
    let same = load(&edited(name, |_| ()), &Quantise::KEEP).unwrap();
    let rotate: Edit = |tensors| tensor(tensors, "g_idx").3.rotate_left(4);
    let apart = load(&edited(name, rotate), &Quantise::KEEP).unwrap();
    let qkv = Param::Qkv(0);
    let rows = |weights: &HostWeights| -> Vec<_> {
        weights.matrices[&qkv].iter().map(|part| part.n).collect()
    };
    let orders = |weights: &HostWeights| -> Vec<usize> {
        let first_rows = weights.orders.keys().filter(|(param, _)| *param == qkv);
        let mut first_rows: Vec<_> = first_rows.map(|(_, row)| *row).collect();
        first_rows.sort_unstable();
        first_rows
    };
    assert_eq!((rows(&same), orders(&same)), (vec![256], vec![0]));
    assert_eq!((rows(&apart), orders(&apart)), (vec![128, 64, 64], vec![0, 128, 192]));
    assert_eq!(apart.orders[&(qkv, 0)], same.orders[&(qkv, 0)]);
    assert_eq!(apart.orders[&(qkv, 192)], same.orders[&(qkv, 0)]);
    // Columns after the order: those of k moved by one.
    let (order, moved) = (&same.orders[&(qkv, 0)], &apart.orders[&(qkv, 128)]);
    let moved_back = moved.iter().map(|column| (column + 1) % 128);
    for group in 0..4 {
        let sorted = |columns: &mut dyn Iterator<Item = u32>| {
            let mut columns: Vec<_> = columns.skip(32 * group).take(32).collect();
            columns.sort_unstable();
            columns
        };
        assert_eq!(
            sorted(&mut moved_back.clone()),
            sorted(&mut order.iter().copied()),
            "group {group}"
        );
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
