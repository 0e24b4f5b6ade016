//! Every shader variant, compiled by the browser.
#![cfg(target_arch = "wasm32")]

#[path = "support/variants.rs"]
mod variants;

use tabloom::gpu::{Gpu, Kernels, Power, Shader};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_dedicated_worker);

#[wasm_bindgen(module = "/pkg-template/subgroups.js")]
extern "C" {
    #[wasm_bindgen(js_name = requestSubgroups)]
    fn request_subgroups();
}

#[wasm_bindgen_test]
async fn every_variant_compiles() {
    request_subgroups();
    let gpu = Gpu::open(Power::HighPerformance).await.unwrap();
    assert!(gpu.adapter.subgroups, "{}: no subgroups", gpu.adapter.name);
    let mut kernels = Kernels::default();
    let shaders = variants::shaders();
    let with_subgroups = |shader: &&Shader| shader.source.contains("enable subgroups;");
    assert!(shaders.iter().filter(with_subgroups).count() > 10);
    for shader in &shaders {
        if let Err(error) = kernels.pipeline(&gpu, shader).await {
            panic!("{error}\n{}", shader.source);
        }
    }
    assert_eq!(kernels.len(), shaders.len());
    // An error that no scope caught counts as a lost device.
    gpu.idle().await.unwrap();
}

/// The test above could not fail if errors went unnoticed.
#[wasm_bindgen_test]
async fn a_wrong_shader_is_refused() {
    let gpu = Gpu::open(Power::HighPerformance).await.unwrap();
    let mut shader = variants::shaders().swap_remove(0);
    shader.source = shader.source.replacen("u32", "u23", 1);
    let error = Kernels::default().pipeline(&gpu, &shader).await.err().unwrap();
    assert!(error.to_string().contains("u23"), "{error}");
}
