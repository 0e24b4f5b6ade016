//! Codebooks: tables of sixteen values, indexed by nibbles.

use half::{bf16, f16};

/// A codebook of [`super::Layout::Codebook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codebook {
    /// Two exponent bits and one mantissa bit: the elements of MXFP4, as in the Open Compute Project's
    /// specification of microscaling formats.
    E2m1,
    /// Quantiles of a normal distribution: NF4 of QLoRA (arXiv 2305.14314).
    NormalFloat,
    /// FP4 of bitsandbytes.
    Float4,
    /// IQ4_NL and IQ4_XS of ggml.
    NonLinear,
}

impl Codebook {
    /// Every codebook.
    pub const ALL: [Codebook; 4] =
        [Codebook::E2m1, Codebook::NormalFloat, Codebook::Float4, Codebook::NonLinear];

    /// The value of each nibble.
    pub const fn values(self) -> [f32; 16] {
        match self {
            Codebook::E2m1 => [
                0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0,
                -6.0,
            ],
            Codebook::NormalFloat => [
                -1.0,
                -0.696_192_8,
                -0.525_073_05,
                -0.394_917_5,
                -0.284_441_38,
                -0.184_773_43,
                -0.091_050_04,
                0.0,
                0.079_580_3,
                0.160_930_2,
                0.246_112_3,
                0.337_915_24,
                0.440_709_83,
                0.562_617,
                0.722_956_84,
                1.0,
            ],
            Codebook::Float4 => {
                let positive =
                    [0.0, 0.0625 / 12.0, 8.0 / 12.0, 1.0, 4.0 / 12.0, 0.5, 2.0 / 12.0, 0.25];
                let [a, b, c, d, e, f, g, h] = positive;
                [a, b, c, d, e, f, g, h, -a, -b, -c, -d, -e, -f, -g, -h]
            }
            Codebook::NonLinear => [
                -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0,
                53.0, 69.0, 89.0, 113.0,
            ],
        }
    }

    /// The bits of a scale, rounded to nearest.
    pub fn scale_bits(self, scale: f32) -> u16 {
        match self {
            Codebook::E2m1 => bf16::from_f32(scale).to_bits(),
            _ => f16::from_f32(scale).to_bits(),
        }
    }

    /// The scale from its 16 bits.
    pub fn scale(self, bits: u16) -> f32 {
        match self {
            Codebook::E2m1 => bf16::from_bits(bits).to_f32(),
            _ => f16::from_bits(bits).to_f32(),
        }
    }
}
