//! A safetensors checkpoint whose tensors are read one at a time.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use half::{bf16, f16};
use safetensors::{Dtype, View, tensor::Metadata};
use serde_json::Value;
use tabloom::layout::FloatType;

const SINGLE: &str = "model.safetensors";
pub const INDEX: &str = "model.safetensors.index.json";

/// A folder's tensors by name.
pub struct Checkpoint {
    pub tensors: BTreeMap<String, Stored>,
}

/// A tensor in a file.
#[derive(Clone)]
pub struct Stored {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    file: PathBuf,
    /// Position of its first byte in the file.
    position: u64,
    bytes: usize,
}

impl Checkpoint {
    /// Reads the headers of `model.safetensors`, or of all the shards that its index names.
    pub fn open(folder: &Path) -> Result<Checkpoint> {
        let mut tensors = BTreeMap::new();
        for file in files(folder)? {
            let path = folder.join(file);
            read_header(&path, &mut tensors)
                .with_context(|| format!("cannot read {}", path.display()))?;
        }
        Ok(Checkpoint { tensors })
    }

    /// The name of a tensor in this checkpoint: multimodal models prefix it, base models omit its first
    /// part.
    pub fn name<'a>(&'a self, name: &'a str) -> Result<&'a str> {
        let long = format!("language_model.{name}");
        let short = name.strip_prefix("model.").unwrap_or(name);
        let mut names = [name, short, &long].into_iter();
        let found = names.find_map(|name| self.tensors.get_key_value(name));
        let (name, _) = found.with_context(|| format!("the checkpoint has no tensor {name:?}"))?;
        Ok(name)
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors.values().map(|tensor| tensor.bytes as u64).sum()
    }

    /// The number type of a tensor.
    pub fn float(&self, name: &str) -> Result<FloatType> {
        let dtype = self.tensors[self.name(name)?].dtype;
        Ok(match dtype {
            Dtype::F32 => FloatType::F32,
            Dtype::F16 => FloatType::F16,
            Dtype::BF16 => FloatType::Bf16,
            _ => bail!("{name} is {dtype:?}; only F32, F16 and BF16 can be quantised"),
        })
    }
}

impl View for Stored {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// # Panics
    /// If the file was removed or truncated since its header was read.
    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = vec![0; self.bytes];
        let read = File::open(&self.file).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.position))?;
            file.read_exact(&mut bytes)
        });
        read.unwrap_or_else(|error| panic!("cannot read {}: {error}", self.file.display()));
        bytes.into()
    }

    fn data_len(&self) -> usize {
        self.bytes
    }
}

fn files(folder: &Path) -> Result<BTreeSet<String>> {
    if folder.join(SINGLE).exists() {
        return Ok([SINGLE.into()].into());
    }
    let Ok(index) = fs::read(folder.join(INDEX)) else {
        bail!("{} has no {SINGLE}: expected a folder in Hugging Face's layout", folder.display());
    };
    let index: Value = serde_json::from_slice(&index).with_context(|| INDEX)?;
    let map = index["weight_map"].as_object().with_context(|| format!("{INDEX}: no weight_map"))?;
    Ok(map.values().filter_map(Value::as_str).map(String::from).collect())
}

fn read_header(path: &Path, tensors: &mut BTreeMap<String, Stored>) -> Result<()> {
    let mut file = File::open(path)?;
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let mut json = Vec::new();
    file.take(length).read_to_end(&mut json)?;
    let metadata: Metadata = serde_json::from_slice(&json)?;
    for (name, info) in metadata.tensors() {
        let (start, end) = info.data_offsets;
        let stored = Stored {
            dtype: info.dtype,
            shape: info.shape.clone(),
            file: path.into(),
            position: 8 + length + start as u64,
            bytes: end - start,
        };
        tensors.insert(name, stored);
    }
    Ok(())
}

/// Rounds a number to a type.
pub fn round(float: FloatType, value: f32) -> f32 {
    match float {
        FloatType::F32 => value,
        FloatType::F16 => f16::from_f32(value).to_f32(),
        FloatType::Bf16 => bf16::from_f32(value).to_f32(),
    }
}

/// Encodes numbers for a file.
pub fn encode(float: FloatType, values: &[f32]) -> (Dtype, Vec<u8>) {
    let values = values.iter().copied();
    match float {
        FloatType::F32 => (Dtype::F32, values.flat_map(f32::to_le_bytes).collect()),
        FloatType::F16 => {
            (Dtype::F16, values.flat_map(|x| f16::from_f32(x).to_le_bytes()).collect())
        }
        FloatType::Bf16 => {
            (Dtype::BF16, values.flat_map(|x| bf16::from_f32(x).to_le_bytes()).collect())
        }
    }
}
