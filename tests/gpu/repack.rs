//! Repacking of checkpoint bytes on the GPU against [`HostSink`], its CPU reference.

mod quantise;

use self::quantise::expect_as_good;
use crate::support::{Bench, seeded, uniform};
use bytemuck::Zeroable;
use fastrand::Rng;
use half::{bf16, f16};
use tabloom::{
    gpu::{Gpu, Power, Readback},
    kernels::{Repack, repack::Rows},
    layout::{BlockType, Codebook, FloatType, Grid, HostMatrix, Layout, Number, Packing},
    model::Param,
    weights::{Encoding, GpuSink, HostSink, RepackJob, Weight, WeightSink},
};

const FLOATS: [FloatType; 3] = [FloatType::F32, FloatType::F16, FloatType::Bf16];
const PARAM: Param = Param::Embed;

/// The [`HostSink`]'s result for whole tensors that fill a matrix.
fn on_the_host(
    layout: Layout,
    (n, k): (usize, usize),
    interleaved: Option<usize>,
    tensors: &[(Encoding, usize, &[u8])],
) -> HostMatrix {
    pollster::block_on(async {
        let mut sink = HostSink::new();
        sink.create(&[Weight::matrix(PARAM, (n, k), layout)]).await.expect("it fits");
        for (encoding, columns, bytes) in tensors {
            let job = RepackJob {
                param: PARAM,
                encoding: *encoding,
                first_row: 0,
                rows: n,
                first_column: 0,
                columns: *columns,
                interleaved,
            };
            sink.stage(&job, 0, &bytes.to_vec().into()).expect("it is staged");
            sink.flush(&job).await.expect("it is repacked");
        }
        sink.finish().await.expect("it is complete");
        sink.into_weights().matrices.remove(&PARAM).expect("it was created").remove(0)
    })
}

/// A matrix that is filled on the GPU. It starts with ones, so that padding has to be written.
struct OnTheGpu<'a> {
    bench: &'a mut Bench,
    matrix: HostMatrix,
    /// As in [`RepackJob`], or 0.
    interleaved: u32,
    first_column: u32,
}

impl<'a> OnTheGpu<'a> {
    fn new(bench: &'a mut Bench, layout: Layout, n: usize, k: usize) -> OnTheGpu<'a> {
        let mut matrix = HostMatrix::zeroed(layout, n, k);
        matrix.words.fill(u32::MAX);
        matrix.scales.fill(u32::MAX);
        OnTheGpu { bench, matrix, interleaved: 0, first_column: 0 }
    }

    /// Repacks a whole tensor in two pieces, the last 8 rows first.
    async fn repack(&mut self, kernel: Repack, columns: usize, bytes: &[u8]) {
        let HostMatrix { layout, n, k, .. } = self.matrix;
        let (writes_words, writes_scales) = (kernel.writes_words(), kernel.writes_scales(layout));
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(4), 0);
        let staged: Vec<u32> = bytemuck::pod_collect_to_vec(&padded);
        for (first, end) in [(n - 8, n), (0, n - 8)] {
            let rows = Rows {
                source: first as u32,
                row: first as u32,
                rows: (end - first) as u32,
                columns: columns as u32,
                stride: kernel.stride(layout, k) as u32,
                interleaved: self.interleaved,
                staged: n as u32,
                first_column: self.first_column,
                width: k as u32,
            };
            let job = bytemuck::cast_slice(std::slice::from_ref(&rows));
            let mut buffers: Vec<&[u32]> = vec![job];
            if !matches!(kernel, Repack::Finish(_)) {
                buffers.push(&staged);
            }
            if writes_words {
                buffers.push(&self.matrix.words);
            }
            if writes_scales {
                buffers.push(&self.matrix.scales);
            }
            let shader = kernel.shader();
            let mut written =
                self.bench.run_shader(&shader, kernel.grid(&rows), &buffers).await.into_iter();
            if writes_words {
                self.matrix.words = written.next().expect("words are written");
            }
            if writes_scales {
                self.matrix.scales = written.next().expect("scales are written");
            }
        }
    }
}

