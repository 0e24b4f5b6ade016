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

/// A supported architecture of Hugging Face folders.
pub(super) struct Architecture {
    /// The class in `architectures`.
    pub name: &'static str,
    /// Its `model_type`, by which files without `architectures` are known.
    pub model_type: &'static str,
    pub configure: Configure,
}

const fn architecture(
    name: &'static str,
    model_type: &'static str,
    configure: Configure,
) -> Architecture {
    Architecture { name, model_type, configure }
}

pub(super) const ARCHITECTURES: [Architecture; 16] = [
    architecture("LlamaForCausalLM", "llama", llama::configure),
    architecture("MistralForCausalLM", "mistral", mistral::configure),
    architecture("Qwen2ForCausalLM", "qwen2", qwen::configure_2),
    architecture("Qwen3ForCausalLM", "qwen3", qwen::configure_3),
    // Qwen 2 with a layer for multi-token prediction.
    architecture("MiMoForCausalLM", "mimo", qwen::configure_2),
    architecture("SmolLM3ForCausalLM", "smollm3", smollm3::configure),
    architecture("Phi3ForCausalLM", "phi3", phi3::configure),
    architecture("GraniteForCausalLM", "granite", granite::configure),
    architecture("Olmo2ForCausalLM", "olmo2", olmo2::configure),
    architecture("Gemma2ForCausalLM", "gemma2", gemma::configure_2),
    architecture("Gemma3ForCausalLM", "gemma3_text", gemma::configure_3),
    architecture(gemma::WITH_IMAGES, "gemma3", gemma::configure_3),
    architecture(gpt2::NAME, "gpt2", gpt2::configure),
    architecture("MixtralForCausalLM", "mixtral", mixtral::configure),
    architecture("Qwen3MoeForCausalLM", "qwen3_moe", qwen_moe::configure),
    architecture("GptOssForCausalLM", "gpt_oss", gpt_oss::configure),
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
