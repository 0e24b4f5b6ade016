//! The tensors of a weights file, in any format.

use super::safetensors::Dtype;
use crate::layout::{BlockType, FloatType};
use std::fmt;

/// The tensors of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// In byte order, without overlaps; several tensors may have the same bytes.
    pub tensors: Vec<TensorInfo>,
    /// Position in the file where the last tensor ends.
    pub end: u64,
}

/// A tensor as a header describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    pub name: String,
    pub elements: Elements,
    /// Row length last.
    pub shape: Vec<u64>,
    /// Position of its first byte in the file.
    pub start: u64,
    /// Bytes of the tensor.
    pub bytes: u64,
}

impl TensorInfo {
    /// Whether it names the same bytes.
    pub fn shares_bytes(&self, other: &TensorInfo) -> bool {
        (self.start, self.bytes) == (other.start, other.bytes)
    }

    /// Whether it names the same tensor.
    pub fn is_alias(&self, other: &TensorInfo) -> bool {
        self.shares_bytes(other) && self.elements == other.elements && self.shape == other.shape
    }
}

/// Element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// Numbers one after the other.
    Plain(Dtype),
    /// Rows of quantised blocks.
    Blocks(BlockType),
}

impl Elements {
    /// The floating-point type, if weights can be read from it.
    pub fn float(self) -> Option<FloatType> {
        match self {
            Elements::Plain(Dtype::F32) => Some(FloatType::F32),
            Elements::Plain(Dtype::F16) => Some(FloatType::F16),
            Elements::Plain(Dtype::Bf16) => Some(FloatType::Bf16),
            _ => None,
        }
    }
}

impl fmt::Display for Elements {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Elements::Plain(dtype) => dtype.fmt(f),
            Elements::Blocks(block) => block.fmt(f),
        }
    }
}