/// Numbers as stored in a checkpoint.
fn encode(float: FloatType, values: &[f32]) -> Vec<u8> {
    let bytes = values.iter().map(|value| match float {
        FloatType::F32 => value.to_le_bytes().to_vec(),
        FloatType::F16 => f16::from_f32(*value).to_le_bytes().to_vec(),
        FloatType::Bf16 => bf16::from_f32(*value).to_le_bytes().to_vec(),
    });
    bytes.flatten().collect()
}

#[test]
fn numbers_are_kept_or_rounded_to_nearest() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let (n, k) = (13, 171);
        // f16 of all magnitudes and beyond, and ties.
        let mut values = uniform(&mut rng, n * k);
        for (i, value) in values.iter_mut().enumerate() {
            *value *= 2f32.powi(i as i32 % 44 - 26);
        }
        values[..6].copy_from_slice(&[0.0, -0.0, 65_519.9, -65_520.0, 1.000_488_3, 1.001_464_8]);
        for from in FLOATS {
            let bytes = encode(from, &values);
            for to in FLOATS.map(FloatType::layout) {
                let host = on_the_host(to, (n, k), None, &[(Encoding::Float(from), k, &bytes)]);
                let mut device = OnTheGpu::new(&mut bench, to, n, k);
                device.repack(Repack::Numbers { from: from.layout(), to }, k, &bytes).await;
                assert_eq!(device.matrix, host, "{from:?} to {to:?}");
            }
        }
    });
}

#[test]
fn unchanged_rows_are_placed_for_any_pieces_chunks_and_parts() {
    pollster::block_on(async {
        let (gpu, mut rng) = (Gpu::open(Power::HighPerformance).await.unwrap(), seeded());
        let (n, k, layout) = (61, 64, Layout::Bf16);
        let row = 2 * k;
        let bytes: Vec<u8> = (0..n * row).map(|_| rng.u8(..)).collect();
        // Seven rows in a part.
        let mut sink = GpuSink::new(&gpu, 7 * row as u64 + 5).await.unwrap();
        sink.create(&[Weight::matrix(PARAM, (n, k), layout)]).await.unwrap();
        let cut = rng.usize(1..n);
        for (first_row, end) in [(cut, n), (0, cut)] {
            let job = RepackJob {
                param: PARAM,
                encoding: Encoding::Float(FloatType::Bf16),
                first_row,
                rows: end - first_row,
                first_column: 0,
                columns: k,
                interleaved: None,
            };
            let piece = &bytes[first_row * row..end * row];
            let mut at = 0;
            while at < piece.len() {
                let next = (at + 4 * rng.usize(1..2 * row)).min(piece.len());
                sink.stage(&job, at as u64, &piece[at..next].to_vec().into()).unwrap();
                at = next;
            }
            sink.flush(&job).await.unwrap();
        }
        sink.finish().await.unwrap();
        let weights = sink.into_weights();
        let parts = &weights.matrices[&PARAM].parts;
        assert_eq!(
            parts.iter().map(|part| part.rows).collect::<Vec<_>>(),
            [[7; 8].as_slice(), &[5]].concat()
        );
        for part in parts {
            let expected = &bytes[part.first * row..(part.first + part.rows) * row];
            let mut readback = Readback::new(&gpu, expected.len() as u64).await.unwrap();
            let mut encoder = gpu.device.create_command_encoder(&Default::default());
            readback.copy(&mut encoder, &part.words, expected.len() as u64);
            readback.map(gpu.queue.submit([encoder.finish()]));
            let found = readback.words(&gpu).await.unwrap();
            assert_eq!(
                bytemuck::cast_slice::<u32, u8>(&found),
                expected,
                "from row {}",
                part.first
            );
        }
    });
}

