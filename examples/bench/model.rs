//! Synthetic checkpoints of real shapes, generated while they are read.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};
use tabloom::{
    Result,
    model::{ModelConfig, Param, ParamSpec},
    weights::{ByteStream, Chunk, Source},
};

/// Sizes of a Llama model with tied embeddings.
#[derive(Clone, Copy)]
pub struct LlamaShape {
    pub name: &'static str,
    pub hidden: usize,
    pub intermediate: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub vocab: usize,
}

/// The sizes of Qwen2.5 0.5B and of Llama 3.2 1B.
pub const SHAPES: [LlamaShape; 2] = [
    LlamaShape {
        name: "0.5B",
        hidden: 896,
        intermediate: 4864,
        layers: 24,
        heads: 14,
        kv_heads: 2,
        vocab: 151_936,
    },
    LlamaShape {
        name: "1B",
        hidden: 2048,
        intermediate: 8192,
        layers: 16,
        heads: 32,
        kv_heads: 8,
        vocab: 128_256,
    },
];

/// Chunk size of the stream.
const CHUNK_BYTES: usize = 1 << 20;

impl LlamaShape {
    /// The same shape with fewer layers and a smaller vocabulary.
    pub fn scaled(self, scale: usize) -> LlamaShape {
        let (layers, vocab) = ((self.layers / scale).max(1), self.vocab / scale);
        LlamaShape { layers, vocab, ..self }
    }

    fn config(&self, group: usize) -> Value {
        let weights = json!({
            "num_bits": 4, "type": "int", "symmetric": true,
            "strategy": "group", "group_size": group,
        });
        json!({
            "architectures": ["LlamaForCausalLM"],
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "vocab_size": self.vocab,
            "max_position_embeddings": 131_072,
            "rms_norm_eps": 1e-5,
            "rope_theta": 500_000.0,
            "tie_word_embeddings": true,
            "quantization_config": {
                "quant_method": "compressed-tensors",
                "format": "pack-quantized",
                "config_groups": { "group_0": { "targets": ["Linear"], "weights": weights } },
            },
        })
    }
}

/// A folder whose `model.safetensors` has random int4 matrices and bf16 embeddings.
pub struct Synthetic {
    config: Vec<u8>,
    header: Vec<u8>,
    tensors: Vec<(u64, Fill)>,
}

/// Contents of a tensor's 16-bit words: random bits where `random` has ones, else the bits of `fixed`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Fill {
    random: u16,
    fixed: u16,
}

impl Fill {
    const NIBBLES: Fill = Fill { random: 0xffff, fixed: 0 };
    /// f16 from 2^-8 up: sums of some thousand products stay near 1.
    const SCALES: Fill = Fill { random: 0x00ff, fixed: 0x1c00 };
    /// bf16 of either sign, from 2^-6 to 2^-5.
    const EMBEDDINGS: Fill = Fill { random: 0x807f, fixed: 0x3c80 };
    /// bf16 of 1.
    const ONES: Fill = Fill { random: 0, fixed: 0x3f80 };

    fn block(self) -> Chunk {
        let mut rng = fastrand::Rng::with_seed(1);
        let word = |rng: &mut fastrand::Rng| rng.u16(..) & self.random | self.fixed;
        let words = (0..CHUNK_BYTES / 2).flat_map(|_| word(&mut rng).to_le_bytes());
        Chunk::from(words.collect::<Vec<u8>>())
    }
}

impl Synthetic {
    /// A model of this shape with int4 groups of `group` columns.
    pub fn new(shape: &LlamaShape, group: usize) -> Result<Synthetic> {
        let config = shape.config(group).to_string().into_bytes();
        let mut header = Map::new();
        let mut tensors = Vec::new();
        let mut end = 0;
        for spec in ModelConfig::from_json(&config)?.params() {
            for (name, dtype, shape, fill) in tensors_of(&spec, group) {
                let start = end;
                let bytes = if dtype == "I32" { 4 } else { 2 };
                end += shape.iter().product::<usize>() as u64 * bytes;
                tensors.push((end - start, fill));
                let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] });
                header.insert(name, entry);
            }
        }
        let json = Value::Object(header).to_string().into_bytes();
        let mut header = (json.len() as u64).to_le_bytes().to_vec();
        header.extend(json);
        Ok(Synthetic { config, header, tensors })
    }

    /// Size of the weights in the file.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|(bytes, _)| bytes).sum()
    }
}

type Tensor = (String, &'static str, Vec<usize>, Fill);

/// The tensors of a weight: name, type, shape and contents.
fn tensors_of(spec: &ParamSpec, group: usize) -> Vec<Tensor> {
    use tabloom::model::Shape::{Matrix, Vector};
    let mut tensors = Vec::new();
    for source in &spec.sources {
        let (name, rows) = (&source.name, source.rows);
        match spec.shape {
            Vector { n } => tensors.push((name.clone(), "BF16", vec![n], Fill::ONES)),
            Matrix { k, .. } if spec.param == Param::Embed => {
                tensors.push((name.clone(), "BF16", vec![rows, k], Fill::EMBEDDINGS));
            }
            Matrix { k, .. } => {
                let (packed, scale) = (format!("{name}_packed"), format!("{name}_scale"));
                tensors.push((packed, "I32", vec![rows, k.div_ceil(8)], Fill::NIBBLES));
                tensors.push((scale, "F16", vec![rows, k.div_ceil(group)], Fill::SCALES));
            }
        }
    }
    tensors
}

/// A stream of a file in chunks that reuse a few blocks of random bytes.
pub struct Stream {
    length: u64,
    chunks: VecDeque<Chunk>,
}

impl Source for Synthetic {
    type Stream = Stream;

    async fn open(&self, file: &str) -> Result<Option<Stream>> {
        let mut chunks = VecDeque::new();
        match file {
            "config.json" => chunks.push_back(self.config.clone().into()),
            "model.safetensors" => {
                chunks.push_back(self.header.clone().into());
                let mut blocks = HashMap::new();
                for &(bytes, fill) in &self.tensors {
                    let block = blocks.entry(fill).or_insert_with(|| fill.block());
                    let starts = (0..bytes as usize).step_by(CHUNK_BYTES);
                    let pieces = starts.map(|start| CHUNK_BYTES.min(bytes as usize - start));
                    chunks.extend(pieces.map(|bytes| block.slice(0..bytes)));
                }
            }
            _ => return Ok(None),
        }
        let length = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Ok(Some(Stream { length, chunks }))
    }
}

impl ByteStream for Stream {
    fn length(&self) -> Option<u64> {
        Some(self.length)
    }

    async fn next(&mut self) -> Result<Option<Chunk>> {
        Ok(self.chunks.pop_front())
    }
}
