//! Quantised scales, assembled once all their parts have been read.
//!
//! bitsandbytes' double quantisation: scale = map\[code\]·scale of 256 codes + offset. The parts are
//! small, one byte per 64 weights; those of a matrix are close together in a file.

use super::sink::{RepackJob, WeightSink};
use crate::error::{Error, Result};
use serde::Deserialize;

/// A part of the scales of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NestedPart {
    /// `[scales]` bytes.
    Codes,
    /// `[256]` f32, the values of codes.
    Map,
    /// `[⌈scales / 256⌉]` f32.
    Factors,
    /// A JSON object as bytes.
    State,
}

/// A tensor with such a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NestedJob {
    pub part: NestedPart,
    /// Index of the matrix in [`super::LoadPlan::nested`].
    pub index: usize,
    /// Bytes of the tensor.
    pub bytes: usize,
}

/// Codes per factor.
pub(super) const BLOCK: usize = 256;

/// The parts of all matrices' scales that have been read.
pub(super) struct Nested<'a> {
    /// Per matrix, the job that fills its scales, as f32.
    jobs: &'a [RepackJob],
    parts: Vec<Parts>,
}

#[derive(Clone, Default)]
struct Parts {
    codes: Option<Vec<u8>>,
    map: Option<Vec<u8>>,
    factors: Option<Vec<u8>>,
    offset: Option<f32>,
}

#[derive(Deserialize)]
struct State {
    nested_blocksize: usize,
    nested_offset: f32,
}

impl<'a> Nested<'a> {
    pub fn new(jobs: &'a [RepackJob]) -> Nested<'a> {
        Nested { jobs, parts: vec![Parts::default(); jobs.len()] }
    }

    /// Adds a part; with the last one of a matrix, its scales go to the sink.
    pub async fn take(
        &mut self,
        name: &str,
        job: NestedJob,
        bytes: Vec<u8>,
        sink: &mut impl WeightSink,
    ) -> Result<()> {
        let parts = &mut self.parts[job.index];
        match job.part {
            NestedPart::Codes => parts.codes = Some(bytes),
            NestedPart::Map => parts.map = Some(bytes),
            NestedPart::Factors => parts.factors = Some(bytes),
            NestedPart::State => parts.offset = Some(offset(name, &bytes)?),
        }
        let Some(scales) = parts.scales() else { return Ok(()) };
        *parts = Parts::default();
        for piece in self.jobs[job.index].pieces() {
            let first = piece.first_row - self.jobs[job.index].first_row;
            let scales = &scales[first * piece.columns..][..piece.rows * piece.columns];
            let bytes: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
            sink.stage(&piece, 0, &bytes.into())?;
            sink.flush(&piece).await?;
        }
        Ok(())
    }
}

impl Parts {
    fn scales(&self) -> Option<Vec<f32>> {
        let floats = |bytes: &[u8]| -> Vec<f32> {
            bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        };
        let (codes, offset) = (self.codes.as_ref()?, self.offset?);
        let (map, factors) = (floats(self.map.as_ref()?), floats(self.factors.as_ref()?));
        let scale = |(i, code): (usize, &u8)| map[usize::from(*code)] * factors[i / BLOCK] + offset;
        Some(codes.iter().enumerate().map(scale).collect())
    }
}

fn offset(name: &str, json: &[u8]) -> Result<f32> {
    let malformed = |found: String| Error::Malformed {
        what: name.into(),
        expected: "state of bitsandbytes' quantisation".into(),
        found,
    };
    let state: State =
        serde_json::from_slice(json).map_err(|error| malformed(error.to_string()))?;
    match state.nested_blocksize {
        BLOCK => Ok(state.nested_offset),
        found => Err(malformed(format!("its nested_blocksize is {found}, expected {BLOCK}"))),
    }
}
