//! Column order for GPTQ's act-order.
//!
//! Such checkpoints store the group of each column. Once the weights are complete, their columns are
//! sorted by group, and executors reorder activations in the same way. Modules that are joined in one
//! matrix mostly have the same order; those that do not become parts of their own.

use super::header::TensorInfo;
use super::sink::WeightSink;
use crate::error::{Error, Result};
use crate::model::Param;
use std::collections::HashMap;
use std::ops::Range;

/// A tensor with the group of each column of a module, `[columns]` i32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderJob {
    pub param: Param,
    /// The module's first row in the matrix.
    pub first_row: usize,
    pub rows: usize,
    pub columns: usize,
    /// Columns per group.
    pub group: usize,
}

/// The orders read so far, by matrix.
#[derive(Default)]
pub(super) struct Orders(HashMap<Param, Vec<RowOrder>>);

/// Rows of a matrix, and the order of their columns.
type RowOrder = (Range<usize>, Vec<u32>);

impl Orders {
    /// Reads an order from a tensor's bytes.
    pub fn take(&mut self, tensor: &TensorInfo, job: OrderJob, bytes: &[u8]) -> Result<()> {
        let groups: Vec<i32> =
            bytes.as_chunks().0.iter().map(|group| i32::from_le_bytes(*group)).collect();
        let mut order: Vec<u32> = (0..job.columns as u32).collect();
        order.sort_by_key(|column| groups[*column as usize]); // stable
        let full = |(place, column): (usize, &u32)| {
            usize::try_from(groups[*column as usize]) == Ok(place / job.group)
        };
        if !order.iter().enumerate().all(full) {
            return Err(Error::WrongTensor {
                name: tensor.name.clone(),
                found: "with groups of other sizes".into(),
                expected: format!("each group of {} columns to be full", job.group),
            });
        }
        let rows = job.first_row..job.first_row + job.rows;
        self.0.entry(job.param).or_default().push((rows, order));
        Ok(())
    }

    /// Reorders the columns of complete matrices.
    pub async fn apply(self, sink: &mut impl WeightSink) -> Result<()> {
        for (param, mut orders) in self.0 {
            orders.sort_by_key(|(rows, _)| rows.start);
            // Neighbours with the same order stay together.
            orders.dedup_by(|(rows, order), (before, same)| {
                let joins = before.end == rows.start && same == order;
                before.end = if joins { rows.end } else { before.end };
                joins
            });
            for (rows, order) in orders {
                if !order.is_sorted() {
                    sink.reorder(param, rows, &order).await?;
                }
            }
        }
        Ok(())
    }
}
