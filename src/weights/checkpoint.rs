//! The files of a model's weights: their headers first, then their bytes.

use super::gguf::{self, Metadata};
use super::header::{Header, TensorInfo};
use super::nested::Nested;
use super::order::Orders;
use super::plan::{LoadPlan, Quantise};
use super::reader::Reader;
use super::safetensors;
use super::sink::WeightSink;
use super::source::{Length, Source, missing};
use super::stream::{self, Gathered};
use super::torch;
use crate::error::{Error, Result};
use crate::model::json::Fields;
use crate::model::{ModelConfig, ParamSpec, Quantization};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Medusa's file name for a draft head; safetensors files are preferred.
const MEDUSA: &str = "medusa_lm_head.safetensors";
const TORCH: [&str; 2] = ["pytorch_model.bin", "medusa_lm_head.pt"];

/// Progress of loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file being read.
    pub file: &'a str,
    /// Bytes read so far, of all files.
    pub loaded: u64,
    /// Total bytes of all files.
    pub total: u64,
}

/// A checkpoint whose headers have been read.
pub struct Checkpoint<'a, S: Source> {
    source: &'a S,
    shards: Vec<Shard<S::Stream>>,
    /// Metadata of a GGUF file; of split ones, of the first part.
    metadata: Option<Metadata>,
}

struct Shard<S> {
    file: String,
    header: Header,
    /// At the first tensor's byte. Only the first shard's stream stays open while the other headers are
    /// read: a single file is fetched once, and connections do not pile up.
    reader: Option<Reader<S>>,
    format: Format,
}

/// Format of a weights file: what follows its last tensor.
enum Format {
    /// Nothing.
    Safetensors,
    /// Bytes that mean nothing.
    Gguf,
    /// These bytes.
    Torch(Vec<u8>),
}

impl<'a, S: Source> Checkpoint<'a, S> {
    /// Reads the headers: of the source's GGUF file and its other parts, or of `model.safetensors`, or
    /// of each shard in the index.
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
        let format = Format::Gguf;
        let mut shards = vec![Shard { file: file.into(), header, reader: Some(reader), format }];
        for (number, file) in gguf::other_parts(file, &metadata)? {
            let stream = source.open(&file).await?.ok_or_else(|| missing(source, &file))?;
            let (part, header) = gguf::read(&file, &mut Reader::new(stream)).await?;
            gguf::expect_part(&file, &part, number)?;
            shards.push(Shard { file, header, reader: None, format: Format::Gguf });
        }
        Ok(Checkpoint { source, shards, metadata: Some(metadata) })
    }

    /// Reads the header of a draft head's file, or of the target's files if the head is inside.
    pub async fn open_draft(source: &'a S) -> Result<Checkpoint<'a, S>> {
        let error = match Checkpoint::open_safetensors(source).await {
            // A server may answer with a page if a file does not exist.
            Err(error @ (Error::Fetch { .. } | Error::Malformed { .. })) => error,
            result => return result,
        };
        let alone = |shard| Checkpoint { source, shards: vec![shard], metadata: None };
        if let Some(stream) = open_optional(source, MEDUSA).await? {
            return Shard::read(MEDUSA.into(), stream).await.map(alone);
        }
        for file in TORCH {
            if let Some(stream) = open_optional(source, file).await? {
                let torch::Archive { header, directory } =
                    torch::read(source, file, stream).await?;
                let format = Format::Torch(directory);
                return Ok(alone(Shard { file: file.into(), header, reader: None, format }));
            }
        }
        Err(error)
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

    /// The model's configuration, if the files contain it (GGUF).
    pub fn config(&self) -> Result<Option<ModelConfig>> {
        let config = |metadata| {
            let file = self.shards.first().map_or("", |shard| &shard.file);
            ModelConfig::from_gguf(file, metadata, |tensor| self.shape(tensor))
        };
        self.metadata.as_ref().map(config).transpose()
    }

    /// The shape of a tensor, row length last; `None` if there is no such tensor.
    fn shape(&self, tensor: &str) -> Option<&[u64]> {
        self.tensors().find(|info| info.name == tensor).map(|info| &info.shape[..])
    }

    /// Plans how the checkpoint fills a model's weights.
    pub fn plan(
        &self,
        config: &ModelConfig,
        quantization: Option<Quantization>,
        quantise: &Quantise,
    ) -> Result<LoadPlan> {
        let headers: Vec<&Header> = self.shards.iter().map(|shard| &shard.header).collect();
        LoadPlan::new(config, quantization, quantise, &headers)
    }

    /// Plans how the checkpoint fills other weights than those of a [`ModelConfig`].
    pub fn plan_params(
        &self,
        params: &[ParamSpec],
        quantization: Option<Quantization>,
        quantise: &Quantise,
    ) -> Result<LoadPlan> {
        let headers: Vec<&Header> = self.shards.iter().map(|shard| &shard.header).collect();
        LoadPlan::of(params, quantization, quantise, &headers)
    }

    /// All tensors, in the order of files and bytes.
    pub fn tensors(&self) -> impl Iterator<Item = &TensorInfo> + Clone {
        self.shards.iter().flat_map(|shard| &shard.header.tensors)
    }

    /// Reads the bytes of a tensor of bounded size, before the checkpoint is loaded.
    pub(super) async fn read_tensor(&mut self, name: &str) -> Result<Vec<u8>> {
        // Only one stream at a time.
        self.shards.iter_mut().for_each(|shard| shard.reader = None);
        for Shard { file, header, .. } in &self.shards {
            if let Some(tensor) = header.tensors.iter().find(|tensor| tensor.name == name) {
                let opened = self.source.open_near(file, tensor.start).await?;
                let (stream, start) = opened.ok_or_else(|| missing(self.source, file))?;
                let mut reader = Reader::starting_at(stream, start);
                reader.skip_to(file, tensor.start).await?;
                return reader.take(file, tensor.bytes).await;
            }
        }
        Err(Error::MissingTensor { name: name.into() })
    }

    /// Bytes of its files.
    pub fn file_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.header.end).sum()
    }

    /// Streams all files into `sink`, according to a plan for this checkpoint.
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
        let total = self.file_bytes();
        let mut gathered =
            Gathered { nested: Nested::new(&plan.nested), orders: Orders::default() };
        let mut before = 0;
        for (shard, jobs) in self.shards.into_iter().zip(&plan.jobs) {
            let Shard { file, header, reader, format } = shard;
            let mut reader = match reader {
                Some(reader) => reader,
                None => reopen(self.source, &file, &header, &format).await?,
            };
            let mut on_bytes = |position| {
                let progress = Progress { file: &file, loaded: before + position, total };
                match on_progress(progress) {
                    ControlFlow::Continue(()) => Ok(()),
                    ControlFlow::Break(()) => Err(Error::Aborted),
                }
            };
            let parts = &mut gathered;
            stream::demultiplex(&file, &header, jobs, parts, &mut reader, sink, &mut on_bytes)
                .await?;
            format.read_end(&file, &mut reader, &mut || on_bytes(header.end)).await?;
            before += header.end;
        }
        gathered.orders.apply(sink).await?;
        sink.finish().await
    }
}

