//! Rope: queries and keys are normalised, rotated and written to the KV cache, whose positions may have gaps.

use super::*;
use tabloom::{
    kernels::{RopeKv, rope_table},
    model::QkNorm,
};

/// One head of a row in f64: normalised, then rotated.
fn rotated(
    x: &[f32],
    norm: Option<(&[f32], &[f32])>,
    position: usize,
    inv_freq: &[f64],
    magnitude: f64,
) -> Vec<f32> {
    let mut x: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
    if let Some((all, weight)) = norm {
        let squares: f64 = all.iter().map(|v| f64::from(*v) * f64::from(*v)).sum();
        let mean = squares / all.len() as f64;
        for (v, w) in x.iter_mut().zip(weight) {
            *v *= f64::from(*w) / (mean + 1e-6).sqrt();
        }
    }
    let half = inv_freq.len();
    for (d, f) in inv_freq.iter().enumerate() {
        let (sin, cos) = (position as f64 * f).sin_cos();
        let (sin, cos) = (magnitude * sin, magnitude * cos);
        (x[d], x[d + half]) = (x[d] * cos - x[d + half] * sin, x[d + half] * cos + x[d] * sin);
    }
    x.iter().map(|v| *v as f32).collect()
}

#[test]
fn rope_kv_normalises_rotates_and_writes_only_the_rows_slots() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for (shape, rotary, over) in [
            (Heads::new(3, 1, 24), 12, Some(QkNorm::Row)),
            (Heads::new(4, 2, 64), 64, Some(QkNorm::Head)),
            (Heads::new(2, 1, 80).int8(), 44, Some(QkNorm::Head)),
            (Heads::new(5, 5, 128).window(48, 200), 128, None),
            (Heads::new(2, 2, 256).in_group(0, 2), 256, Some(QkNorm::Head)),
            (Heads::new(3, 1, 24).int8().window(16, 100).in_group(6, 7), 20, None),
            (Heads::new(5, 2, 40).int8().window(32, 90), 40, Some(QkNorm::Row)),
        ] {
            let Heads { heads, kv_heads, dim, kind, window, group, .. } = shape;
            let qk_norm = over.map(|over| (over, 1e-6));
            let seqs = [(0, 5), (250, 20), (4095, 1), (9000, 3)];
            let step = shape.step(&mut rng, &seqs);
            let Step { batch, capacity, tables, .. } = &step;
            let inv_freq: Vec<f64> =
                (0..rotary / 2).map(|d| 1e6f64.powf(-2.0 * d as f64 / rotary as f64)).collect();
            let magnitude = if rotary < dim { 1.25 } else { 1.0 };
            let table = rope_table(&inv_freq, magnitude, dim, capacity.context);
            let stride = row_stride((heads + 2 * kv_heads) * dim);
            let rows = batch.rows as usize;
            let mut qkv = uniform(&mut rng, rows * stride);
            qkv[0] = 1e6; // a query may exceed the range of f16, a value is clamped
            qkv[(heads + kv_heads) * dim] = -1e6;
            qkv[(heads + kv_heads + 1) * dim..][..dim].fill(0.0); // the next value, or padding
            let [q_heads, k_heads] = match over {
                Some(QkNorm::Row) => [heads, kv_heads],
                _ => [1, 1],
            };
            let norms = [uniform(&mut rng, q_heads * dim), uniform(&mut rng, k_heads * dim)];
            let weights = qk_norm.map(|_| [&norms[0][..], &norms[1][..]]);
            let layout = shape.layout();

            // The definition: queries, and (KV slot, head, dims) of the KV cache.
            let mut query = vec![0.0; rows * shape.query_stride()];
            let mut stored = Vec::new();
            for i in 0..rows {
                let row = batch.row(i);
                let position = row.position as usize;
                let (queries, rest) = qkv[i * stride..].split_at(heads * dim);
                let keys = &rest[..kv_heads * dim];
                for head in 0..heads + 2 * kv_heads {
                    let x = &qkv[i * stride + head * dim..][..dim];
                    // The range of the norm, and its weights for this head.
                    let (all, q_or_k, place) = match head.checked_sub(heads) {
                        None => (queries, 0, head),
                        Some(place) => (keys, 1, place),
                    };
                    let norm = weights.map(|w| match over {
                        Some(QkNorm::Row) if place * dim < w[q_or_k].len() => {
                            (all, &w[q_or_k][place * dim..][..dim])
                        }
                        _ => (x, &w[q_or_k][..dim]),
                    });
                    let turned = |position| {
                        let x = rotated(x, norm, position, &inv_freq, magnitude);
                        // Rotated pairs half a head apart, then the dims that are not rotated.
                        let (turning, still) = x.split_at(rotary);
                        let halves = [turning, still].map(|x| x.split_at(x.len() / 2));
                        [halves[0].0, halves[1].0, halves[0].1, halves[1].1].concat()
                    };
                    if head < heads {
                        let at = i * shape.query_stride() + head * dim;
                        query[at..][..dim].copy_from_slice(&turned(position));
                        if shape.sinks() > 0 {
                            // As if only the visible positions existed.
                            let last = shape.seen(position).count() - 1;
                            query[at + heads * dim..][..dim].copy_from_slice(&turned(last));
                        }
                        continue;
                    }
                    let is_value = head >= heads + kv_heads;
                    let x = if is_value { x.to_vec() } else { turned(position) };
                    stored.push((step.kv_slot(row, position), head - heads, x));
                }
            }

            let kernel =
                RopeKv { heads, kv_heads, head_dim: dim, rotary, qk_norm, kind, group, window };
            let check = |name: &str, found_query: &[f32], mut found: Vec<u32>| {
                let error = nmse(&query, found_query);
                assert!(error < 1e-11, "{name}: query {error:e} {kernel:?}");
                for (slot, head, expected) in &stored {
                    let largest = expected.iter().fold(0f32, |most, x| most.max(x.abs()));
                    for (d, x) in expected.iter().enumerate() {
                        // A turned component may be a small difference of large ones.
                        let turned = if *head < kv_heads { largest } else { 0.0 };
                        let step = match kind {
                            KvKind::F16 => {
                                x.abs().min(65504.0) / 1024.0 + 1e-7 + turned * 4.0 * f32::EPSILON
                            }
                            KvKind::Int8 => (largest / 127.0).max(1e-6) * 0.5001,
                        };
                        let x = if kind == KvKind::F16 { x.clamp(-65504.0, 65504.0) } else { *x };
                        let y = cached(layout, &found, *slot, *head, d);
                        let error = (f64::from(x) - y).abs();
                        assert!(error <= f64::from(step), "{name}: {x} is {y}, {kernel:?}");
                    }
                }
                for (slot, head, _) in &stored {
                    let at = layout.key(*slot, *head);
                    found[at..at + layout.token_words()].fill(unset(kind));
                    if kind == KvKind::Int8 {
                        found[layout.scale(*slot, *head)] = unset(kind);
                    }
                }
                let strays = found.iter().filter(|word| **word != unset(kind)).count();
                assert_eq!(strays, 0, "{name}: stray writes, {kernel:?}");
            };

            let untouched = vec![unset(kind); capacity.blocks * layout.block_words()];
            let mut plain_query = vec![0.0; query.len()];
            let mut plain_cache = untouched.clone();
            kernel.reference(
                batch,
                tables,
                &qkv,
                &table,
                weights,
                (&mut plain_query, &mut plain_cache),
            );
            check("plain Rust", &plain_query, plain_cache);

            for tuning in WITHOUT_SUBGROUPS {
                let (qkv, table) = (bits(&qkv), bits(&table));
                let norms = norms.each_ref().map(|w| bits(w));
                let mut buffers = vec![&batch.words[..], &tables.words, &qkv, &table];
                if qk_norm.is_some() {
                    buffers.extend(norms.iter().map(|w| &w[..]));
                }
                let zeros = vec![0; query.len()];
                buffers.extend([&zeros[..], &untouched]);
                let mut outputs = bench.run(&kernel, tuning, batch, &buffers).await;
                check(&format!("{tuning:?}"), &floats(&outputs[0]), outputs.remove(1));
            }
        }
    });
}