#[test]
fn numbers_may_be_column_major_and_in_pieces() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let (n, k, cut) = (20, 192, 128);
        let values = uniform(&mut rng, n * k);
        let columns: Vec<f32> = (0..n * k).map(|i| values[i % n * k + i / n]).collect();
        for from in FLOATS {
            let (by_rows, by_columns) = (encode(from, &values), encode(from, &columns));
            for to in [
                Layout::F32,
                Layout::F16,
                Layout::Bf16,
                Layout::W8 { group: 64 },
                Layout::W4 { group: 32 },
                Layout::W4 { group: 128 },
            ] {
                let name = format!("{from:?} to {to:?}");
                let rows = &[(Encoding::Float(from), k, &by_rows[..])];
                let whole = &[(Encoding::FloatColumns(from), k, &by_columns[..])];
                let host = on_the_host(to, (n, k), None, rows);
                assert_eq!(on_the_host(to, (n, k), None, whole), host, "{name} on the host");

                let mut expected = OnTheGpu::new(&mut bench, to, n, k);
                expected.repack(Repack::Numbers { from: from.layout(), to }, k, &by_rows).await;
                let expected = expected.matrix;
                let mut device = OnTheGpu::new(&mut bench, to, n, k);
                for (first, end) in [(cut, k), (0, cut)] {
                    let at = |column| column * n * from.bytes() as usize;
                    device.first_column = first as u32;
                    let kernel = Repack::Columns { from: from.layout(), to };
                    device.repack(kernel, end - first, &by_columns[at(first)..at(end)]).await;
                }
                assert_eq!(device.matrix, expected, "{name} on the device");
            }
        }
    });
}

/// Random bytes of an encoding; floats have sensible sizes.
fn random_bytes(rng: &mut Rng, encoding: Encoding, n: usize, columns: usize) -> Vec<u8> {
    let bytes = encoding.bytes(n, columns) as usize;
    let floats = |float: FloatType, rng: &mut Rng| {
        encode(float, &uniform(rng, bytes / float.bytes() as usize))
    };
    match encoding {
        Encoding::Scales { number: Number::Float(float) | Number::Float127(float), .. }
        | Encoding::Mins { float, .. }
        | Encoding::ZeroNumbers { float, .. } => floats(float, rng),
        Encoding::Scales { number: Number::Exponent, .. } => {
            (0..bytes).map(|_| rng.u8(..)).collect()
        }
        _ => (0..bytes).map(|_| rng.u8(..)).collect(),
    }
}

