//! Weights do not pass through the wasm heap: bytes that stream from JavaScript to the GPU stay
//! outside.
#![cfg(target_arch = "wasm32")]

mod support;

use std::ops::ControlFlow;

use js_sys::{ArrayBuffer, Uint8Array, WebAssembly};
use serde_json::json;
use support::memory::MemorySource;
use tabloom::{
    layout::Layout,
    load::{self, Device, LoadOptions, quantise_all},
    weights::Quantise,
};
use wasm_bindgen::{JsCast, prelude::wasm_bindgen};
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_dedicated_worker);

/// What loading may allocate: headers, plans, kernels, but no weights.
const MOST_GROWTH: u32 = 4 << 20;

const HIDDEN: usize = 512;
const VOCAB: usize = 40_000;

#[wasm_bindgen(inline_js = "
export function numbers(count) {
  const words = new Uint16Array(count);
  let state = 1;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    words[i] = 0x3c00 | (state >>> 16 & 0x83ff); // bf16 of magnitude 2^-7 to 2^1
  }
  return new Uint8Array(words.buffer);
}")]
extern "C" {
    /// Random bf16 values, made in JavaScript's memory.
    fn numbers(count: usize) -> Uint8Array;
}

/// A model of one layer whose weights take 48 MB.
fn large_model() -> MemorySource {
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB,
        "hidden_size": HIDDEN, "intermediate_size": 2 * HIDDEN, "num_hidden_layers": 1,
        "num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5, "rope_theta": 1e4, "hidden_act": "silu",
        "tie_word_embeddings": true,
    });
    let square = [HIDDEN, HIDDEN];
    let (wide, narrow) = ([2 * HIDDEN, HIDDEN], [HIDDEN, 2 * HIDDEN]);
    let tensors: [(&str, &[usize]); 11] = [
        ("model.embed_tokens.weight", &[VOCAB, HIDDEN]),
        ("model.layers.0.input_layernorm.weight", &[HIDDEN]),
        ("model.layers.0.mlp.down_proj.weight", &narrow),
        ("model.layers.0.mlp.gate_proj.weight", &wide),
        ("model.layers.0.mlp.up_proj.weight", &wide),
        ("model.layers.0.post_attention_layernorm.weight", &[HIDDEN]),
        ("model.layers.0.self_attn.k_proj.weight", &square),
        ("model.layers.0.self_attn.o_proj.weight", &square),
        ("model.layers.0.self_attn.q_proj.weight", &square),
        ("model.layers.0.self_attn.v_proj.weight", &square),
        ("model.norm.weight", &[HIDDEN]),
    ];
    let mut header = serde_json::Map::new();
    let mut count = 0;
    for (name, shape) in tensors {
        let end = count + shape.iter().product::<usize>();
        let tensor =
            json!({ "dtype": "BF16", "shape": shape, "data_offsets": [2 * count, 2 * end] });
        header.insert(name.into(), tensor);
        count = end;
    }
    let mut header = serde_json::to_vec(&header).unwrap();
    header.resize(header.len().next_multiple_of(8), b' ');
    let length = (header.len() as u64).to_le_bytes();
    let weights = vec![Uint8Array::from(&length[..]), header.as_slice().into(), numbers(count)];
    let config = vec![Uint8Array::from(config.to_string().as_bytes())];
    MemorySource { files: vec![("config.json", config), ("model.safetensors", weights)] }
}

fn heap_bytes() -> u32 {
    let memory: WebAssembly::Memory = wasm_bindgen::memory().unchecked_into();
    memory.buffer().unchecked_into::<ArrayBuffer>().byte_length()
}

#[wasm_bindgen_test]
async fn loading_does_not_copy_the_weights_to_the_wasm_heap() {
    let source = large_model();
    for quantise in [Quantise::KEEP, quantise_all(Layout::W4 { group: 32 })] {
        let before = heap_bytes();
        let mut read = 0;
        let options =
            LoadOptions { device: Device::Gpu, quantise, context: Some(256), ..Default::default() };
        let loaded = load::executor(&source, &options, |progress| {
            if let load::Progress::Download { loaded, .. } = progress {
                read = loaded;
            }
            ControlFlow::Continue(())
        });
        let loaded = loaded.await.unwrap();
        assert!(read > 40 << 20, "only {read} bytes were read");
        assert!(loaded.weight_bytes > 20 << 20, "{} bytes of weights", loaded.weight_bytes);
        let growth = heap_bytes() - before;
        assert!(growth <= MOST_GROWTH, "the heap grew by {growth} bytes for {quantise:?}");
    }
}

/// Checks the measurement of the test above.
#[wasm_bindgen_test]
fn the_measurement_includes_the_heap() {
    let before = heap_bytes();
    let held = vec![1u8; 16 << 20];
    assert!(heap_bytes() - before >= 12 << 20);
    assert_eq!(std::hint::black_box(held)[7], 1);
}