impl Format {
    /// Reads a file to its end from the end of its tensors on. Only there can a source check its digest,
    /// and store the last bytes.
    async fn read_end(
        &self,
        file: &str,
        reader: &mut Reader<impl super::ByteStream>,
        on_bytes: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let position = reader.position();
        let directory = if let Format::Torch(directory) = self { &directory[..] } else { &[] };
        let mut rest = directory;
        let mut is_other = false;
        while let Some(chunk) = reader.next(u64::MAX).await? {
            on_bytes()?;
            let mut bytes = vec![0; chunk.len().min(rest.len())];
            chunk.slice(0..bytes.len()).copy_to(&mut bytes);
            is_other |= bytes.len() < chunk.len() || !rest.starts_with(&bytes);
            rest = &rest[bytes.len()..];
        }
        let malformed = |expected: &str, found: String| {
            Err(Error::Malformed { what: file.into(), expected: expected.into(), found })
        };
        match self {
            Format::Safetensors if is_other => malformed(
                "safetensors file",
                format!("it goes on after its last tensor ends at byte {position}"),
            ),
            Format::Torch(_) if is_other || !rest.is_empty() => malformed(
                "PyTorch file of tensors",
                "the file changed while it was loading. Load it again".into(),
            ),
            _ => Ok(()),
        }
    }
}

impl<S: super::ByteStream> Shard<S> {
    async fn read(file: String, stream: S) -> Result<Shard<S>> {
        let mut reader = Reader::new(stream);
        let header = safetensors::read(&file, &mut reader).await?;
        Ok(Shard { file, header, reader: Some(reader), format: Format::Safetensors })
    }
}

/// Opens a file that may be missing.
async fn open_optional<S: Source>(source: &S, file: &str) -> Result<Option<S::Stream>> {
    match source.open(file).await {
        Err(Error::Malformed { .. }) => Ok(None),
        opened => opened,
    }
}

async fn reopen<S: Source>(
    source: &S,
    file: &str,
    header: &Header,
    format: &Format,
) -> Result<Reader<S::Stream>> {
    let stream = source.open(file).await?.ok_or_else(|| missing(source, file))?;
    let mut reader = Reader::new(stream);
    let found = match format {
        Format::Gguf => gguf::read(file, &mut reader).await?.1,
        Format::Safetensors => safetensors::read(file, &mut reader).await?,
        Format::Torch(directory) => {
            // The end of the file shows whether it is the same file.
            reader.expect(Length::Exactly(header.end + directory.len() as u64));
            return Ok(reader);
        }
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

/// The file names in an index, in order.
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

/// Whether a name stays within its folder.
fn is_plain(file: &str) -> bool {
    let leads_away = |c: char| r"/\:".contains(c) || c.is_control();
    !file.starts_with('.') && !file.is_empty() && !file.contains(leads_away)
}
