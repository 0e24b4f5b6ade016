//! The tensors of a weights file, in any format.

use crate::layout::{BlockType, FloatType};
use serde::Deserialize;
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

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Dtype {
    Bool,
    F4,
    #[serde(rename = "F6_E2M3")]
    F6E2m3,
    #[serde(rename = "F6_E3M2")]
    F6E3m2,
    U8,
    I8,
    #[serde(rename = "F8_E5M2")]
    F8E5m2,
    #[serde(rename = "F8_E4M3")]
    F8E4m3,
    #[serde(rename = "F8_E8M0")]
    F8E8m0,
    #[serde(rename = "F8_E4M3FNUZ")]
    F8E4m3fnuz,
    #[serde(rename = "F8_E5M2FNUZ")]
    F8E5m2fnuz,
    I16,
    U16,
    F16,
    Bf16,
    I32,
    U32,
    F32,
    C64,
    F64,
    I64,
    U64,
}

impl Dtype {
    /// Bits of an element.
    pub const fn bits(self) -> u64 {
        use Dtype::*;
        match self {
            F4 => 4,
            F6E2m3 | F6E3m2 => 6,
            Bool | U8 | I8 | F8E5m2 | F8E4m3 | F8E8m0 | F8E4m3fnuz | F8E5m2fnuz => 8,
            I16 | U16 | F16 | Bf16 => 16,
            I32 | U32 | F32 => 32,
            C64 | F64 | I64 | U64 => 64,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_uppercase())
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
