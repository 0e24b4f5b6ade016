//! Quantised matrices in checkpoints: the tensors of a module, and their encodings.
//!
//! One file per format. Group sizes follow from the shapes of scales, so modules of a checkpoint may
//! differ.

mod awq;
mod compressed_tensors;
mod float8;
mod gptq;
mod hqq;
mod llm_int8;
mod mlx;
mod module;
mod mxfp4;
mod nf4;
mod torchao;

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::model::Quantization;

pub(super) use module::Module;

/// Plans the module's tensors; returns the layout that keeps its values.
pub(super) fn plan(module: &mut Module, quantization: Option<Quantization>) -> Result<Layout> {
    match quantization {
        None => plan_unknown(module),
        Some(Quantization::CompressedTensors { zero_points }) => {
            compressed_tensors::plan(module, zero_points)
        }
        Some(Quantization::AwqGemm) => awq::plan_gemm(module),
        Some(Quantization::AwqGemv { group }) => awq::plan_gemv(module, group),
        Some(Quantization::Gptq(version)) => gptq::plan(module, version),
        Some(Quantization::Mlx) => mlx::plan(module),
        Some(Quantization::Mxfp4) => mxfp4::plan(module),
        Some(Quantization::Float8) => float8::plan(module),
        Some(Quantization::LlmInt8) => llm_int8::plan(module),
        Some(Quantization::Nf4) => nf4::plan(module),
        Some(Quantization::Hqq) => hqq::plan(module),
        Some(Quantization::TorchAo) => torchao::plan(module),
    }
}

/// Without a description of the format, only what is missing can be reported.
fn plan_unknown(module: &Module) -> Result<Layout> {
    let packed = ["weight_packed", "qweight", "scales", "_scales"];
    match packed.into_iter().find_map(|tensor| module.find(tensor)) {
        None => Err(Error::MissingTensor { name: module.tensor_name("weight") }),
        Some((tensor, ..)) => Err(Error::InvalidConfig {
            file: "config.json".into(),
            field: "quantization_config".into(),
            found: "missing".into(),
            expected: format!("a description of the quantised tensor {:?}", tensor.name),
        }),
    }
}
