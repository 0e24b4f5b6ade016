//! Quantised checkpoints, written by the tools of their formats, against transformers with the same
//! values.

use crate::support::goldens::{executor, folder, golden};
use pollster::block_on;
use tabloom::{load::Device, weights::FolderSource};

const FORMATS: [&str; 27] = [
    "awq_gemm_g128_f16",
    "awq_gemv_g64_f16",
    "bnb_fp4_bf16",
    "bnb_int8_f16",
    "bnb_nf4_nested_bf16",
    "ct_fp8_channel_bf16",
    "ct_fp8_tensor_bf16",
    "ct_int4_act_order_g32_bf16",
    "ct_int4_orders_g32_bf16",
    "ct_int8_naive_bf16",
    "ct_int8_packed_bf16",
    "ct_int8_w8a8_bf16",
    "ct_mixed_bf16",
    "ct_mxfp4_bf16",
    "fp8_block_bf16_scales_bf16",
    "fp8_block_f32_scales_bf16",
    "fp8_tensor_bf16",
    "gptq_act_order_g32_f16",
    "gptq_int8_g32_f16",
    "gptq_v1_asym_g64_f16",
    "gptq_v1_sym_g128_f16",
    "gptq_v2_asym_g32_f16",
    "hqq_int4_g64_bf16",
    "mlx_q4_g64_bf16",
    "mlx_q4_mixed_g64_bf16",
    "mlx_q8_g64_f16",
    "torchao_int4_g128_bf16",
];

/// One model for each way in which codes, scales and layouts reach the GPU. `gpu_repack` compares all
/// repacking operations with the CPU's, bit for bit.
const ON_THE_GPU: [&str; 9] = [
    "awq_gemm_g128_f16",
    "bnb_nf4_nested_bf16",
    "ct_int4_orders_g32_bf16",
    "ct_mixed_bf16",
    "ct_mxfp4_bf16",
    "fp8_block_f32_scales_bf16",
    "gptq_act_order_g32_f16",
    "hqq_int4_g64_bf16",
    "mlx_q4_mixed_g64_bf16",
];

fn check(device: Device, formats: &[&str]) {
    for name in formats {
        let name = &format!("formats/{name}");
        let executor = block_on(executor(&FolderSource::new(folder(name)), device)).expect(name);
        block_on(golden(name).check(name, executor));
    }
}

#[test]
fn models_agree_with_transformers_on_the_cpu() {
    check(Device::Cpu, &FORMATS);
}

#[test]
fn models_agree_with_transformers_on_the_gpu() {
    check(Device::Gpu, &ON_THE_GPU);
}
