//! The safetensors files of a model: their headers first, then their bytes.

use super::plan::{LoadPlan, Quantise};
use super::reader::Reader;
use super::safetensors::Header;
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
}

struct Shard<S> {
    file: String,
    header: Header,
    /// At the first tensor's byte. Only the first shard's stream stays open while the other
    /// headers are read, so that a single file is fetched once and no connections pile up.
    reader: Option<Reader<S>>,
}

impl<'a, S: Source> Checkpoint<'a, S> {
    /// Reads the header of `model.safetensors`, or of each shard that its index names.
    pub async fn open(source: &'a S) -> Result<Checkpoint<'a, S>> {
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
        Ok(Checkpoint { source, shards })
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
        let total = self.shards.iter().map(|shard| shard.header.file_bytes()).sum();
        let mut before = 0;
        for (shard, jobs) in self.shards.into_iter().zip(&plan.jobs) {
            let Shard { file, header, reader } = shard;
            let mut reader = match reader {
                Some(reader) => reader,
                None => reopen(self.source, &file, &header).await?,
            };
            let mut on_bytes = |position| {
                let progress = Progress { file: &file, loaded: before + position, total };
                match on_progress(progress) {
                    ControlFlow::Continue(()) => Ok(()),
                    ControlFlow::Break(()) => Err(Error::Aborted),
                }
            };
            stream::demultiplex(&file, &header, jobs, &mut reader, sink, &mut on_bytes).await?;
            before += header.file_bytes();
        }
        sink.finish().await
    }
}

impl<S: super::ByteStream> Shard<S> {
    async fn read(file: String, stream: S) -> Result<Shard<S>> {
        let mut reader = Reader::new(stream);
        let header = Header::read(&file, &mut reader).await?;
        Ok(Shard { file, header, reader: Some(reader) })
    }
}

async fn reopen<S: Source>(source: &S, file: &str, header: &Header) -> Result<Reader<S::Stream>> {
    let stream = source.open(file).await?.ok_or_else(|| missing(source, file))?;
    let mut reader = Reader::new(stream);
    if Header::read(file, &mut reader).await? != *header {
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
