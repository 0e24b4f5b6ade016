//! The stream: pieces, alignment, progress, and how often files are opened.

use super::*;
use crate::layout::FloatType;
use crate::model::Param;
use std::ops::Range;

#[test]
fn chunk_sizes_do_not_matter() {
    let whole = load(&tiny_source(), &Quantise::KEEP).unwrap();
    for chunk in [1, 2, 3, 5, 7, 64, 1021, 1 << 20] {
        for tells_length in [true, false] {
            let source = MemorySource { chunk, tells_length, ..tiny_source() };
            assert_eq!(load(&source, &Quantise::KEEP).unwrap(), whole, "chunks of {chunk}");
        }
    }
    let sharded = MemorySource { chunk: 13, ..sharded_source() };
    assert_eq!(load(&sharded, &Quantise::KEEP).unwrap(), whole);
}

#[test]
fn a_single_file_is_opened_once_and_a_shard_at_most_twice() {
    let opened = |source: MemorySource| {
        load(&source, &Quantise::KEEP).unwrap();
        source.opened.into_inner()
    };
    assert_eq!(opened(tiny_source()), ["config.json", "model.safetensors"]);
    let files = [
        "config.json",
        "model.safetensors",
        "model.safetensors.index.json",
        "a.safetensors",
        "b.safetensors",
        "b.safetensors",
    ];
    assert_eq!(opened(sharded_source()), files);
}

#[test]
fn progress_grows_to_the_total() {
    let source = sharded_source();
    let bytes: usize =
        ["a.safetensors", "b.safetensors"].map(|f| source.files[f].len()).iter().sum();
    let mut loaded = Vec::new();
    load_observed(&source, &Quantise::KEEP, |progress| {
        assert_eq!(progress.total, bytes as u64);
        loaded.push((progress.loaded, progress.file.to_string()));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(loaded.is_sorted());
    assert_eq!(loaded.last(), Some(&(bytes as u64, "b.safetensors".to_string())));
    assert!(loaded.len() > 5, "each chunk is reported");
}

#[test]
fn a_load_stops_when_the_callback_breaks() {
    let calls = Cell::new(0);
    let stopped = load_observed(&tiny_source(), &Quantise::KEEP, |_| {
        calls.set(calls.get() + 1);
        if calls.get() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(stopped, Err(Error::Aborted));
    assert_eq!(calls.get(), 3);
}

/// Records the calls of a sink, and the staged bytes.
#[derive(Default)]
struct Recorder {
    staged: Vec<u8>,
    jobs: Vec<(RepackJob, Vec<u8>)>,
    finished: bool,
}

impl WeightSink for Recorder {
    async fn create(&mut self, weights: &[Weight]) -> Result<()> {
        assert_eq!(weights.len(), 9);
        Ok(())
    }

    fn stage(&mut self, _: &RepackJob, offset: u64, bytes: &Chunk) -> Result<()> {
        assert_eq!(offset, self.staged.len() as u64, "offsets have no gap");
        assert!(bytes.len().is_multiple_of(4) && !bytes.is_empty(), "whole words");
        self.staged.extend(bytes.as_slice());
        assert!(self.staged.len() as u64 <= PIECE_BYTES);
        Ok(())
    }

    async fn flush(&mut self, job: &RepackJob) -> Result<()> {
        self.jobs.push((*job, std::mem::take(&mut self.staged)));
        Ok(())
    }

    async fn reorder(&mut self, _: Param, _: Range<usize>, _: &[u32]) -> Result<()> {
        panic!("no matrix is reordered")
    }

    async fn finish(&mut self) -> Result<()> {
        assert!(self.staged.is_empty());
        self.finished = true;
        Ok(())
    }
}

#[test]
fn sinks_get_whole_words_of_whole_rows() {
    // f16 in odd sizes: tensors start and end within words, chunks within f16.
    let mut tensors = tiny_tensors();
    for (_, dtype, _, bytes) in &mut tensors {
        *dtype = Dtype::BF16;
        *bytes = bytes.chunks(4).flat_map(|value| [value[2], value[3]]).collect();
    }
    let by_name: HashMap<_, _> = tensors.iter().map(|t| (t.0.clone(), t.3.clone())).collect();
    let mut source = tiny_source();
    *source.file("model.safetensors") = serialized(&tensors);
    for chunk in [1, 3, 10, 4096] {
        source.chunk = chunk;
        let config = ModelConfig::from_json(&source.files["config.json"]).unwrap();
        let mut recorder = Recorder::default();
        block_on(async {
            let checkpoint = Checkpoint::open(&source).await?;
            let plan = checkpoint.plan(&config, None, &Quantise::KEEP)?;
            checkpoint.load(&plan, &mut recorder, |_| ControlFlow::Continue(())).await
        })
        .unwrap();
        assert!(recorder.finished);
        assert_eq!(recorder.jobs.len(), TINY.len());
        for spec in config.params() {
            let mut first_row = 0;
            for part in &spec.sources {
                let place = |(job, _): &&(RepackJob, _)| {
                    job.param == spec.param && job.first_row == first_row
                };
                let (job, bytes) = recorder.jobs.iter().find(place).unwrap();
                assert_eq!(job.encoding, Encoding::Float(FloatType::Bf16));
                assert_eq!(job.rows, part.rows);
                let mut expected = by_name[&part.name].clone();
                assert_eq!(job.bytes(), expected.len() as u64);
                expected.resize(expected.len().next_multiple_of(4), 0);
                assert_eq!(*bytes, expected, "{}", part.name);
                first_row += part.rows;
            }
        }
    }
}
