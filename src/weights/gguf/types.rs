//! Type numbers of tensors in GGUF files.

use crate::layout::BlockType;
use crate::weights::header::Dtype;
use crate::weights::header::Elements;

impl Elements {
    /// The type with this number in GGUF files; `None` for removed, unknown, and activation-only types.
    pub(super) const fn from_ggml(id: u32) -> Option<Elements> {
        use BlockType::*;
        Some(match id {
            0 => Elements::Plain(Dtype::F32),
            1 => Elements::Plain(Dtype::F16),
            2 => Elements::Blocks(Q4_0),
            3 => Elements::Blocks(Q4_1),
            6 => Elements::Blocks(Q5_0),
            7 => Elements::Blocks(Q5_1),
            8 => Elements::Blocks(Q8_0),
            10 => Elements::Blocks(Q2_K),
            11 => Elements::Blocks(Q3_K),
            12 => Elements::Blocks(Q4_K),
            13 => Elements::Blocks(Q5_K),
            14 => Elements::Blocks(Q6_K),
            16 => Elements::Blocks(IQ2_XXS),
            17 => Elements::Blocks(IQ2_XS),
            18 => Elements::Blocks(IQ3_XXS),
            19 => Elements::Blocks(IQ1_S),
            20 => Elements::Blocks(IQ4_NL),
            21 => Elements::Blocks(IQ3_S),
            22 => Elements::Blocks(IQ2_S),
            23 => Elements::Blocks(IQ4_XS),
            24 => Elements::Plain(Dtype::I8),
            25 => Elements::Plain(Dtype::I16),
            26 => Elements::Plain(Dtype::I32),
            27 => Elements::Plain(Dtype::I64),
            28 => Elements::Plain(Dtype::F64),
            29 => Elements::Blocks(IQ1_M),
            30 => Elements::Plain(Dtype::Bf16),
            34 => Elements::Blocks(TQ1_0),
            35 => Elements::Blocks(TQ2_0),
            39 => Elements::Blocks(MXFP4),
            40 => Elements::Blocks(NVFP4),
            _ => return None,
        })
    }

    /// Elements of a unit, and its bytes.
    pub(super) const fn unit(self) -> (u64, u64) {
        match self {
            Elements::Plain(dtype) => (1, dtype.bits() / 8),
            Elements::Blocks(block) => (block.elements() as u64, block.bytes() as u64),
        }
    }
}
