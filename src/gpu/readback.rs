//! Copies bytes back from the device.

use std::ops::Range;

use futures::channel::oneshot;
use wgpu::{BufferUsages, MapMode};

use super::{Gpu, wait::Completion};
use crate::{Error, Result};

/// A mappable buffer that receives copies, is mapped once, and is then reused.
pub struct Readback {
    buffer: wgpu::Buffer,
    mapped: Option<Completion<Result<(), wgpu::BufferAsyncError>>>,
    bytes: u64,
}

impl Readback {
    /// Allocates `bytes` bytes.
    pub async fn new(gpu: &Gpu, bytes: u64) -> Result<Readback> {
        let buffer = gpu.buffer("read-back", bytes, BufferUsages::MAP_READ).await?;
        Ok(Readback { buffer, mapped: None, bytes: 0 })
    }

    /// Allocates `bytes` bytes within the limits; if memory lacks, the device reports it later.
    pub fn at_once(gpu: &Gpu, bytes: u64) -> Readback {
        let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("read-back"),
            size: bytes,
            usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        Readback { buffer, mapped: None, bytes: 0 }
    }

    /// Records a copy of the first `bytes` of `source`, after the earlier copies.
    pub fn copy(&mut self, encoder: &mut wgpu::CommandEncoder, source: &wgpu::Buffer, bytes: u64) {
        self.copy_range(encoder, source, 0..bytes);
    }

    /// Records a copy of a byte range of `source`, after the earlier copies.
    pub fn copy_range(
        &mut self,
        encoder: &mut wgpu::CommandEncoder,
        source: &wgpu::Buffer,
        range: Range<u64>,
    ) {
        let bytes = range.end - range.start;
        encoder.copy_buffer_to_buffer(source, range.start, &self.buffer, self.bytes, bytes);
        self.bytes += bytes;
    }

    /// Starts mapping, after the copies are submitted.
    pub fn map(&mut self, submission: wgpu::SubmissionIndex) {
        let (sender, by) = oneshot::channel();
        self.buffer.map_async(MapMode::Read, ..self.bytes, move |result| {
            // The receiver is gone only if nobody waits any more.
            let _ = sender.send(result);
        });
        self.mapped = Some(Completion { submission, by });
    }

    /// Waits for the copies and returns them as words. The buffer can then be reused.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] if the device was lost meanwhile.
    pub async fn words(&mut self, gpu: &Gpu) -> Result<Vec<u32>> {
        let lost = |reason: String| Error::DeviceLost { reason };
        let mapped = self.mapped.take().ok_or_else(|| lost("nothing was mapped".into()))?;
        gpu.wait(mapped).await?.map_err(|e| lost(e.to_string()))?;
        let view = self.buffer.get_mapped_range(..self.bytes).map_err(|e| lost(e.to_string()))?;
        let words = bytemuck::pod_collect_to_vec(&view);
        drop(view);
        self.buffer.unmap();
        self.bytes = 0;
        Ok(words)
    }
}
