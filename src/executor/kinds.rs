//! Which layers may store their KV cache in int8.

use crate::{
    Result,
    gpu::{Gpu, Readback},
    kernels::KvKind,
    model::{ModelConfig, Param},
    weights::{GpuWeights, HostWeights},
};

/// Limit for a layer's key bias, as a multiple of the median of all layers.
const OUTLIER: f32 = 4.0;

/// The kind of KV cache per layer, with weights in host memory.
///
/// # Errors
/// [`crate::Error::MissingTensor`] if a bias is not loaded.
pub fn host_kv_kinds(
    config: &ModelConfig,
    weights: &HostWeights,
    wanted: KvKind,
) -> Result<Vec<KvKind>> {
    let mut biases = Vec::new();
    for param in biases_to_judge(config, wanted) {
        biases.push(weights.vectors.get(&param).ok_or_else(|| param.missing())?.clone());
    }
    Ok(kinds(config, &biases, wanted))
}

/// The kind of KV cache per layer, with weights on the device.
///
/// # Errors
/// [`crate::Error::MissingTensor`] if a bias is not loaded; errors of the device.
pub async fn gpu_kv_kinds(
    gpu: &Gpu,
    config: &ModelConfig,
    weights: &GpuWeights,
    wanted: KvKind,
) -> Result<Vec<KvKind>> {
    let mut biases = Vec::new();
    for param in biases_to_judge(config, wanted) {
        let bias = weights.vectors.get(&param).ok_or_else(|| param.missing())?;
        biases.push(read_vector(gpu, bias).await?);
    }
    Ok(kinds(config, &biases, wanted))
}

/// The numbers of a vector on the device, padding included.
pub(super) async fn read_vector(gpu: &Gpu, vector: &wgpu::Buffer) -> Result<Vec<f32>> {
    let mut readback = Readback::new(gpu, vector.size()).await?;
    let mut encoder = gpu.device.create_command_encoder(&Default::default());
    readback.copy(&mut encoder, vector, vector.size());
    readback.map(gpu.queue.submit([encoder.finish()]));
    Ok(readback.words(gpu).await?.into_iter().map(f32::from_bits).collect())
}

fn biases_to_judge(config: &ModelConfig, wanted: KvKind) -> impl Iterator<Item = Param> + use<> {
    let judged = wanted == KvKind::Int8 && config.qkv_bias;
    (0..if judged { config.layers } else { 0 }).map(Param::QkvBias)
}

/// The kind wanted, but f16 where the Euclidean norm of the key bias is more than [`OUTLIER`] times the
/// median of all layers.
///
/// In int8, a token's key has one scale per head. In some models (Qwen2 and 2.5, mostly in the first
/// and the last layer) the key bias is tens of times larger than in the other layers, and in a few dims
/// only. These dims would leave hardly any bits for the others.
fn kinds(config: &ModelConfig, biases: &[Vec<f32>], wanted: KvKind) -> Vec<KvKind> {
    let queries = config.attention_width();
    let keys = queries..queries + config.kv_heads * config.head_dim;
    let norm = |bias: &Vec<f32>| bias[keys.clone()].iter().map(|b| b * b).sum::<f32>().sqrt();
    let norms: Vec<f32> = biases.iter().map(norm).collect();
    let mut sorted = norms.clone();
    sorted.sort_by(f32::total_cmp);
    let median = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    let is_outlier = |layer: usize| norms.get(layer).is_some_and(|norm| *norm > OUTLIER * median);
    (0..config.layers).map(|layer| if is_outlier(layer) { KvKind::F16 } else { wanted }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(layers: usize) -> ModelConfig {
        let json = format!(
            r#"{{"architectures": ["Qwen2ForCausalLM"], "hidden_size": 16, "intermediate_size": 16,
            "num_hidden_layers": {layers}, "num_attention_heads": 2, "num_key_value_heads": 1,
            "vocab_size": 10, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
            "hidden_act": "silu"}}"#
        );
        ModelConfig::from_json(json.as_bytes()).unwrap()
    }

    /// A bias of 16 query, 8 key and 8 value rows.
    fn bias(key: f32) -> Vec<f32> {
        [vec![500.0; 16], vec![key; 8], vec![500.0; 8]].concat()
    }

    #[test]
    fn layers_with_an_outlier_key_bias_stay_in_f16() {
        // Similar to the norms of a Qwen2.5 with 28 layers.
        let sizes = [600.0, 25.0, 22.0, -80.0, 22.0, 15.0, -920.0];
        let biases: Vec<_> = sizes.into_iter().map(bias).collect();
        use KvKind::{F16, Int8};
        let expected = [F16, Int8, Int8, Int8, Int8, Int8, F16];
        assert_eq!(kinds(&config(7), &biases, Int8), expected);
        assert_eq!(kinds(&config(2), &[bias(1.0), bias(5.0)], Int8), [Int8, F16]);
        assert_eq!(kinds(&config(3), &[], Int8), [Int8; 3]);
        assert_eq!(kinds(&config(7), &[], F16), [F16; 7]);
    }
}