/// Codes, scales, mins and zero points of every format, with the columns that each tensor has.
fn formats(k: usize) -> Vec<(Layout, Vec<(Encoding, usize)>)> {
    let each = Grid::EACH;
    let transposed = Grid { transposed: true, ..each };
    let w4 = Layout::W4 { group: 32 };
    let groups = w4.groups(k);
    let scales = |float, grid, zero| Encoding::Scales { number: Number::Float(float), grid, zero };
    let zeros = |packing, grid, wraps| Encoding::ZeroPoints { packing, grid, wraps };
    let nibbles = |packing| (Encoding::Nibbles(packing), k);
    let [f32, f16, bf16] = FLOATS;
    let e2m1 = Layout::Codebook { codebook: Codebook::E2m1, group: 32 };
    let nf4 = Layout::Codebook { codebook: Codebook::NormalFloat, group: 64 };
    let exponents = Encoding::Scales { number: Number::Exponent, grid: each, zero: None };
    let bytes = |unsigned| (Encoding::Bytes { unsigned, transposed: false }, k);
    let w8 = Layout::W8 { group: 32 };
    let scb = Number::Float127(f32);
    let row = |layout: Layout| Grid { groups: layout.groups(k), ..each };
    let float8 = Layout::F8 { group: 128 };
    let blocks = Grid { rows: 16, ..each };
    let by_row = Encoding::Scales { number: scb, grid: row(w8), zero: Some(0) };
    vec![
        (w4, vec![nibbles(Packing::Rows), (scales(bf16, each, Some(8)), groups)]),
        (w4, vec![nibbles(Packing::Rows), (scales(f32, row(w4), Some(8)), 1)]),
        (
            w4,
            vec![
                nibbles(Packing::Rows),
                (scales(f16, each, None), groups),
                (zeros(Packing::RowsOfEight, each, false), groups),
            ],
        ),
        (
            w4,
            vec![
                nibbles(Packing::Transposed),
                (scales(f16, transposed, None), groups),
                (zeros(Packing::Columns, transposed, true), groups),
            ],
        ),
        (
            w4,
            vec![
                nibbles(Packing::AwqColumns),
                (scales(f16, transposed, None), groups),
                (zeros(Packing::AwqColumns, transposed, false), groups),
            ],
        ),
        (
            w4,
            vec![
                nibbles(Packing::Rows),
                (scales(f16, each, None), 16),
                (zeros(Packing::Rows, each, false), 16),
            ],
        ),
        (
            w4,
            vec![
                nibbles(Packing::Rows),
                (scales(bf16, each, None), groups),
                (Encoding::Mins { float: bf16, grid: each, shift: 0 }, groups),
            ],
        ),
        (
            w8,
            vec![
                bytes(true),
                (scales(f16, each, None), groups),
                (Encoding::Mins { float: f16, grid: each, shift: 128 }, groups),
            ],
        ),
        (
            w8,
            vec![
                (Encoding::Bytes { unsigned: true, transposed: true }, k),
                (scales(f16, transposed, Some(0)), groups),
            ],
        ),
        (
            w4,
            vec![
                nibbles(Packing::Signed),
                (scales(bf16, transposed, None), groups),
                (Encoding::Mins { float: bf16, grid: transposed, shift: -8 }, groups),
            ],
        ),
        (
            w4,
            vec![
                nibbles(Packing::Halves { high: true }),
                (scales(bf16, each, None), groups),
                (Encoding::ZeroNumbers { float: bf16, grid: each }, groups),
            ],
        ),
        (w8, vec![bytes(false), (by_row, 1)]),
        (float8, vec![bytes(false), (scales(f32, blocks, Some(0)), float8.groups(k))]),
        (e2m1, vec![nibbles(Packing::Rows), (exponents, groups)]),
        (nf4, vec![nibbles(Packing::HighFirst), (scales(f32, each, None), nf4.groups(k))]),
    ]
}

#[test]
fn every_format_is_repacked_as_on_the_host() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let (n, k) = (32, 256);
        for (layout, encodings) in formats(k) {
            let stored = encodings.iter().map(|(encoding, columns)| {
                (*encoding, *columns, random_bytes(&mut rng, *encoding, n, *columns))
            });
            let stored: Vec<_> = stored.collect();
            let tensors: Vec<_> = stored
                .iter()
                .map(|(encoding, columns, bytes)| (*encoding, *columns, &bytes[..]))
                .collect();
            let host = on_the_host(layout, (n, k), None, &tensors);
            let mut device = OnTheGpu::new(&mut bench, layout, n, k);
            for (encoding, columns, bytes) in stored.iter().rev() {
                let step = encoding.step(layout).expect("one step");
                device.repack(step, *columns, bytes).await;
            }
            for mins in encodings.iter().filter_map(|(encoding, _)| encoding.leaves()) {
                device.repack(Repack::Finish(mins), 0, &[]).await;
            }
            assert_eq!(device.matrix, host, "{layout:?} {encodings:?}");
        }
    });
}

