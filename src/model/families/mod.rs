//! The differences between architectures, one file per family.

mod gemma;
mod gpt2;
mod gpt_oss;
mod granite;
mod llama;
mod mistral;
mod mixtral;
mod olmo2;
mod phi3;
mod qwen;
mod qwen_moe;
mod smollm3;

use super::config::ModelConfig;
use super::json::Fields;
use crate::error::Result;

/// Reads what an architecture adds to the common fields.
pub(super) type Configure = fn(&Fields, &mut ModelConfig) -> Result<()>;

/// The supported architectures, by their names in `config.json`.
pub(super) const ARCHITECTURES: [(&str, Configure); 16] = [
    ("LlamaForCausalLM", llama::configure),
    ("MistralForCausalLM", mistral::configure),
    ("Qwen2ForCausalLM", qwen::configure_2),
    ("Qwen3ForCausalLM", qwen::configure_3),
    // Qwen 2 with a layer for multi-token prediction.
    ("MiMoForCausalLM", qwen::configure_2),
    ("SmolLM3ForCausalLM", smollm3::configure),
    ("Phi3ForCausalLM", phi3::configure),
    ("GraniteForCausalLM", granite::configure),
    ("Olmo2ForCausalLM", olmo2::configure),
    ("Gemma2ForCausalLM", gemma::configure_2),
    ("Gemma3ForCausalLM", gemma::configure_3),
    (gemma::WITH_IMAGES, gemma::configure_3),
    (gpt2::NAME, gpt2::configure),
    ("MixtralForCausalLM", mixtral::configure),
    ("Qwen3MoeForCausalLM", qwen_moe::configure),
    ("GptOssForCausalLM", gpt_oss::configure),
];

/// An architecture of GGUF files, and its differences.
pub(super) struct Family {
    pub name: &'static str,
    /// Rows of queries and keys are interleaved: the two of a rotated pair are neighbours.
    pub interleaved: bool,
    pub configure: Configure,
}

pub(super) const FAMILIES: [Family; 12] = [
    Family { name: "llama", interleaved: true, configure: llama::configure_gguf },
    Family { name: "qwen2", interleaved: false, configure: qwen::configure_gguf_2 },
    Family { name: "qwen3", interleaved: false, configure: qwen::configure_gguf_3 },
    Family { name: "smollm3", interleaved: true, configure: smollm3::configure_gguf },
    Family { name: "phi3", interleaved: false, configure: phi3::configure_gguf },
    Family { name: "granite", interleaved: true, configure: granite::configure_gguf },
    Family { name: "olmo2", interleaved: false, configure: olmo2::configure_gguf },
    Family { name: "gemma2", interleaved: false, configure: gemma::configure_gguf_2 },
    Family { name: "gemma3", interleaved: false, configure: gemma::configure_gguf_3 },
    Family { name: "gpt2", interleaved: false, configure: gpt2::configure_gguf },
    Family { name: "qwen3moe", interleaved: false, configure: qwen_moe::configure_gguf },
    Family { name: "gpt-oss", interleaved: false, configure: gpt_oss::configure_gguf },
];

/// The fields of `config.json` under the names that most architectures use.
pub(super) fn usual(architecture: &str, fields: &Fields) -> Result<Fields> {
    match architecture {
        gemma::WITH_IMAGES => gemma::text(fields),
        gpt2::NAME => gpt2::usual(fields),
        _ => Ok(fields.clone()),
    }
}
