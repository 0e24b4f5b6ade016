//! Column order for GPTQ's act-order.
//!
//! Such checkpoints store the group of each column. Once the weights are complete, their columns are
//! sorted by group, and executors reorder activations in the same way.

use super::header::TensorInfo;
use super::sink::WeightSink;
use crate::error::{Error, Result};
use crate::model::Param;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A tensor with the group of each column of a matrix, `[columns]` i32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderJob {
    pub param: Param,
    pub columns: usize,
    /// Columns per group.
    pub group: usize,
}

/// The orders read so far.
#[derive(Default)]
pub(super) struct Orders(HashMap<Param, Vec<u32>>);

impl Orders {
    /// Reads an order from a tensor's bytes; modules that are joined in one matrix must have the same.
    pub fn take(&mut self, tensor: &TensorInfo, job: OrderJob, bytes: &[u8]) -> Result<()> {
        let groups: Vec<i32> =
            bytes.as_chunks().0.iter().map(|group| i32::from_le_bytes(*group)).collect();
        let mut order: Vec<u32> = (0..job.columns as u32).collect();
        order.sort_by_key(|column| groups[*column as usize]); // stable
        let wrong = |found: &str, expected: &str| Error::WrongTensor {
            name: tensor.name.clone(),
            found: found.into(),
            expected: expected.into(),
        };
        let full = |(place, column): (usize, &u32)| {
            usize::try_from(groups[*column as usize]) == Ok(place / job.group)
        };
        if !order.iter().enumerate().all(full) {
            let expected = format!("each group of {} columns to be full", job.group);
            return Err(wrong("with groups of other sizes", &expected));
        }
        match self.0.entry(job.param) {
            Entry::Occupied(entry) if *entry.get() != order => {
                Err(wrong("in another order", "that of the modules it is joined with"))
            }
            Entry::Occupied(_) => Ok(()),
            Entry::Vacant(entry) => {
                entry.insert(order);
                Ok(())
            }
        }
    }

    /// Reorders the columns of complete matrices.
    pub async fn apply(self, sink: &mut impl WeightSink) -> Result<()> {
        for (param, order) in self.0 {
            if !order.is_sorted() {
                sink.reorder(param, &order).await?;
            }
        }
        Ok(())
    }
}
