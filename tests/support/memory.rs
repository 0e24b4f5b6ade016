//! Models in JavaScript's memory, for tests in the browser.

use super::goldens::{Golden, executor};
use js_sys::Uint8Array;
use tabloom::{
    Result,
    load::Device,
    weights::{ByteStream, Chunk, Source},
};

/// Bytes of a chunk: a multiple of no size in a tensor.
const CHUNK_BYTES: u32 = 65_521;

/// Files by name, each a list of byte arrays.
pub struct MemorySource {
    pub files: Vec<(&'static str, Vec<Uint8Array>)>,
}

/// The rest of a file.
pub struct MemoryStream {
    length: u64,
    rest: std::collections::VecDeque<Uint8Array>,
}

impl Source for MemorySource {
    type Stream = MemoryStream;

    async fn open(&self, file: &str) -> Result<Option<MemoryStream>> {
        let found = self.files.iter().find(|(name, _)| *name == file);
        Ok(found.map(|(_, parts)| MemoryStream {
            length: parts.iter().map(|part| u64::from(part.length())).sum(),
            rest: parts.iter().cloned().collect(),
        }))
    }
}

impl ByteStream for MemoryStream {
    fn length(&self) -> Option<u64> {
        Some(self.length)
    }

    async fn next(&mut self) -> Result<Option<Chunk>> {
        let Some(part) = self.rest.pop_front() else { return Ok(None) };
        if part.length() > CHUNK_BYTES {
            self.rest.push_front(part.subarray(CHUNK_BYTES, part.length()));
        }
        Ok(Some(part.subarray(0, CHUNK_BYTES.min(part.length())).into()))
    }
}

/// The files of a reference model, compiled into the test.
struct Embedded {
    name: &'static str,
    config: &'static [u8],
    weights: &'static [u8],
    golden: &'static [u8],
    logits: &'static [u8],
}

macro_rules! embed {
    ($($name:literal),* $(,)?) => {
        [$(Embedded {
            name: $name,
            config: include_bytes!(concat!("../goldens/", $name, "/config.json")),
            weights: include_bytes!(concat!("../goldens/", $name, "/model.safetensors")),
            golden: include_bytes!(concat!("../goldens/", $name, "/golden.json")),
            logits: include_bytes!(concat!("../goldens/", $name, "/logits.bin")),
        }),*]
    };
}

/// Compares one model of each kind with transformers.
pub async fn check_models(device: Device) {
    let models = embed![
        "llama2_f32",
        "llama3_bf16",
        "smollm2_bf16",
        "mistral_f16",
        "qwen2_bf16",
        "qwen3_f32",
        "ct_int4_sym_g32_bf16",
        "ct_int4_asym_g64_bf16",
        "odd_f32"
    ];
    for model in models {
        let files = [("config.json", model.config), ("model.safetensors", model.weights)];
        let files = files.map(|(name, bytes)| (name, vec![Uint8Array::from(bytes)]));
        let source = MemorySource { files: files.into() };
        let executor = executor(&source, device).await.expect(model.name);
        Golden::parse(model.golden, model.logits).check(model.name, executor).await;
    }
}
