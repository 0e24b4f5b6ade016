//! Times dispatches, and measures the device's memory bandwidth.

use std::time::{Duration, Instant};

use tabloom::{
    Result,
    gpu::{
        Access::{Read, ReadWrite},
        Dispatch, Gpu, Kernels, Shader,
    },
};

/// Shortest measured time, so that submission and waiting are negligible.
const LEAST: Duration = Duration::from_millis(50);
/// Bytes to copy: larger than any cache, within the smallest binding limit.
const COPY_BYTES: u64 = 128 << 20;

const COPY: &str = "
@group(0) @binding(0) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> copy: array<vec4<u32>>;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    copy[id.x] = source[id.x];
}
";

/// Dispatches that run in order, and their grids.
pub type Sequence = Vec<(Dispatch, [u32; 3])>;

/// Seconds per round of `sequence`: the median of `runs`.
pub async fn time(gpu: &Gpu, sequence: &Sequence, runs: usize) -> Result<f64> {
    let mut rounds = 1;
    // This is also the warm-up.
    while run(gpu, sequence, rounds).await? < LEAST {
        rounds *= 2;
    }
    let mut times = Vec::new();
    for _ in 0..runs {
        times.push(run(gpu, sequence, rounds).await?);
    }
    times.sort();
    Ok(times[runs / 2].as_secs_f64() / f64::from(rounds))
}

async fn run(gpu: &Gpu, sequence: &Sequence, rounds: u32) -> Result<Duration> {
    let mut encoder = gpu.device.create_command_encoder(&Default::default());
    let mut pass = encoder.begin_compute_pass(&Default::default());
    for _ in 0..rounds {
        for (dispatch, grid) in sequence {
            dispatch.record(&mut pass, *grid);
        }
    }
    drop(pass);
    let start = Instant::now();
    gpu.queue.submit([encoder.finish()]);
    gpu.idle().await?;
    Ok(start.elapsed())
}

/// Bandwidth of a copy kernel in bytes per second, reads and writes together.
pub async fn copy(gpu: &Gpu, kernels: &mut Kernels, runs: usize) -> Result<f64> {
    let source = gpu.storage("copy's source", COPY_BYTES).await?;
    let target = gpu.storage("copy's target", COPY_BYTES).await?;
    let bindings = vec![Read, ReadWrite];
    let shader = Shader { name: "copy", source: COPY.into(), bindings };
    let pipeline = kernels.pipeline(gpu, &shader).await?;
    let dispatch = kernels.bind(gpu, &pipeline, &[&source, &target]);
    let grid = [(COPY_BYTES / 16 / 256) as u32, 1, 1];
    let seconds = time(gpu, &vec![(dispatch, grid)], runs).await?;
    source.destroy();
    target.destroy();
    Ok(2.0 * COPY_BYTES as f64 / seconds)
}