/// StreamingLLM by its definition: the visible tokens have the positions 0, 1, 2, … within the cache.
fn streaming(shape: Heads, qkv: &[f32], position: usize, inv_freq: &[f64]) -> Vec<f32> {
    let Heads { heads, kv_heads, dim, .. } = shape;
    let stride = row_stride((heads + 2 * kv_heads) * dim);
    let dims = |position: usize, head: usize| &qkv[position * stride + head * dim..][..dim];
    let seen: Vec<usize> = shape.seen(position).collect();
    let mut output = Vec::new();
    for head in 0..heads {
        let kv_head = heads + head * kv_heads / heads;
        let query = rotated(dims(position, head), None, seen.len() - 1, inv_freq, 1.0);
        let score = |(place, position): (usize, &usize)| {
            let key = rotated(dims(*position, kv_head), None, place, inv_freq, 1.0);
            let products = query.iter().zip(&key).map(|(q, k)| f64::from(*q) * f64::from(*k));
            (products.sum::<f64>() / (dim as f64).sqrt()).exp()
        };
        let weights: Vec<f64> = seen.iter().enumerate().map(score).collect();
        let sum: f64 = weights.iter().sum();
        for d in 0..dim {
            let value = |position: usize| f64::from(dims(position, kv_head + kv_heads)[d]);
            let parts = weights.iter().zip(&seen).map(|(w, position)| w * value(*position));
            output.push((parts.sum::<f64>() / sum) as f32);
        }
    }
    output
}