#[test]
fn pieces_of_columns_fill_their_own_columns() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let (n, k) = (24, 96);
        let grid = Grid { transposed: true, ..Grid::EACH };
        let number = Number::Float(FloatType::F16);
        let layout = Layout::W4 { group: 32 };
        for (encoding, columns, cut) in [
            (Encoding::Nibbles(Packing::Transposed), k, 40),
            (Encoding::Nibbles(Packing::AwqColumns), k, 40),
            (Encoding::Scales { number, grid, zero: Some(8) }, 3, 1),
        ] {
            let bytes = random_bytes(&mut rng, encoding, n, columns);
            let whole = on_the_host(layout, (n, k), None, &[(encoding, columns, &bytes)]);
            let host = pollster::block_on(async {
                let mut sink = HostSink::new();
                sink.create(&[Weight::matrix(PARAM, (n, k), layout)]).await.unwrap();
                let kernel = encoding.step(layout).expect("one step");
                let mut device = OnTheGpu::new(&mut bench, layout, n, k);
                for (first_column, end) in [(cut, columns), (0, cut)] {
                    let columns = end - first_column;
                    let job = RepackJob {
                        param: PARAM,
                        encoding,
                        first_row: 0,
                        rows: n,
                        first_column,
                        columns,
                        interleaved: None,
                    };
                    let at = encoding.bytes(n, first_column) as usize;
                    let piece = &bytes[at..at + job.bytes() as usize];
                    sink.stage(&job, 0, &piece.to_vec().into()).unwrap();
                    sink.flush(&job).await.unwrap();
                    device.first_column = first_column as u32;
                    device.repack(kernel, columns, piece).await;
                }
                let found = device.matrix;
                let place = if kernel.writes_words() { &found.words } else { &found.scales };
                let expected = if kernel.writes_words() { &whole.words } else { &whole.scales };
                assert_eq!(place, expected, "{encoding:?} on the device");
                sink.into_weights().matrices.remove(&PARAM).unwrap().remove(0)
            });
            assert_eq!(host, whole, "{encoding:?} on the host");
        }
    });
}

#[test]
fn a_vector_fills_from_any_row() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let values = uniform(&mut rng, 75);
        for from in FLOATS {
            let bytes = encode(from, &values);
            let staged: Vec<u32> = bytemuck::pod_collect_to_vec(
                &[&bytes[..], &[0, 0]].concat()[..bytes.len().next_multiple_of(4)],
            );
            for less_one in [false, true] {
                let kernel = match less_one {
                    true => Repack::LessOne { from: from.layout() },
                    false => Repack::Numbers { from: from.layout(), to: Layout::F32 },
                };
                let rows =
                    Rows { row: 5, rows: 75, columns: 1, stride: 1, staged: 75, ..Rows::zeroed() };
                let job = bytemuck::cast_slice(std::slice::from_ref(&rows));
                let buffers = [job, &staged, &[7; 100]];
                let found = bench.run_shader(&kernel.shader(), kernel.grid(&rows), &buffers).await;
                let mut expected = vec![7; 100];
                for (word, value) in expected[5..].iter_mut().zip(&values) {
                    let stored = match from {
                        FloatType::F32 => *value,
                        FloatType::F16 => f16::from_f32(*value).to_f32(),
                        FloatType::Bf16 => bf16::from_f32(*value).to_f32(),
                    };
                    *word = (if less_one { stored + 1.0 } else { stored }).to_bits();
                }
                assert_eq!(found[0], expected, "{kernel:?}");
            }
        }
    });
}

/// Blocks of random bits with scales of a sensible size.
fn random_blocks(rng: &mut Rng, block: BlockType, count: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..count * block.bytes()).map(|_| rng.u8(..)).collect();
    for bytes in bytes.chunks_mut(block.bytes()) {
        if block == BlockType::MXFP4 {
            bytes[0] = rng.u8(118..128);
            continue;
        }
        let halves = match block {
            BlockType::Q2_K => 80..84,
            BlockType::Q3_K => 108..110,
            BlockType::Q6_K => 208..210,
            BlockType::Q4_1 | BlockType::Q5_1 | BlockType::Q4_K | BlockType::Q5_K => 0..4,
            _ => 0..2,
        };
        for half in bytes[halves].chunks_mut(2) {
            half.copy_from_slice(&f16::from_f32(rng.f32() / 16.0 - 1.0 / 32.0).to_le_bytes());
        }
    }
    bytes
}

