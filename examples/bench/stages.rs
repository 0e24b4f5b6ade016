//! Costs of loading on CPU and GPU: digests, and repacking bytes into layouts.

use std::time::{Duration, Instant};

use anyhow::Result;
use bytemuck::Zeroable;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tabloom::{
    gpu::{Gpu, Kernels, Power},
    kernels::{
        Repack,
        repack::{Codes, Rows},
    },
    layout::{BlockType, Layout, Packing},
    weights::PIECE_BYTES,
};

use super::timing;

/// Columns of the staged matrix.
const COLUMNS: usize = 2048;
/// Shortest time for measuring a rate.
const LEAST: Duration = Duration::from_millis(500);

/// Measure digests and the repacking of staged bytes.
#[derive(clap::Args)]
pub struct Options {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub async fn run(options: &Options) -> Result<()> {
    let gpu = Gpu::open(Power::HighPerformance).await?;
    let mut kernels = Kernels::default();
    let runs = if gpu.adapter.software { 3 } else { 7 };
    let copied = timing::copy(&gpu, &mut kernels, runs).await?;
    let (mut rates, mut shares) = (Map::new(), Map::new());
    for (name, repack, to, row_bytes) in kinds() {
        eprintln!("{name}");
        let rows = PIECE_BYTES as usize / row_bytes;
        let staged: Vec<u32> = numbers(rows * row_bytes / 4);
        let job = Rows {
            rows: rows as u32,
            columns: COLUMNS as u32,
            stride: repack.stride(to, COLUMNS) as u32,
            staged: rows as u32,
            ..Rows::zeroed()
        };
        let job_buffer = gpu.upload("job", bytemuck::cast_slice(&[job])).await?;
        let staging = gpu.upload("staging", &staged).await?;
        let (words, scales) = (to.row_words(COLUMNS), to.row_scales(COLUMNS));
        let mut bound = vec![job_buffer, staging];
        let mut written = 0;
        let outputs =
            [(repack.writes_words(), words, "words"), (repack.writes_scales(to), scales, "scales")];
        for (_, count, what) in outputs.into_iter().filter(|(writes, ..)| *writes) {
            written += (rows * count * 4) as u64;
            bound.push(gpu.storage(what, (rows * count * 4) as u64).await?);
        }
        let pipeline = kernels.pipeline(&gpu, &repack.shader()).await?;
        let dispatch = kernels.bind(&gpu, &pipeline, &bound.iter().collect::<Vec<_>>());
        let seconds = timing::time(&gpu, &vec![(dispatch, repack.grid(&job))], runs).await?;
        bound.iter().for_each(wgpu::Buffer::destroy);
        let read = (rows * row_bytes) as f64;
        rates.insert(name.into(), json!(read / seconds / 1e9));
        shares.insert(name.into(), json!((read + written as f64) / seconds / copied));
    }
    let figures = json!({
        "native_adapter": gpu.adapter.name,
        "copy_gb_s": copied / 1e9,
        "hash_mb_s": hashes(),
        "repack_gb_s": rates,
        "repack_share_of_copy": shares,
    });
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&figures)?),
        false => println!("{figures:#}"),
    }
    Ok(())
}

/// Name, repack step, written layout, and bytes per staged row.
fn kinds() -> Vec<(&'static str, Repack, Layout, usize)> {
    let (w4, w8) = (Layout::W4 { group: 32 }, Layout::W8 { group: 32 });
    let numbers = |to| Repack::Numbers { from: Layout::Bf16, to };
    let nibbles = |packing| Repack::Codes(Codes::Nibbles(packing));
    let bytes = Repack::Codes(Codes::Bytes { unsigned: false, transposed: false });
    let blocks = |from: BlockType| {
        let to = from.layout().unwrap_or(w8);
        let row = COLUMNS / from.elements() * from.bytes();
        (Repack::Blocks { from, to }, to, row)
    };
    let mut kinds = vec![
        ("bf16 to bf16", numbers(Layout::Bf16), Layout::Bf16, 2 * COLUMNS),
        ("bf16 to w8", numbers(w8), w8, 2 * COLUMNS),
        ("bf16 to w4", numbers(w4), w4, 2 * COLUMNS),
        ("int4 in rows", nibbles(Packing::Rows), w4, COLUMNS / 2),
        ("int4 of GPTQ", nibbles(Packing::Transposed), w4, COLUMNS / 2),
        ("int4 of AWQ", nibbles(Packing::AwqColumns), w4, COLUMNS / 2),
        ("int8", bytes, w8, COLUMNS),
    ];
    for (name, block) in [
        ("Q4_0", BlockType::Q4_0),
        ("Q8_0", BlockType::Q8_0),
        ("Q4_K", BlockType::Q4_K),
        ("Q6_K", BlockType::Q6_K),
    ] {
        let (repack, to, row) = blocks(block);
        kinds.push((name, repack, to, row));
    }
    kinds
}

/// bf16 pairs of either sign from 2^-6 to 2^-5.
fn numbers(count: usize) -> Vec<u32> {
    let mut rng = fastrand::Rng::with_seed(1);
    (0..count).map(|_| rng.u32(..) & 0x807f_807f | 0x3c80_3c80).collect()
}

/// Digest rates of this CPU in MB/s.
fn hashes() -> Value {
    let bytes = vec![7; 32 << 20];
    let rate = |digest: &dyn Fn(&[u8])| {
        let (start, mut rounds) = (Instant::now(), 0);
        while start.elapsed() < LEAST {
            digest(&bytes);
            rounds += 1;
        }
        rounds as f64 * bytes.len() as f64 / 1e6 / start.elapsed().as_secs_f64()
    };
    json!({
        "blake3": rate(&|bytes| {
            std::hint::black_box(blake3::hash(bytes));
        }),
        "sha256": rate(&|bytes| {
            std::hint::black_box(Sha256::digest(bytes));
        }),
    })
}
