//! The sizes and options of a decoder.

/// A decoder-only transformer as its `config.json` describes it, checked and normalised.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// As the checkpoint names it, for example `LlamaForCausalLM`.
    pub architecture: String,
    pub hidden: usize,
    pub intermediate: usize,
    pub layers: usize,
    pub heads: usize,
    /// Divides `heads`: each KV head serves heads / kv_heads query heads.
    pub kv_heads: usize,
    /// A multiple of 8, at most 256.
    pub head_dim: usize,
    pub vocab: usize,
    /// Most positions the checkpoint was trained for.
    pub context: usize,
    pub rms_eps: f32,
    pub rope: Rope,
    /// The output matrix is the embedding matrix.
    pub tied: bool,
    pub qkv_bias: bool,
    /// RMS norm over each query and key head before the rotation.
    pub qk_norm: bool,
    /// A row sees only the last `window` positions, itself included.
    pub window: Option<usize>,
}

/// Rotary position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    pub theta: f64,
    pub scaling: RopeScaling,
}

/// How rotary frequencies are stretched for contexts beyond the trained one.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    None,
    /// All frequencies divided by `factor`.
    Linear {
        factor: f64,
    },
    /// Llama 3: low frequencies divided by `factor`, high ones kept, a ramp between.
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        original_context: f64,
    },
}

impl ModelConfig {
    /// Rows of the fused query, key and value projection.
    pub fn qkv_rows(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Width of the attention's output.
    pub fn attention_width(&self) -> usize {
        self.heads * self.head_dim
    }
}
