//! Every shader variant, compiled by the browser.
#![cfg(target_arch = "wasm32")]

#[path = "support/variants.rs"]
mod variants;

use std::collections::HashMap;

use tabloom::{
    gpu::{Gpu, Kernels, Power, Shader, Subgroups},
    kernels::Tuning,
};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_dedicated_worker);

#[wasm_bindgen(module = "/pkg-template/worker/gpu.js")]
extern "C" {
    #[wasm_bindgen(js_name = completeWebGpu)]
    fn complete_web_gpu();
}

/// Opens the adapter with subgroups, which Firefox does not have.
async fn open() -> Gpu {
    complete_web_gpu();
    let gpu = Gpu::open(Power::HighPerformance).await.unwrap();
    let user_agent = js_sys::eval("navigator.userAgent").unwrap().as_string().unwrap();
    let in_firefox = user_agent.contains("Firefox/");
    let expected = if in_firefox { Subgroups::No } else { Subgroups::OfSize(4) };
    assert_eq!(gpu.adapter.subgroups, expected, "{}", gpu.adapter.name);
    gpu
}

/// The variants for such an adapter.
fn shaders(gpu: &Gpu) -> Vec<Shader> {
    let mut tunings = variants::TUNINGS.to_vec();
    tunings.push(Tuning { subgroups: gpu.adapter.subgroups, barriers: true });
    if gpu.adapter.subgroups == Subgroups::No {
        tunings.retain(|tuning| tuning.subgroups == Subgroups::No);
    }
    let shaders = variants::shaders(&tunings);
    let sized = shaders.iter().filter_map(enabled).filter(|line| line.contains("size")).count();
    assert_eq!(sized > 10, gpu.adapter.subgroups != Subgroups::No, "{sized}");
    shaders
}

/// The line that enables subgroups, of any size or of one.
fn enabled(shader: &Shader) -> Option<String> {
    shader.source.lines().find(|line| line.starts_with("enable ")).map(str::to_owned)
}

/// Messages of the browser's compiler.
async fn complaint(gpu: &Gpu, source: &str) -> Option<String> {
    let scope = gpu.device.push_error_scope(wgpu::ErrorFilter::Validation);
    let source = wgpu::ShaderSource::Wgsl(source.into());
    let module = wgpu::ShaderModuleDescriptor { label: None, source };
    drop(gpu.device.create_shader_module(module));
    scope.pop().await.map(|error| error.to_string())
}

#[wasm_bindgen_test]
async fn the_browser_compiles_every_variant() {
    let gpu = open().await;
    for shader in shaders(&gpu) {
        if let Some(complaint) = complaint(&gpu, &shader.source).await {
            panic!("{}: {complaint}\n{}", shader.name, shader.source);
        }
    }
}

/// A software adapter takes seconds to compile a large kernel. So each template has one variant here,
/// without subgroups, with those of any size and with those of one.
#[wasm_bindgen_test]
async fn the_driver_takes_every_template() {
    let gpu = open().await;
    let mut shortest = HashMap::<_, Shader>::new();
    for shader in shaders(&gpu) {
        let known = shortest.entry((shader.name, enabled(&shader))).or_insert(shader.clone());
        if shader.source.len() < known.source.len() {
            *known = shader;
        }
    }
    assert!(shortest.len() > 15);
    let mut kernels = Kernels::default();
    for shader in shortest.values() {
        kernels.pipeline(&gpu, shader).await.unwrap();
    }
    // An error outside of every scope counts as a lost device.
    gpu.idle().await.unwrap();
}

/// Checks that the tests above notice errors.
#[wasm_bindgen_test]
async fn wrong_shaders_are_refused() {
    let gpu = open().await;
    let mut shader = shaders(&gpu).swap_remove(0);
    shader.source = shader.source.replacen("u32", "u23", 1);
    assert!(complaint(&gpu, &shader.source).await.is_some());
    let error = Kernels::default().pipeline(&gpu, &shader).await.err().unwrap();
    assert!(error.to_string().contains("u23"), "{error}");
}
