//! What is shown of a model's sampling defaults.

use serde::Serialize;

use crate::text::GenerationDefaults;

/// How tokens are sampled where a request does not say.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SamplingDefaults {
    pub temperature: f64,
    pub top_k: u32,
    pub top_p: f64,
    pub min_p: f64,
    pub repetition_penalty: f64,
}

impl From<&GenerationDefaults> for SamplingDefaults {
    fn from(defaults: &GenerationDefaults) -> Self {
        // As the files have them: 0.8, not the nearest f32.
        let short = |value: f32| value.to_string().parse().unwrap_or(f64::from(value));
        SamplingDefaults {
            temperature: short(defaults.temperature),
            top_k: defaults.top_k,
            top_p: short(defaults.top_p),
            min_p: short(defaults.min_p),
            repetition_penalty: short(defaults.repetition_penalty),
        }
    }
}