#[test]
fn positions_are_counted_without_those_between_sinks_and_window() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let shape = Heads::new(4, 2, 32).window(32, 100);
        let Heads { heads, kv_heads, dim, kind, window, .. } = shape;
        let inv_freq: Vec<f64> =
            (0..dim / 2).map(|d| 1e4f64.powf(-2.0 * d as f64 / dim as f64)).collect();
        let step = shape.step(&mut rng, &[(0, 400)]);
        let table = rope_table(&inv_freq, 1.0, dim, 400);
        let mut qkv = uniform(&mut rng, 400 * row_stride((heads + 2 * kv_heads) * dim));
        qkv.iter_mut().for_each(|x| *x *= 3.0);
        let rope = RopeKv {
            heads,
            kv_heads,
            head_dim: dim,
            rotary: dim,
            qk_norm: None,
            kind,
            group: KvGroup::ALL,
            window,
        };
        let expected: Vec<f32> =
            (0..400).flat_map(|row| streaming(shape, &qkv, row, &inv_freq)).collect();
        assert_eq!(shape.stride(), heads * dim);

        let mut found = Vec::new();
        let mut query = vec![0.0; 400 * shape.query_stride()];
        let mut cache = vec![0; step.capacity.blocks * shape.layout().block_words()];
        rope.reference(&step.batch, &step.tables, &qkv, &table, None, (&mut query, &mut cache));
        let mut plain = vec![0.0; expected.len()];
        let attention = shape.attention(false);
        attention.reference(&step.batch, &step.tables, &query, &cache, &[], &mut plain);
        found.push(("plain Rust".to_owned(), plain));
        for tuning in WITHOUT_SUBGROUPS {
            let (query, cache) = (vec![0; query.len()], vec![0; cache.len()]);
            let (qkv, table) = (bits(&qkv), bits(&table));
            let buffers = [&step.batch.words[..], &step.tables.words, &qkv, &table, &query, &cache];
            let mut outputs = bench.run(&rope, tuning, &step.batch, &buffers).await;
            let (cache, query) = (outputs.remove(1), floats(&outputs[0]));
            let data = Data { cache, query, sink_logits: Vec::new() };
            let output = run(&mut bench, tuning, shape, &step, &data, false).await;
            found.push((format!("{tuning:?}"), output));
        }
        for (name, found) in found {
            let error = nmse(&expected, &found);
            println!("{name}: NMSE {error:.1e}");
            assert!(error < 1e-6, "{name}: NMSE {error:e}"); // the cache is f16
        }
    });
}
