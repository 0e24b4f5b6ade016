//! `checkpoint`: writes checkpoints of any size, to measure how they load. Pseudo-random, the same
//! every time.

use anyhow::Result;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes of a chunk of a manifest.
const CHUNK: usize = 32 << 20;
/// Bytes that repeat, but for their first word.
const BLOCK: usize = 1 << 20;
const HIDDEN: usize = 1024;
const VOCABULARY: usize = 151_936;

type Tensor = (String, Vec<usize>);

#[derive(clap::Args)]
pub struct Options {
    /// The folder to write `model` and `unused` into.
    folder: PathBuf,
    /// A model's folder, whose tokenizer is copied.
    #[arg(long)]
    text: PathBuf,
    /// MiB of each.
    #[arg(long, default_value_t = 1024)]
    mib: u64,
}

pub fn run(options: &Options) -> Result<()> {
    write(&options.folder.join("model"), &options.text, options.mib << 20)?;
    write_unused(&options.folder.join("unused"), &options.text, options.mib << 20)
}

/// Writes a folder whose model, of the sizes of Qwen3 0.6B and as many layers, has about `bytes`.
fn write(folder: &Path, text: &Path, bytes: u64) -> Result<()> {
    let vocabulary = VOCABULARY.min(bytes as usize / (6 * HIDDEN)).max(4096);
    let embeddings = 2 * vocabulary * HIDDEN;
    let layer: usize = layer(0).iter().map(size).sum();
    let layers = (bytes as usize).saturating_sub(embeddings).div_ceil(layer).max(1);
    let mut tensors = vec![("model.embed_tokens.weight".to_owned(), vec![vocabulary, HIDDEN])];
    tensors.extend((0..layers).flat_map(self::layer));
    tensors.push(("model.norm.weight".into(), vec![HIDDEN]));
    let config = json!({
        "architectures": ["Qwen3ForCausalLM"], "hidden_size": HIDDEN, "intermediate_size": 3072,
        "num_hidden_layers": layers, "num_attention_heads": 16, "num_key_value_heads": 8,
        "head_dim": 128, "vocab_size": vocabulary, "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6, "rope_theta": 1_000_000.0, "tie_word_embeddings": true,
    });
    put(folder, text, &config, &tensors)
}

/// Writes a folder with a small model beside tensors that no model asks for, of `bytes` together:
/// they are fetched, digested and kept like all others, and go no further.
fn write_unused(folder: &Path, text: &Path, bytes: u64) -> Result<()> {
    let mut tensors: Vec<Tensor> = Vec::new();
    tensors.push(("model.embed_tokens.weight".into(), vec![4096, 64]));
    let name = |name: &str| format!("model.layers.0.{name}.weight");
    for module in ["q_proj", "k_proj", "v_proj", "o_proj"] {
        tensors.push((name(&format!("self_attn.{module}")), vec![64, 64]));
    }
    for module in ["gate_proj", "up_proj", "down_proj"] {
        tensors.push((name(&format!("mlp.{module}")), vec![64, 64]));
    }
    tensors.push((name("input_layernorm"), vec![64]));
    tensors.push((name("post_attention_layernorm"), vec![64]));
    tensors.push(("model.norm.weight".into(), vec![64]));
    tensors.extend((0..bytes >> 24).map(|i| (format!("unused.{i}"), vec![1 << 23])));
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 64,
        "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 4096,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10_000.0,
        "tie_word_embeddings": true,
    });
    put(folder, text, &config, &tensors)
}

fn layer(i: usize) -> Vec<Tensor> {
    let tensor =
        |name: &str, shape: &[usize]| (format!("model.layers.{i}.{name}.weight"), shape.to_vec());
    vec![
        tensor("input_layernorm", &[HIDDEN]),
        tensor("self_attn.q_proj", &[2048, HIDDEN]),
        tensor("self_attn.k_proj", &[1024, HIDDEN]),
        tensor("self_attn.v_proj", &[1024, HIDDEN]),
        tensor("self_attn.q_norm", &[128]),
        tensor("self_attn.k_norm", &[128]),
        tensor("self_attn.o_proj", &[HIDDEN, 2048]),
        tensor("post_attention_layernorm", &[HIDDEN]),
        tensor("mlp.gate_proj", &[3072, HIDDEN]),
        tensor("mlp.up_proj", &[3072, HIDDEN]),
        tensor("mlp.down_proj", &[HIDDEN, 3072]),
    ]
}

