//! Compiled pipelines and bind groups, cached.

use std::{collections::HashMap, rc::Rc};

use futures::future::join3;
use wgpu::ErrorFilter;

use super::{Access, Gpu, Shader, patience::answered};
use crate::{Error, Result};

/// A compiled shader.
pub struct Pipeline {
    pub name: &'static str,
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
}

/// A pipeline bound to its buffers; can be dispatched any number of times.
pub struct Dispatch {
    pub pipeline: Rc<Pipeline>,
    group: wgpu::BindGroup,
}

/// The pipelines of a device, by rendered source.
#[derive(Default)]
pub struct Kernels {
    pipelines: HashMap<Shader, Rc<Pipeline>>,
    /// Bind groups made so far; constant while steps run.
    pub bind_groups: usize,
}

impl Kernels {
    /// Compiles a shader, or returns the pipeline of an equal one.
    ///
    /// # Errors
    /// [`Error::Pipeline`] with the compiler's message.
    pub async fn pipeline(&mut self, gpu: &Gpu, shader: &Shader) -> Result<Rc<Pipeline>> {
        if let Some(pipeline) = self.pipelines.get(shader) {
            return Ok(pipeline.clone());
        }
        let pipeline = Rc::new(compile(gpu, shader).await?);
        self.pipelines.insert(shader.clone(), pipeline.clone());
        Ok(pipeline)
    }

    /// Binds whole buffers to a pipeline, in the order of its bindings.
    pub fn bind(
        &mut self,
        gpu: &Gpu,
        pipeline: &Rc<Pipeline>,
        buffers: &[&wgpu::Buffer],
    ) -> Dispatch {
        self.bind_groups += 1;
        let entries: Vec<_> = buffers
            .iter()
            .zip(0..)
            .map(|(buffer, binding)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(pipeline.name),
            layout: &pipeline.layout,
            entries: &entries,
        });
        Dispatch { pipeline: pipeline.clone(), group }
    }

    /// Number of compiled pipelines.
    pub fn len(&self) -> usize {
        self.pipelines.len()
    }

    /// Whether nothing has been compiled yet.
    pub fn is_empty(&self) -> bool {
        self.pipelines.is_empty()
    }
}

impl Dispatch {
    /// Records the dispatch; a grid with a zero side is skipped.
    pub fn record(&self, pass: &mut wgpu::ComputePass<'_>, [x, y, z]: [u32; 3]) {
        if ![x, y, z].contains(&0) {
            pass.set_pipeline(&self.pipeline.pipeline);
            pass.set_bind_group(0, &self.group, &[]);
            pass.dispatch_workgroups(x, y, z);
        }
    }
}

async fn compile(gpu: &Gpu, shader: &Shader) -> Result<Pipeline> {
    gpu.check()?;
    // Drivers fail with any of these.
    let filters = [ErrorFilter::OutOfMemory, ErrorFilter::Internal, ErrorFilter::Validation];
    let [memory, internal, validation] = filters.map(|filter| gpu.device.push_error_scope(filter));
    let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some(shader.name),
        source: wgpu::ShaderSource::Wgsl(shader.source.as_str().into()),
    });
    let entries: Vec<_> = shader
        .bindings
        .iter()
        .zip(0..)
        .map(|(access, binding)| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only: *access == Access::Read },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        })
        .collect();
    let layout = gpu.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: Some(shader.name),
        entries: &entries,
    });
    let pipeline_layout = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: Some(shader.name),
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some(shader.name),
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some("main"),
        compilation_options: Default::default(),
        cache: None,
    });
    // The scopes end before the first wait: other models use the device meanwhile.
    let ends = join3(validation.pop(), internal.pop(), memory.pop());
    let (invalid, failed, short) = answered(ends).await?;
    match invalid.or(failed).or(short) {
        Some(error) => {
            // Firefox reports compile errors only here.
            let info = answered(module.get_compilation_info()).await?;
            let messages: String = info.messages.iter().map(|info| info.message.as_str()).collect();
            Err(Error::Pipeline { shader: shader.name, reason: format!("{error} {messages}") })
        }
        None => Ok(Pipeline { name: shader.name, pipeline, layout }),
    }
}
