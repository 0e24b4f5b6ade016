//! Pipelines that the browser compiles side by side before wgpu, which has no asynchronous ones, asks for each.

use super::{Gpu, Shader};
use crate::Result;

/// Pipelines of the browser. Equal ones are there at once while these live.
pub struct Ahead {
    #[cfg(target_arch = "wasm32")]
    _pipelines: Vec<wasm_bindgen::JsValue>,
}

/// Compiles shaders; none where that is of no use. Those that cannot be compiled are left out.
///
/// Calls `progress` with the number of those that are done.
#[cfg(not(target_arch = "wasm32"))]
pub async fn compile(
    _: &Gpu,
    _: &[Shader],
    _: &mut impl FnMut(usize) -> Result<()>,
) -> Result<Option<Ahead>> {
    Ok(None)
}

#[cfg(target_arch = "wasm32")]
pub async fn compile(
    gpu: &Gpu,
    shaders: &[Shader],
    progress: &mut impl FnMut(usize) -> Result<()>,
) -> Result<Option<Ahead>> {
    use futures::{StreamExt, stream::FuturesUnordered};
    use js_sys::{Array, Function, Promise};
    use wasm_bindgen::{JsCast, JsValue};
    use wasm_bindgen_futures::JsFuture;

    use super::{Access, device::property, patience::answered};

    // Of `worker/gpu.js`.
    let Some(device) = gpu.device.as_webgpu() else { return Ok(None) };
    let Ok(start) = property(device.as_ref(), "compileAhead").dyn_into::<Function>() else {
        return Ok(None);
    };
    let mut compiling = FuturesUnordered::new();
    for shader in shaders {
        let access = shader.bindings.iter().map(|access| match access {
            Access::Read => "read-only-storage",
            Access::ReadWrite => "storage",
        });
        let access: Array = access.map(JsValue::from).collect();
        let (name, source) = (shader.name.into(), shader.source.as_str().into());
        let promise = start.call3(device.as_ref(), &name, &source, &access);
        compiling.extend(promise.ok().map(|promise| JsFuture::from(Promise::from(promise))));
    }
    let mut pipelines = Vec::new();
    while let Some(pipeline) = answered(compiling.next()).await? {
        pipelines.extend(pipeline.ok());
        progress(pipelines.len())?;
    }
    Ok(Some(Ahead { _pipelines: pipelines }))
}
