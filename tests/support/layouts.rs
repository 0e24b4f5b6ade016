//! Every layout of weights.

use tabloom::layout::{Codebook, Layout};

/// Layouts that numbers are converted to.
pub const LAYOUTS: [Layout; 7] = [
    Layout::F32,
    Layout::F16,
    Layout::Bf16,
    Layout::W8 { group: 32 },
    Layout::W4 { group: 32 },
    Layout::W4 { group: 64 },
    Layout::W4 { group: 128 },
];

/// Layouts of checkpoints that are kept.
pub const KEPT: [Layout; 9] = [
    Layout::F8 { group: 128 },
    Layout::W6,
    Layout::W5,
    Layout::Codebook { codebook: Codebook::E2m1, group: 32 },
    Layout::Codebook { codebook: Codebook::NormalFloat, group: 64 },
    Layout::Codebook { codebook: Codebook::Float4, group: 64 },
    Layout::Codebook { codebook: Codebook::NonLinear, group: 32 },
    Layout::W3,
    Layout::W2,
];