fn size((_, shape): &Tensor) -> usize {
    2 * shape.iter().product::<usize>()
}

/// Writes configuration, weights and their digests; what concerns text comes from `text`.
fn put(folder: &Path, text: &Path, config: &Value, tensors: &[Tensor]) -> Result<()> {
    fs::create_dir_all(folder)?;
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(text.join(file), folder.join(file))?;
    }
    fs::write(folder.join("config.json"), config.to_string())?;
    let (mut header, mut end) = (Map::new(), 0);
    for tensor in tensors {
        let (start, (name, shape)) = (end, tensor);
        end += size(tensor);
        let entry = json!({ "dtype": "BF16", "shape": shape, "data_offsets": [start, end] });
        header.insert(name.clone(), entry);
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut file = Digested {
        file: BufWriter::new(File::create(folder.join("model.safetensors"))?),
        whole: Sha256::new(),
        bytes: 0,
        chunk: blake3::Hasher::new(),
        chunks: Vec::new(),
    };
    file.write(&(header.len() as u64).to_le_bytes())?;
    file.write(&header)?;
    let mut block = numbers();
    for start in (0..end).step_by(BLOCK) {
        // No two blocks are the same.
        block[..4].copy_from_slice(&((start / BLOCK) as u32 | 0x3c00_3c00).to_le_bytes());
        file.write(&block[..BLOCK.min(end - start)])?;
    }
    let manifest = json!({ "files": { "model.safetensors": file.finish()? } });
    fs::write(folder.join("manifest.json"), manifest.to_string())?;
    Ok(())
}

/// bf16 of either sign and a magnitude from 2^-6 to 2^-5.
fn numbers() -> Vec<u8> {
    let mut state = 1u32;
    let words = (0..BLOCK / 2).flat_map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 16) as u16 & 0x807f | 0x3c80).to_le_bytes()
    });
    words.collect()
}

/// A file, and what a manifest says of it.
struct Digested {
    file: BufWriter<File>,
    whole: Sha256,
    bytes: usize,
    chunk: blake3::Hasher,
    chunks: Vec<String>,
}

impl Digested {
    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes)?;
        self.whole.update(bytes);
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(CHUNK - self.bytes % CHUNK));
            self.chunk.update(head);
            self.bytes += head.len();
            if self.bytes.is_multiple_of(CHUNK) {
                self.end_chunk();
            }
            bytes = rest;
        }
        Ok(())
    }

    fn end_chunk(&mut self) {
        self.chunks.push(self.chunk.finalize().to_hex().to_string());
        self.chunk.reset();
    }

    fn finish(mut self) -> Result<Value> {
        if !self.bytes.is_multiple_of(CHUNK) {
            self.end_chunk();
        }
        self.file.flush()?;
        let digits = self.whole.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let sha256: String = digits;
        Ok(json!({ "sha256": sha256, "bytes": self.bytes, "chunks": self.chunks }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_about_the_size_that_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        fs::create_dir(&text).unwrap();
        for file in ["tokenizer.json", "tokenizer_config.json"] {
            fs::write(text.join(file), "{}").unwrap();
        }
        for (name, write) in [("model", write as fn(&_, &_, _) -> _), ("unused", write_unused)] {
            let folder = folder.path().join(name);
            write(&folder, &text, 48 << 20).unwrap();
            let bytes = fs::metadata(folder.join("model.safetensors")).unwrap().len();
            assert!((44 << 20..80 << 20).contains(&bytes), "{name} has {bytes} bytes");
            let manifest = fs::read(folder.join("manifest.json")).unwrap();
            let manifest: Value = serde_json::from_slice(&manifest).unwrap();
            let file = &manifest["files"]["model.safetensors"];
            assert_eq!(file["bytes"], bytes);
            let chunks = file["chunks"].as_array().unwrap().len();
            assert_eq!(chunks, (bytes as usize).div_ceil(CHUNK));
        }
    }
}
