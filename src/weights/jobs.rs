//! The jobs of each tensor of a checkpoint, as far as planned.

use super::header::{Header, TensorInfo};
use super::nested::{NestedJob, NestedPart};
use super::order::OrderJob;
use super::sink::{PIECE_BYTES, RepackJob};
use crate::error::{Error, Result};
use crate::layout::FloatType;
use crate::model::Slice;
use std::collections::HashMap;

/// What a tensor is used for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Job {
    Repack(RepackJob),
    Nested(NestedJob),
    Order(OrderJob),
}

impl Job {
    /// Whether another job converts the same bytes in the same way, for another weight.
    fn is_alike(&self, other: &Job) -> bool {
        match (self, other) {
            (Job::Repack(job), Job::Repack(other)) => {
                let RepackJob { param, first_row, .. } = *other;
                RepackJob { param, first_row, ..*job } == *other
            }
            _ => false,
        }
    }
}

/// A tensor and its location: file, index in the file.
pub(super) type Place<'a> = (&'a TensorInfo, usize, usize);

/// The tensors of a checkpoint by name, and the jobs of each.
pub(super) struct Jobs<'a> {
    tensors: HashMap<&'a str, Place<'a>>,
    /// `[file][tensor]`, in header order.
    pub jobs: Vec<Vec<Vec<Job>>>,
    /// Scales that have to be assembled before they can be repacked.
    pub nested: Vec<RepackJob>,
}

impl<'a> Jobs<'a> {
    pub fn new(headers: &[&'a Header]) -> Result<Jobs<'a>> {
        let mut tensors = HashMap::new();
        for (file, header) in headers.iter().enumerate() {
            for (index, tensor) in header.tensors.iter().enumerate() {
                if tensors.insert(tensor.name.as_str(), (tensor, file, index)).is_some() {
                    return Err(Error::Malformed {
                        what: "the checkpoint".into(),
                        expected: "set of shards".into(),
                        found: format!("two shards hold the tensor {:?}", tensor.name),
                    });
                }
            }
        }
        let jobs = headers.iter().map(|header| vec![Vec::new(); header.tensors.len()]).collect();
        Ok(Jobs { tensors, jobs, nested: Vec::new() })
    }

    /// Finds a tensor; base models are saved without the prefix `model.` or `transformer.`.
    pub fn find(&self, name: &str) -> Option<Place<'a>> {
        let short = || {
            let prefix =
                ["model.", "transformer."].into_iter().find(|prefix| name.starts_with(prefix));
            self.tensors.get(&name[prefix?.len()..])
        };
        let long = || self.tensors.get(&format!("language_model.{name}")[..]);
        self.tensors.get(name).or_else(short).or_else(long).copied()
    }

    pub fn get(&self, name: &str) -> Result<Place<'a>> {
        self.find(name).ok_or_else(|| Error::MissingTensor { name: name.into() })
    }

    pub fn add(&mut self, (tensor, file, index): Place<'a>, job: RepackJob) -> Result<()> {
        ensure_piece(tensor, job.unit_bytes())?;
        self.jobs[file][index].push(Job::Repack(job));
        Ok(())
    }

    /// Plans scales that have to be assembled; returns their index.
    pub fn add_nested(&mut self, job: RepackJob) -> usize {
        self.nested.push(job);
        self.nested.len() - 1
    }

    pub fn add_order(&mut self, (_, file, place): Place<'a>, job: OrderJob) {
        self.jobs[file][place].push(Job::Order(job));
    }

    pub fn add_nested_part(
        &mut self,
        (tensor, file, place): Place<'a>,
        part: NestedPart,
        index: usize,
    ) -> Result<()> {
        ensure_piece(tensor, tensor.bytes)?;
        let bytes = tensor.bytes as usize;
        self.jobs[file][place].push(Job::Nested(NestedJob { part, index, bytes }));
        Ok(())
    }

    /// Refuses tensors whose number of bytes differs from that of their jobs: sizes beyond a 32-bit
    /// `usize` may have been mistaken.
    pub fn expect_whole(&self, headers: &[&Header]) -> Result<()> {
        let tensors = headers.iter().flat_map(|header| &header.tensors);
        for (tensor, jobs) in tensors.zip(self.jobs.iter().flatten()) {
            let taken = jobs.iter().map(|job| match job {
                Job::Repack(job) => job.bytes(),
                Job::Nested(job) => job.bytes as u64,
                Job::Order(job) => 4 * job.columns as u64,
            });
            let expected = taken.fold(0, u64::saturating_add);
            if !jobs.is_empty() && expected != tensor.bytes {
                return Err(Error::WrongTensor {
                    name: tensor.name.clone(),
                    found: format!("{} bytes", tensor.bytes),
                    expected: format!("{expected} bytes"),
                });
            }
        }
        Ok(())
    }

    /// Refuses tensors that share bytes but are converted differently: the bytes are read once.
    pub fn expect_alike(&self, headers: &[&Header]) -> Result<()> {
        for (header, jobs) in headers.iter().zip(&self.jobs) {
            let used = header.tensors.iter().zip(jobs).filter(|(_, jobs)| !jobs.is_empty());
            let used: Vec<_> = used.collect();
            let differ = used.windows(2).find(|pair| {
                let [(a, of_a), (b, of_b)] = [pair[0], pair[1]];
                let is_alike = || of_a.iter().zip(of_b).all(|(a, b)| a.is_alike(b));
                a.shares_bytes(b) && (of_a.len() != of_b.len() || !is_alike())
            });
            if let Some([(a, _), (b, _)]) = differ {
                return Err(Error::WrongTensor {
                    name: b.name.clone(),
                    found: format!("{:?} by another name", a.name),
                    expected: "one of its own: the two do not become the same".into(),
                });
            }
        }
        Ok(())
    }
}

/// Refuses pieces that have to be held at once and are too large for that.
fn ensure_piece(tensor: &TensorInfo, bytes: u64) -> Result<()> {
    if bytes > PIECE_BYTES {
        let what = format!("one piece of {:?}", tensor.name);
        return Err(Error::TooLarge { what, bytes, limit: PIECE_BYTES });
    }
    Ok(())
}

/// The shape of a tensor of which one part has this shape.
pub(super) fn sliced(slice: Option<Slice>, shape: &[usize]) -> Vec<usize> {
    slice.iter().map(|slice| &slice.of).chain(shape).copied().collect()
}

pub(super) fn expect_float(tensor: &TensorInfo, shape: &[usize]) -> Result<FloatType> {
    let float = tensor.elements.float().filter(|_| has_shape(tensor, shape));
    float.ok_or_else(|| wrong(tensor, "F32 or F16 or BF16", shape))
}

pub(super) fn has_shape(tensor: &TensorInfo, shape: &[usize]) -> bool {
    tensor.shape.iter().copied().eq(shape.iter().map(|n| *n as u64))
}

pub(super) fn wrong(tensor: &TensorInfo, expected: &str, shape: &[usize]) -> Error {
    Error::WrongTensor {
        name: tensor.name.clone(),
        found: format!("{} {:?}", tensor.elements, tensor.shape),
        expected: format!("{expected} {shape:?}"),
    }
}
