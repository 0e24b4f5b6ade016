//! Splits the bytes of a file into pieces of whole rows or columns and passes them to the sink.

use super::Chunk;
use super::header::Header;
use super::jobs::Job;
use super::nested::Nested;
use super::order::Orders;
use super::reader::Reader;
use super::sink::{RepackJob, WeightSink};
use super::source::ByteStream;
use crate::error::{Error, Result};
use std::iter;

/// Small tensors that have to be complete before they can be used.
pub(super) struct Gathered<'a> {
    pub nested: Nested<'a>,
    pub orders: Orders,
}

/// Reads all tensors of a file, from the end of its header on; `jobs` has a list for each. Tensors that
/// share bytes have equal jobs.
///
/// Calls `on_bytes` with the position in the file after each chunk.
pub(super) async fn demultiplex<'a>(
    file: &str,
    header: &'a Header,
    jobs: &'a [Vec<Job>],
    gathered: &mut Gathered<'_>,
    reader: &mut Reader<impl ByteStream>,
    sink: &mut impl WeightSink,
    on_bytes: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut input = Input { file, length: header.end, reader, on_bytes };
    let used = header.tensors.iter().zip(jobs).filter(|(_, jobs)| !jobs.is_empty());
    let used: Vec<_> = used.collect();
    for aliases in used.chunk_by(|(a, _), (b, _)| a.shares_bytes(b)) {
        let (tensor, jobs) = aliases[0];
        input.skip_to(tensor.start).await?;
        for (at, job) in jobs.iter().enumerate() {
            match job {
                Job::Repack(_) => {
                    let repack = |(_, jobs): &(_, &'a Vec<Job>)| match jobs.get(at) {
                        Some(Job::Repack(job)) => Some(job.pieces()),
                        _ => None,
                    };
                    let mut alike: Vec<_> = aliases.iter().filter_map(repack).collect();
                    let of_each = || alike.iter_mut().filter_map(Iterator::next).collect();
                    let all = iter::repeat_with(of_each);
                    for pieces in all.take_while(|pieces: &Vec<RepackJob>| !pieces.is_empty()) {
                        input.stage(&pieces, sink).await?;
                        for piece in &pieces {
                            sink.flush(piece).await?;
                        }
                    }
                }
                Job::Nested(job) => {
                    let mut bytes = vec![0; job.bytes];
                    input.reader.fill(file, &mut bytes).await?;
                    gathered.nested.take(&tensor.name, *job, bytes, sink).await?;
                }
                Job::Order(job) => {
                    let mut bytes = vec![0; 4 * job.columns];
                    input.reader.fill(file, &mut bytes).await?;
                    gathered.orders.take(tensor, *job, &bytes)?;
                }
            }
        }
    }
    input.skip_to(header.end).await
}

struct Input<'a, S> {
    file: &'a str,
    /// Bytes of the whole file.
    length: u64,
    reader: &'a mut Reader<S>,
    on_bytes: &'a mut dyn FnMut(u64) -> Result<()>,
}

impl<S: ByteStream> Input<'_, S> {
    async fn next(&mut self, limit: u64) -> Result<Chunk> {
        let Some(chunk) = self.reader.next(limit).await? else {
            return Err(Error::Truncated {
                what: self.file.into(),
                expected: self.length,
                found: self.reader.position(),
            });
        };
        (self.on_bytes)(self.reader.position())?;
        Ok(chunk)
    }

    async fn skip_to(&mut self, position: u64) -> Result<()> {
        while self.reader.position() < position {
            self.next(position - self.reader.position()).await?;
        }
        Ok(())
    }

    /// Stages the bytes of a piece in whole words, regardless of chunk boundaries, for all jobs that
    /// use these bytes.
    async fn stage(&mut self, pieces: &[RepackJob], sink: &mut impl WeightSink) -> Result<()> {
        let bytes = pieces.first().map_or(0, RepackJob::bytes);
        let mut stage = |staged: u64, chunk: &Chunk| {
            pieces.iter().try_for_each(|piece| sink.stage(piece, staged, chunk))
        };
        let mut staged = 0; // a multiple of 4
        let mut word = Vec::with_capacity(4); // bytes read and not staged, fewer than 4
        while staged + (word.len() as u64) < bytes {
            let mut chunk = self.next(bytes - staged - word.len() as u64).await?;
            if !word.is_empty() {
                let taken = chunk.len().min(4 - word.len());
                append(&mut word, &chunk.slice(0..taken));
                chunk = chunk.slice(taken..chunk.len());
                if word.len() == 4 {
                    stage(staged, &std::mem::take(&mut word).into())?;
                    staged += 4;
                }
            }
            let whole = chunk.len() & !3;
            if whole > 0 {
                stage(staged, &chunk.slice(0..whole))?;
                staged += whole as u64;
            }
            append(&mut word, &chunk.slice(whole..chunk.len()));
        }
        if !word.is_empty() {
            word.resize(4, 0);
            stage(staged, &word.into())?;
        }
        Ok(())
    }
}

fn append(word: &mut Vec<u8>, chunk: &Chunk) {
    let start = word.len();
    word.resize(start + chunk.len(), 0);
    chunk.copy_to(&mut word[start..]);
}
