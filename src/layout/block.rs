//! Quantised blocks of GGUF files.

use super::{Codebook, Layout};
use std::fmt;

/// A block type: elements are quantised in blocks with their own scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types)] // the names that everybody knows
pub enum BlockType {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ2_XXS,
    IQ2_XS,
    IQ3_XXS,
    IQ1_S,
    IQ4_NL,
    IQ3_S,
    IQ2_S,
    IQ4_XS,
    IQ1_M,
    TQ1_0,
    TQ2_0,
    MXFP4,
    NVFP4,
}

impl BlockType {
    /// Every supported type.
    pub const READABLE: [BlockType; 13] = {
        use BlockType::*;
        [Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4]
    };

    /// Elements of a block, all of the same row.
    pub const fn elements(self) -> usize {
        use BlockType::*;
        match self {
            Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 | IQ4_NL | MXFP4 => 32,
            NVFP4 => 64,
            _ => 256,
        }
    }

    /// Bytes of a block.
    pub const fn bytes(self) -> usize {
        use BlockType::*;
        match self {
            Q4_0 | IQ4_NL => 18,
            Q4_1 => 20,
            Q5_0 => 22,
            Q5_1 => 24,
            Q8_0 => 34,
            Q2_K => 84,
            Q3_K => 110,
            Q4_K => 144,
            Q5_K => 176,
            Q6_K => 210,
            IQ2_XXS | TQ2_0 => 66,
            IQ2_XS => 74,
            IQ3_XXS => 98,
            IQ1_S => 50,
            IQ3_S => 110,
            IQ2_S => 82,
            IQ4_XS => 136,
            IQ1_M => 56,
            TQ1_0 => 54,
            MXFP4 => 17,
            NVFP4 => 36,
        }
    }

    /// The layout that keeps such blocks without loss, except that the scales of Q4_K, Q5_K and IQ4_XS,
    /// which are products, are rounded to f16. `None` for unsupported types.
    pub const fn layout(self) -> Option<Layout> {
        Some(match self {
            BlockType::Q4_0 | BlockType::Q4_1 | BlockType::Q4_K => Layout::W4 { group: 32 },
            BlockType::Q5_0 | BlockType::Q5_1 | BlockType::Q5_K => Layout::W5,
            BlockType::Q8_0 => Layout::W8 { group: 32 },
            BlockType::Q2_K => Layout::W2,
            BlockType::Q3_K => Layout::W3,
            BlockType::Q6_K => Layout::W6,
            BlockType::IQ4_NL | BlockType::IQ4_XS => {
                Layout::Codebook { codebook: Codebook::NonLinear, group: 32 }
            }
            BlockType::MXFP4 => Layout::Codebook { codebook: Codebook::E2m1, group: 32 },
            _ => return None,
        })
    }
}

impl fmt::Display for BlockType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
