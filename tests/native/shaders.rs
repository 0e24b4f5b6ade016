//! Compiles every shader variant with naga and checks it against WebGPU's default limits.

use naga::{
    AddressSpace,
    valid::{Capabilities, ValidationFlags, Validator},
};
use tabloom::gpu::{Access, Shader};

/// WebGPU's default limits.
const STORAGE_BUFFERS: usize = 8;
const WORKGROUP_BYTES: u32 = 16_384;
const INVOCATIONS: u32 = 256;

#[test]
fn every_variant_compiles_within_the_default_limits() {
    let shaders = crate::variants::shaders(&crate::variants::TUNINGS);
    assert!(shaders.len() > 100, "only {} variants", shaders.len());
    for shader in shaders {
        if let Err(problem) = check(&shader) {
            panic!("{}: {problem}\n{}", shader.name, shader.source);
        }
    }
}

fn check(shader: &Shader) -> Result<(), String> {
    let module = naga::front::wgsl::parse_str(&shader.source)
        .map_err(|e| e.emit_to_string(&shader.source))?;
    // Core WGSL: unpack2x16float and pack2x16float.
    let mut allowed = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    if shader.source.contains("subgroup_size") {
        allowed |= Capabilities::SUBGROUP;
    }
    Validator::new(ValidationFlags::all(), allowed)
        .validate(&module)
        .map_err(|e| e.emit_to_string(&shader.source))?;

    // The pipeline layout is made from the declared bindings.
    let mut bindings: Vec<_> = module
        .global_variables
        .iter()
        .filter_map(|(_, variable)| {
            let AddressSpace::Storage { access } = variable.space else { return None };
            let write = access.contains(naga::StorageAccess::STORE);
            let access = if write { Access::ReadWrite } else { Access::Read };
            variable.binding.as_ref().map(|at| (at.group, at.binding, access))
        })
        .collect();
    bindings.sort_by_key(|(_, binding, _)| *binding);
    let expected: Vec<_> =
        (0..).zip(&shader.bindings).map(|(binding, access)| (0, binding, *access)).collect();
    same("bindings", &bindings, &expected)?;

    let mut layouter = naga::proc::Layouter::default();
    layouter.update(module.to_ctx()).map_err(|e| e.to_string())?;
    let shared: u32 = module
        .global_variables
        .iter()
        .filter(|(_, variable)| variable.space == AddressSpace::WorkGroup)
        .map(|(_, variable)| layouter[variable.ty].size)
        .sum();
    let threads: u32 = module.entry_points.iter().flat_map(|e| e.workgroup_size).product();
    same("entry points", &module.entry_points.len(), &1)?;
    if bindings.len() > STORAGE_BUFFERS || shared > WORKGROUP_BYTES || threads > INVOCATIONS {
        return Err(format!("{} buffers, {shared} B shared, {threads} threads", bindings.len()));
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?}, expected {expected:?}")),
    }
}
