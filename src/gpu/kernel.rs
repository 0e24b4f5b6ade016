//! Compiled pipelines and bind groups, cached.

use std::{
    cell::OnceCell,
    collections::HashMap,
    mem,
    ops::ControlFlow::{self, Continue},
    rc::Rc,
};

use futures::future::join3;
use wgpu::ErrorFilter;

use super::{Access, Gpu, Shader, ahead, patience::answered};
use crate::{Error, Result};

/// A shader that is compiled before it is dispatched.
pub struct Pipeline {
    pub name: &'static str,
    compiled: OnceCell<Compiled>,
}

struct Compiled {
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
}

impl Pipeline {
    fn compiled(&self) -> &Compiled {
        self.compiled.get().expect("pipelines are compiled before they are bound")
    }
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
    /// Those that are not compiled yet.
    waiting: Vec<Shader>,
    /// Bind groups made so far; constant while steps run.
    pub bind_groups: usize,
}

impl Kernels {
    /// Compiles a shader, or returns the pipeline of an equal one.
    ///
    /// # Errors
    /// As for [`Kernels::compile`].
    pub async fn pipeline(&mut self, gpu: &Gpu, shader: &Shader) -> Result<Rc<Pipeline>> {
        let pipeline = self.declare(shader.clone());
        self.compile(gpu, |_, _| Continue(())).await?;
        Ok(pipeline)
    }

    /// The pipeline of a shader, which [`Kernels::compile`] is to compile before it is bound.
    pub fn declare(&mut self, shader: Shader) -> Rc<Pipeline> {
        if let Some(pipeline) = self.pipelines.get(&shader) {
            return pipeline.clone();
        }
        let pipeline = Rc::new(Pipeline { name: shader.name, compiled: OnceCell::new() });
        self.waiting.push(shader.clone());
        self.pipelines.insert(shader, pipeline.clone());
        pipeline
    }

    /// Compiles the pipelines that have been declared, side by side where the browser does so.
    ///
    /// Calls `on_progress` with the number of those that are compiled and their total; it may abort.
    ///
    /// # Errors
    /// [`Error::Pipeline`] with the compiler's message. Then all that are not compiled are forgotten.
    pub async fn compile(
        &mut self,
        gpu: &Gpu,
        mut on_progress: impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<()> {
        let waiting = mem::take(&mut self.waiting);
        let compiled = self.compile_all(gpu, &waiting, &mut on_progress).await;
        self.pipelines.retain(|_, pipeline| pipeline.compiled.get().is_some());
        compiled
    }

    async fn compile_all(
        &self,
        gpu: &Gpu,
        shaders: &[Shader],
        on_progress: &mut impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<()> {
        let total = shaders.len();
        let mut progress = |done| match on_progress(done, total) {
            Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Aborted),
        };
        let ahead = ahead::compile(gpu, shaders, &mut progress).await?;
        for (done, shader) in (1..).zip(shaders) {
            // Each is declared once.
            let _ = self.pipelines[shader].compiled.set(compile(gpu, shader).await?);
            if ahead.is_none() {
                progress(done)?;
            }
        }
        Ok(())
    }

    /// Binds whole buffers to a pipeline, in the order of its bindings.
    ///
    /// # Panics
    /// If it has not been compiled.
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
            layout: &pipeline.compiled().layout,
            entries: &entries,
        });
        Dispatch { pipeline: pipeline.clone(), group }
    }

    /// Number of pipelines.
    pub fn len(&self) -> usize {
        self.pipelines.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pipelines.is_empty()
    }
}

impl Dispatch {
    /// Records the dispatch; a grid with a zero side is skipped.
    pub fn record(&self, pass: &mut wgpu::ComputePass<'_>, [x, y, z]: [u32; 3]) {
        if ![x, y, z].contains(&0) {
            pass.set_pipeline(&self.pipeline.compiled().pipeline);
            pass.set_bind_group(0, &self.group, &[]);
            pass.dispatch_workgroups(x, y, z);
        }
    }
}

async fn compile(gpu: &Gpu, shader: &Shader) -> Result<Compiled> {
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
        None => Ok(Compiled { pipeline, layout }),
    }
}
