//! The files of a model's weights: their headers first, then their bytes.

use super::gguf::{self, Metadata};
use super::header::Header;
use super::nested::Nested;
use super::plan::{LoadPlan, Quantise};
use super::reader::Reader;
use super::safetensors;
use super::sink::WeightSink;
use super::source::{Source, missing};
use super::stream;
use crate::error::{Error, Result};
use crate::model::json::Fields;
use crate::model::{ModelConfig, Quantization};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// How far loading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file being read.
    pub file: &'a str,
    /// Bytes read of all files together.
    pub loaded: u64,
    /// Bytes of all files together.
    pub total: u64,
}

/// A checkpoint whose headers have been read.
pub struct Checkpoint<'a, S: Source> {
    source: &'a S,
    shards: Vec<Shard<S::Stream>>,
    /// Of GGUF files, those of the first.
    metadata: Option<Metadata>,
}

struct Shard<S> {
    file: String,
    header: Header,
    /// At the first tensor's byte. Only the first shard's stream stays open while the other
    /// headers are read, so that a single file is fetched once and no connections pile up.
    reader: Option<Reader<S>>,
}

impl<'a, S: Source> Checkpoint<'a, S> {
    /// Reads the header of the source's GGUF file and of its other parts; else of
    /// `model.safetensors`, or of each shard that its index names.
    pub async fn open(source: &'a S) -> Result<Checkpoint<'a, S>> {
        match source.gguf() {
            Some(file) => Checkpoint::open_gguf(source, file).await,
            None => Checkpoint::open_safetensors(source).await,
        }
    }

    async fn open_gguf(source: &'a S, file: &str) -> Result<Checkpoint<'a, S>> {
        let stream = source.open(file).await?.ok_or_else(|| missing(source, file))?;
        let mut reader = Reader::new(stream);
        let (metadata, header) = gguf::read(file, &mut reader).await?;
        let mut shards = vec![Shard { file: file.into(), header, reader: Some(reader) }];
        for (number, file) in gguf::other_parts(file, &metadata)? {
            let stream = source.open(&file).await?.ok_or_else(|| missing(source, &file))?;
            let (part, header) = gguf::read(&file, &mut Reader::new(stream)).await?;
            gguf::expect_part(&file, &part, number)?;
            shards.push(Shard { file, header, reader: None });
        }
        Ok(Checkpoint { source, shards, metadata: Some(metadata) })
    }

    async fn open_safetensors(source: &'a S) -> Result<Checkpoint<'a, S>> {
        let single = match source.open(SINGLE).await {
            Ok(Some(stream)) => Ok(stream),
            Ok(None) => Err(missing(source, SINGLE)),
            Err(error) => Err(error),
        };
        let mut shards = Vec::new();
        match single {
            Ok(stream) => shards.push(Shard::read(SINGLE.into(), stream).await?),
            Err(error) => {
                let index = source.read_optional(INDEX).await?.ok_or(error)?;
                for file in shard_names(&index)? {
                    let stream = source.open(&file).await?.ok_or_else(|| missing(source, &file))?;
                    let mut shard = Shard::read(file, stream).await?;
                    if !shards.is_empty() {
                        shard.reader = None;
                    }
                    shards.push(shard);
                }
            }
        }
        Ok(Checkpoint { source, shards, metadata: None })
    }

    /// The metadata of a GGUF file.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// The model's configuration, if its files have it: those of GGUF do.
    pub fn config(&self) -> Result<Option<ModelConfig>> {
        let config = |metadata| {
            let file = self.shards.first().map_or("", |shard| &shard.file);
            ModelConfig::from_gguf(file, metadata, |tensor| self.shape(tensor))
        };
        self.metadata.as_ref().map(config).transpose()
    }

    /// The shape of a tensor, the length of a row last; `None` if there is no such tensor.
    fn shape(&self, tensor: &str) -> Option<&[u64]> {
        let mut tensors = self.shards.iter().flat_map(|shard| &shard.header.tensors);
        tensors.find(|info| info.name == tensor).map(|info| &info.shape[..])
    }

    /// Plans how the checkpoint fills a model.
    pub fn plan(
        &self,
        config: &ModelConfig,
        quantization: Option<Quantization>,
        quantise: &Quantise,
    ) -> Result<LoadPlan> {
        let headers: Vec<&Header> = self.shards.iter().map(|shard| &shard.header).collect();
        LoadPlan::new(config, quantization, quantise, &headers)
    }

    /// Streams all files into `sink` as a plan of this checkpoint says.
    ///
    /// `on_progress` is called after each chunk; [`ControlFlow::Break`] ends the load with
    /// [`Error::Aborted`].
    pub async fn load(
        self,
        plan: &LoadPlan,
        sink: &mut impl WeightSink,
        mut on_progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<()> {
        sink.create(&plan.weights).await?;
        let total = self.shards.iter().map(|shard| shard.header.end).sum();
        let is_gguf = self.metadata.is_some();
        let mut nested = Nested::new(&plan.nested);
        let mut before = 0;
        for (shard, jobs) in self.shards.into_iter().zip(&plan.jobs) {
            let Shard { file, header, reader } = shard;
            let mut reader = match reader {
                Some(reader) => reader,
                None => reopen(self.source, &file, &header, is_gguf).await?,
            };
            let mut on_bytes = |position| {
                let progress = Progress { file: &file, loaded: before + position, total };
                match on_progress(progress) {
                    ControlFlow::Continue(()) => Ok(()),
                    ControlFlow::Break(()) => Err(Error::Aborted),
                }
            };
            let parts = &mut nested;
            stream::demultiplex(&file, &header, jobs, parts, &mut reader, sink, &mut on_bytes)
                .await?;
            if !is_gguf {
                safetensors::expect_end(&file, &mut reader).await?;
            }
            before += header.end;
        }
        sink.finish().await
    }
}

impl<S: super::ByteStream> Shard<S> {
    async fn read(file: String, stream: S) -> Result<Shard<S>> {
        let mut reader = Reader::new(stream);
        let header = safetensors::read(&file, &mut reader).await?;
        Ok(Shard { file, header, reader: Some(reader) })
    }
}

async fn reopen<S: Source>(
    source: &S,
    file: &str,
    header: &Header,
    is_gguf: bool,
) -> Result<Reader<S::Stream>> {
    let stream = source.open(file).await?.ok_or_else(|| missing(source, file))?;
    let mut reader = Reader::new(stream);
    let found = match is_gguf {
        true => gguf::read(file, &mut reader).await?.1,
        false => safetensors::read(file, &mut reader).await?,
    };
    if found != *header {
        return Err(Error::Malformed {
            what: file.into(),
            expected: "shard of this checkpoint".into(),
            found: "the file changed while the model was loading. Load it again".into(),
        });
    }
    Ok(reader)
}

/// The files that an index names, in order.
fn shard_names(index: &[u8]) -> Result<BTreeSet<String>> {
    let fields = Fields::parse(INDEX, index)?;
    let expected = "a map from tensor names to files of the same folder";
    let map = fields.object("weight_map")?.ok_or_else(|| fields.invalid("weight_map", expected))?;
    map.names()
        .map(|name| match map.get(name).and_then(Value::as_str) {
            Some(file) if is_plain(file) => Ok(file.into()),
            _ => Err(map.invalid(name, "the name of a file in the same folder")),
        })
        .collect()
}

/// Whether a name stays within its folder, as a path and as an address.
fn is_plain(file: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !file.starts_with('.') && !file.is_empty() && file.chars().all(allowed)
}
