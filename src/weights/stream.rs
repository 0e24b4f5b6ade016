//! Cuts the bytes of a file into pieces of whole rows and hands them to the sink.

use super::Chunk;
use super::header::Header;
use super::reader::Reader;
use super::sink::{PIECE_BYTES, RepackJob, WeightSink};
use super::source::ByteStream;
use crate::error::{Error, Result};

/// Reads all tensors of a file, from behind its header; `jobs` has one entry for each.
///
/// `on_bytes` hears the position in the file after each chunk.
pub(super) async fn demultiplex(
    file: &str,
    header: &Header,
    jobs: &[Option<RepackJob>],
    reader: &mut Reader<impl ByteStream>,
    sink: &mut impl WeightSink,
    on_bytes: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut input = Input { file, length: header.end, reader, on_bytes };
    for (tensor, job) in header.tensors.iter().zip(jobs) {
        let Some(job) = job else { continue };
        input.skip_to(tensor.start).await?;
        for piece in pieces(job) {
            input.stage(piece.bytes(), sink).await?;
            sink.flush(&piece).await?;
        }
    }
    input.skip_to(header.end).await
}

/// Splits a tensor's job into jobs of whole rows and at most [`PIECE_BYTES`].
fn pieces(job: &RepackJob) -> impl Iterator<Item = RepackJob> {
    let unit = job.row_unit();
    let most = PIECE_BYTES / job.encoding.bytes(unit, job.columns);
    let step = (most.max(1) as usize).saturating_mul(unit);
    (0..job.rows).step_by(step).map(move |row| RepackJob {
        first_row: job.first_row + row,
        rows: step.min(job.rows - row),
        ..*job
    })
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

    /// Stages the next `bytes` bytes in runs of whole words, wherever the stream's chunks end.
    async fn stage(&mut self, bytes: u64, sink: &mut impl WeightSink) -> Result<()> {
        let mut staged = 0; // a multiple of 4
        let mut word = Vec::with_capacity(4); // bytes read and not staged, fewer than 4
        while staged + (word.len() as u64) < bytes {
            let mut chunk = self.next(bytes - staged - word.len() as u64).await?;
            if !word.is_empty() {
                let taken = chunk.len().min(4 - word.len());
                append(&mut word, &chunk.slice(0..taken));
                chunk = chunk.slice(taken..chunk.len());
                if word.len() == 4 {
                    sink.stage(staged, &std::mem::take(&mut word).into())?;
                    staged += 4;
                }
            }
            let whole = chunk.len() & !3;
            if whole > 0 {
                sink.stage(staged, &chunk.slice(0..whole))?;
                staged += whole as u64;
            }
            append(&mut word, &chunk.slice(whole..chunk.len()));
        }
        if !word.is_empty() {
            word.resize(4, 0);
            sink.stage(staged, &word.into())?;
        }
        Ok(())
    }
}

fn append(word: &mut Vec<u8>, chunk: &Chunk) {
    let start = word.len();
    word.resize(start + chunk.len(), 0);
    chunk.copy_to(&mut word[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Param;
    use crate::weights::{Encoding, FloatType};

    #[test]
    fn pieces_cover_a_tensor_in_whole_units_of_bounded_size() {
        let float = FloatType::Bf16;
        for (encoding, rows, columns, expected) in [
            (Encoding::Float(float), 128_256, 2048, 63),
            (Encoding::Float(FloatType::F32), 3, 1 << 18, 1),
            (Encoding::Float(float), 4096, 1, 1),
            (Encoding::Nibbles, 100_000, 4095, 25),
            (Encoding::Scales { float, symmetric: false }, 1 << 21, 16, 8),
            (Encoding::ZeroPoints, 3_000_001, 20, 4),
        ] {
            let (param, first_row) = (Param::GateUp(0), 172);
            let job = RepackJob { param, encoding, first_row, rows, columns, interleaved: None };
            let mut row = first_row;
            let mut bytes = 0;
            let mut count = 0;
            for piece in pieces(&job) {
                assert_eq!((piece.first_row, piece.columns), (row, columns));
                assert!(piece.bytes() <= PIECE_BYTES && piece.rows > 0);
                row += piece.rows;
                bytes += piece.bytes();
                count += 1;
                assert!((row - first_row).is_multiple_of(job.row_unit()) || count == expected);
            }
            assert_eq!((row - first_row, bytes, count), (rows, job.bytes(), expected));
        }
    }
}