#[test]
fn blocks_are_kept_or_converted_as_on_the_host() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let (n, k) = (20, 512);
        for from in BlockType::READABLE {
            let bytes = random_blocks(&mut rng, from, n * k / from.elements());
            let mut values = vec![0.0; n * k];
            from.dequantise(&bytes, &mut values);
            let kept = from.layout().expect("its values are understood");
            for to in [kept, Layout::F16, Layout::W8 { group: 32 }] {
                let name = format!("{from} to {to:?}");
                let host = on_the_host(to, (n, k), None, &[(Encoding::Blocks(from), k, &bytes)]);
                let mut device = OnTheGpu::new(&mut bench, to, n, k);
                device.repack(Repack::Blocks { from, to }, k, &bytes).await;
                let device = device.matrix;
                match to.quantised_group() {
                    _ if to == kept => assert_eq!(device, host, "{name}"),
                    // Values of blocks are on a grid, where ties are common.
                    Some(_) => expect_as_good(&name, &device, &host, &values),
                    None => {
                        // A product and a sum may be rounded once or twice.
                        let mut found = vec![0.0; k];
                        let rows = values.chunks_exact(k).enumerate();
                        for (row, expected) in rows {
                            device.dequantise_row(row, &mut found);
                            let peak = expected.iter().fold(0f32, |peak, x| peak.max(x.abs()));
                            let bound = 1e-3 * peak;
                            for (found, expected) in found.iter().zip(expected) {
                                assert!(
                                    (found - expected).abs() <= bound,
                                    "{name}: {found} {expected}"
                                );
                            }
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn interleaved_rows_are_put_in_their_places() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let (n, k, head) = (24, 256, 8);
        let floats = encode(FloatType::F32, &uniform(&mut rng, n * k));
        let q8_0 = random_blocks(&mut rng, BlockType::Q8_0, n * k / 32);
        let f32s = Encoding::Float(FloatType::F32);
        for (encoding, to, kernel, bytes) in [
            (f32s, Layout::F32, Repack::Numbers { from: Layout::F32, to: Layout::F32 }, &floats),
            (
                Encoding::Blocks(BlockType::Q8_0),
                Layout::W8 { group: 32 },
                Repack::Blocks { from: BlockType::Q8_0, to: Layout::W8 { group: 32 } },
                &q8_0,
            ),
            (
                Encoding::Blocks(BlockType::Q8_0),
                Layout::F32,
                Repack::Blocks { from: BlockType::Q8_0, to: Layout::F32 },
                &q8_0,
            ),
        ] {
            let host = on_the_host(to, (n, k), Some(head), &[(encoding, k, bytes)]);
            let mut device = OnTheGpu::new(&mut bench, to, n, k);
            device.interleaved = head as u32;
            device.repack(kernel, k, bytes).await;
            assert_eq!(device.matrix, host, "{encoding:?} to {to:?}");
            // Stored rows 0 and 1 of a head are a rotated pair: its rows 0 and 4.
            let plain = on_the_host(to, (n, k), None, &[(encoding, k, bytes)]);
            let row = |matrix: &HostMatrix, row| {
                let mut values = vec![0.0; k];
                matrix.dequantise_row(row, &mut values);
                values
            };
            for (place, stored) in [(0, 0), (4, 1), (1, 2), (5, 3), (7, 7), (8, 8), (12, 9)] {
                assert_eq!(row(&host, place), row(&plain, stored), "{encoding:?} row {place}");
            }
        }
    });
}
