//! GPU time of a step, where the device can measure it.

use crate::{Result, gpu::Gpu};

/// Two timestamps, at begin and end of a step's pass.
pub struct Profiler {
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer, // [2] u64: ticks at begin and end
    period: f32,            // nanoseconds a tick
}

impl Profiler {
    /// Bytes of the resolved timestamps.
    pub const BYTES: u64 = 16;

    /// None if the adapter has no timestamps.
    pub async fn new(gpu: &Gpu) -> Result<Option<Profiler>> {
        if !gpu.adapter.timestamps {
            return Ok(None);
        }
        let usage = wgpu::BufferUsages::QUERY_RESOLVE;
        Ok(Some(Profiler {
            queries: gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("step time"),
                ty: wgpu::QueryType::Timestamp,
                count: 2,
            }),
            resolved: gpu.buffer("step time", Profiler::BYTES, usage).await?,
            period: gpu.queue.get_timestamp_period(),
        }))
    }

    /// The timestamp writes for the pass's descriptor.
    pub fn writes(&self) -> wgpu::ComputePassTimestampWrites<'_> {
        wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(0),
            end_of_pass_write_index: Some(1),
        }
    }

    /// Records the copy of the timestamps to the returned buffer.
    pub fn resolve(&self, encoder: &mut wgpu::CommandEncoder) -> &wgpu::Buffer {
        encoder.resolve_query_set(&self.queries, 0..2, &self.resolved, 0);
        &self.resolved
    }

    /// Converts the four words of the two timestamps to nanoseconds.
    pub fn nanos(&self, words: &[u32]) -> Option<u64> {
        let &[low0, high0, low1, high1] = words else { return None };
        let tick = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let ticks = tick(low1, high1).checked_sub(tick(low0, high0))?;
        Some((ticks as f64 * f64::from(self.period)) as u64)
    }
}
