//! Writes a compressed-tensors folder: packed codes, everything else unchanged.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result};
use safetensors::{Dtype, View};
use serde_json::{Map, Value, json};
use tabloom::layout::{HostMatrix, unpack_halves};

use super::{
    checkpoint::{self, Checkpoint, INDEX, Stored},
    quantiser::Quantised,
    rtn::{Format, Group},
};

/// Largest file of weights, in bytes.
pub const SHARD_BYTES: u64 = 5 << 30;

/// Files that are not copied, because they are written anew.
const OWN: [&str; 3] = ["config.json", INDEX, "model.safetensors"];
/// Extensions of the files that are copied.
const COPIED: [&str; 4] = ["json", "jinja", "model", "txt"];

/// A tensor of the new folder.
pub enum Tensor {
    Kept(Stored),
    Made { dtype: Dtype, shape: Vec<usize>, bytes: Vec<u8> },
}

/// Writes a folder with files of at most `shard_bytes`; returns the size of all tensors in bytes.
pub fn write(
    quantised: &Quantised,
    format: &Format,
    checkpoint: &Checkpoint,
    [from, to]: [&Path; 2],
    shard_bytes: u64,
) -> Result<u64> {
    let tensors = tensors(quantised, format, checkpoint)?;
    let ignored = ignored(&tensors);
    let total = write_shards(tensors, to, shard_bytes)?;
    let mut config: Value = serde_json::from_slice(&fs::read(from.join("config.json"))?)?;
    config["quantization_config"] = description(format, &ignored);
    fs::write(to.join("config.json"), serde_json::to_vec_pretty(&config)?)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if COPIED.contains(&ending) && !OWN.contains(&name) {
            let copy = fs::copy(&path, to.join(name));
            copy.with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(total)
}

/// The `quantization_config` of `config.json`.
fn description(format: &Format, ignored: &[String]) -> Value {
    let mut description = json!({
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "config_groups": { "group_0": {
            "targets": ["Linear"],
            "input_activations": null,
            "output_activations": null,
            "weights": {
                "num_bits": format.bits,
                "type": "int",
                "symmetric": !format.has_zeros(),
                "strategy": "group",
                "group_size": format.group,
                "dynamic": false,
            },
        }},
        "kv_cache_scheme": null,
        "ignore": ignored,
    });
    if format.has_zeros() {
        // Transformers cannot load packed zero points into modules that stay quantised.
        description["dequantize"] = true.into();
    }
    description
}

/// Modules with an unquantised matrix.
fn ignored(tensors: &BTreeMap<String, Tensor>) -> Vec<String> {
    let kept = tensors.iter().filter_map(|(name, tensor)| match tensor {
        Tensor::Kept(stored) if stored.shape.len() == 2 => name.strip_suffix(".weight"),
        _ => None,
    });
    let mut ignored: Vec<String> =
        kept.filter(|name| !name.ends_with("embed_tokens")).map(String::from).collect();
    // If it is tied to the embeddings, it has no tensor.
    if !ignored.iter().any(|name| name == "lm_head") {
        ignored.push("lm_head".into());
    }
    ignored
}

/// Bits per number in the unquantised tensors.
pub fn kept_bits(quantised: &Quantised, checkpoint: &Checkpoint) -> Result<f64> {
    let sources = quantised.rounded.iter().flat_map(|spec| &spec.sources);
    let names: Result<BTreeSet<&str>> =
        sources.map(|source| checkpoint.name(&source.name)).collect();
    let names = names?;
    let kept = checkpoint.tensors.iter().filter(|(name, _)| !names.contains(&name[..]));
    let (bytes, count) = kept.fold((0, 0), |(bytes, count), (_, stored)| {
        (bytes + stored.data_len(), count + stored.shape.iter().product::<usize>())
    });
    Ok(8.0 * bytes as f64 / count.max(1) as f64)
}

/// All tensors of the new folder.
fn tensors(
    quantised: &Quantised,
    format: &Format,
    checkpoint: &Checkpoint,
) -> Result<BTreeMap<String, Tensor>> {
    let kept = checkpoint.tensors.iter();
    let mut tensors: BTreeMap<String, Tensor> =
        kept.map(|(name, stored)| (name.clone(), Tensor::Kept(stored.clone()))).collect();
    let weights = &quantised.model.weights;
    for spec in &quantised.rounded {
        let matrix = weights.matrices.get(&spec.param).and_then(|parts| parts.first());
        let matrix = matrix.ok_or_else(|| spec.param.missing())?;
        let mut first = 0;
        for source in &spec.sources {
            let name = checkpoint.name(&source.name)?;
            tensors.remove(name);
            tensors.extend(packed(name, format, matrix, first, source.rows));
            first += source.rows;
        }
    }
    let changed = quantised.model.config.params().into_iter();
    for spec in changed.filter(|spec| quantised.changed.contains(&spec.param)) {
        let vector = weights.vectors.get(&spec.param).ok_or_else(|| spec.param.missing())?;
        let mut rest = &vector[..];
        for source in &spec.sources {
            let (values, after) = rest.split_at(source.rows);
            rest = after;
            let less = if spec.less_one { 1.0 } else { 0.0 };
            let values: Vec<f32> = values.iter().map(|value| value - less).collect();
            let (dtype, bytes) = checkpoint::encode(checkpoint.float(&source.name)?, &values);
            let tensor = Tensor::Made { dtype, shape: vec![source.rows], bytes };
            tensors.insert(checkpoint.name(&source.name)?.into(), tensor);
        }
    }
    Ok(tensors)
}

/// The packed tensors of a module, which is some rows of a matrix.
fn packed(
    weight: &str,
    format: &Format,
    matrix: &HostMatrix,
    first: usize,
    n: usize,
) -> Vec<(String, Tensor)> {
    let k = matrix.k;
    let row_words = matrix.layout.row_words(k);
    let groups = k / format.group;
    let words = &matrix.words[first * row_words..][..n * row_words];
    let pairs = &matrix.scales[first * groups..][..n * groups];
    // Signed bytes are stored with an offset of 128.
    let flip = if format.bits == 8 { 0x8080_8080 } else { 0 };
    let words = words.iter().flat_map(|word| (word ^ flip).to_le_bytes()).collect();
    let scales: Vec<f32> = pairs.iter().map(|pair| unpack_halves(*pair)[0]).collect();
    let (float, scales) = checkpoint::encode(format.scales, &scales);
    let shape = [n as u64, k as u64].iter().flat_map(|n| n.to_le_bytes()).collect();
    let tensor = |suffix: &str, dtype, shape: &[usize], bytes| {
        let made = Tensor::Made { dtype, shape: shape.to_vec(), bytes };
        (format!("{weight}_{suffix}"), made)
    };
    let mut tensors = vec![
        tensor("packed", Dtype::I32, &[n, row_words], words),
        tensor("scale", float, &[n, groups], scales),
        tensor("shape", Dtype::I64, &[2], shape),
    ];
    if format.has_zeros() {
        // Eight rows per word.
        let mut zeros = vec![0u32; n.div_ceil(8) * groups];
        for (i, pair) in pairs.iter().enumerate() {
            let (row, group) = (i / groups, i % groups);
            zeros[row / 8 * groups + group] |= Group::zero(*pair) << (row % 8 * 4);
        }
        let bytes = zeros.iter().flat_map(|word| word.to_le_bytes()).collect();
        tensors.push(tensor("zero_point", Dtype::I32, &[n.div_ceil(8), groups], bytes));
    }
    tensors
}

/// Writes `model.safetensors`, or shards and their index.
fn write_shards(tensors: BTreeMap<String, Tensor>, folder: &Path, shard_bytes: u64) -> Result<u64> {
    let total: u64 = tensors.values().map(|tensor| tensor.data_len() as u64).sum();
    let mut shards: Vec<(u64, Vec<(String, Tensor)>)> = vec![(0, Vec::new())];
    for (name, tensor) in tensors {
        let bytes = tensor.data_len() as u64;
        if shards.last().is_some_and(|(had, _)| *had > 0 && had + bytes > shard_bytes) {
            shards.push((0, Vec::new()));
        }
        if let Some((had, shard)) = shards.last_mut() {
            *had += bytes;
            shard.push((name, tensor));
        }
    }
    let count = shards.len();
    let mut map = Map::new();
    for (i, (_, shard)) in shards.into_iter().enumerate() {
        let file = match count {
            1 => "model.safetensors".into(),
            _ => format!("model-{:05}-of-{count:05}.safetensors", i + 1),
        };
        map.extend(shard.iter().map(|(name, _)| (name.clone(), file.clone().into())));
        let metadata = [("format".to_owned(), "pt".to_owned())].into();
        safetensors::serialize_to_file(shard, Some(metadata), &folder.join(&file))
            .with_context(|| format!("cannot write {file}"))?;
    }
    if count > 1 {
        let index = json!({ "metadata": { "total_size": total }, "weight_map": map });
        fs::write(folder.join(INDEX), serde_json::to_vec_pretty(&index)?)?;
    }
    Ok(total)
}

impl View for Tensor {
    fn dtype(&self) -> Dtype {
        match self {
            Tensor::Kept(stored) => stored.dtype(),
            Tensor::Made { dtype, .. } => *dtype,
        }
    }

    fn shape(&self) -> &[usize] {
        match self {
            Tensor::Kept(stored) => stored.shape(),
            Tensor::Made { shape, .. } => shape,
        }
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self {
            Tensor::Kept(stored) => stored.data(),
            Tensor::Made { bytes, .. } => bytes.into(),
        }
    }

    fn data_len(&self) -> usize {
        match self {
            Tensor::Kept(stored) => stored.data_len(),
            Tensor::Made { bytes, .. } => bytes.len(),
        }
    }
}
