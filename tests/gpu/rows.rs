//! Embedding, normalisation, gathering, pooling and shifting of rows on the GPU against the CPU
//! reference.

use crate::support::{Bench, activations, bits, floats, nmse, seeded, uniform};
use tabloom::{
    kernels::{
        Batch, BlockTables, Embed, Gather, Norm, Place, Pool, RowsOf, Shift, batch::SLOT_TOKENS,
        gather, norm, pool,
    },
    layout::{HostMatrix, Layout, row_stride},
    step::{
        self, BLOCK_SIZE, Capacity, Draft, HostMemory, KvGroups, MAX_DRAFTS, Pooling, RowTokens,
        Sampling, SeqPlan, StepPlan,
    },
};

#[test]
fn embedding_of_known_and_sampled_tokens_and_of_positions() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let (vocab, width) = (90, 172);
        for layout in [
            Layout::F32,
            Layout::F16,
            Layout::Bf16,
            Layout::W8 { group: 32 },
            Layout::W4 { group: 64 },
        ] {
            for rows in [1, 70] {
                let matrix =
                    HostMatrix::pack(layout, vocab, width, &uniform(&mut rng, vocab * width));
                let mut batch = crate::support::step(rows, 1, vocab);
                let last_samples = [7, 81, 12];
                // The last row's token is at index 1.
                batch.row_mut(rows - 1)[0] = 1 << 31 | 1;
                let positions = rows == 70 && layout != Layout::F32;
                let before = match positions {
                    true => activations(&mut rng, rows + 1, width),
                    false => uniform(&mut rng, (rows + 1) * row_stride(width)),
                };
                let mut expected = before.clone();
                let scale = if layout == Layout::F16 { 1.0 } else { 2.5 };
                let kernel = Embed { layout, positions, first: 0, rows: vocab, width, scale };
                kernel.reference(&batch, &last_samples, &matrix, &mut expected);

                // Whole, and split after token 40: each part adds its own rows.
                for splits in [&[(0, vocab)][..], &[(0, 40), (40, vocab)]] {
                    for tuning in bench.tunings() {
                        let mut out = bits(&before);
                        for &(start, end) in splits {
                            let (first, rows) = (start, end - start);
                            let kernel = Embed { first, rows, ..kernel.clone() };
                            let words = layout.row_words(width);
                            let groups = layout.row_scales(width);
                            let mut buffers = vec![&batch.words[..]];
                            if !positions {
                                buffers.push(&last_samples);
                            }
                            buffers.push(&matrix.words[start * words..end * words]);
                            if groups > 0 {
                                let range = start * groups..end * groups;
                                buffers.push(&matrix.scales[range]);
                            }
                            buffers.push(&out);
                            out = bench.run(&kernel, tuning, &batch, &buffers).await.remove(0);
                        }
                        let (found, end) = (floats(&out), rows * row_stride(width));
                        let error = nmse(&expected[..end], &found[..end]);
                        assert!(error < 1e-13, "{layout:?} {tuning:?} {rows} rows: {error:e}");
                        for row in found[..end].chunks_exact(row_stride(width)) {
                            assert!(row[width..].iter().all(|v| *v == 0.0), "padding is zero");
                        }
                        assert_eq!(found[end..], before[end..], "rows past the last one");
                    }
                }
            }
        }
    });
}

#[test]
fn normalisation() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        for (width, parts, rows) in [(64, 1, 1), (172, 1, 5), (1376, 1, 70), (96, 3, 9)] {
            let stride = parts * row_stride(width);
            let x = activations(&mut rng, rows + 1, parts * width);
            let weight = uniform(&mut rng, parts * width);
            let (bias, centred) = (activations(&mut rng, 1, width), width == 172);
            let add = rows == 5;
            let before = match add {
                true => activations(&mut rng, rows + 1, width),
                false => uniform(&mut rng, (rows + 1) * stride),
            };
            let mut expected = vec![0.0; rows * stride];
            let of_parts = x.chunks(stride / parts).zip(expected.chunks_mut(stride / parts));
            for ((x, out), weight) in of_parts.zip(weight.chunks(width).cycle()) {
                let (x, out) = (&x[..width], &mut out[..width]);
                match centred {
                    true => norm::layer(x, weight, &bias, 1e-5, out),
                    false => norm::rms(x, weight, 1e-5, out),
                }
            }
            if add {
                expected.iter_mut().zip(&before).for_each(|(out, before)| *out += before);
            }
            for (of, batch) in [
                (RowsOf::Rows, crate::support::step(rows, 1, 9)),
                (RowsOf::LogitRows, crate::support::step(rows + 2, rows, 9)),
            ] {
                let place = Place::whole(width);
                let kernel = Norm { width, parts, eps: 1e-5, centred, add, place, rows: of };
                for tuning in bench.tunings() {
                    let [x, weight, bias, before] =
                        [&x, &weight, &bias, &before].map(|values| bits(values));
                    let mut buffers = vec![&batch.words[..], &x, &weight, &before];
                    if centred {
                        buffers.insert(3, &bias);
                    }
                    let out = bench.run(&kernel, tuning, &batch, &buffers).await;
                    let (found, rest) = out[0].split_at(rows * stride);
                    let error = nmse(&expected, &floats(found));
                    assert!(error < 1e-12, "{kernel:?} {tuning:?} {rows} rows: {error:e}");
                    assert_eq!(rest, &before[rows * stride..], "rows past the last one");
                    for part in floats(found).chunks_exact(stride / parts) {
                        assert!(part[width..].iter().all(|v| *v == 0.0), "padding is zero");
                    }
                }
            }
        }
    });
}

#[test]
fn gathering() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let width = 172;
        for (rows, logit_rows) in [(1, 1), (40, 1), (40, 17)] {
            let batch = crate::support::step(rows, logit_rows, 9);
            let x = activations(&mut rng, rows, width);
            let before = uniform(&mut rng, (logit_rows + 1) * row_stride(width));
            let mut expected = before.clone();
            gather::reference(&batch, width, &x, &mut expected);
            for tuning in bench.tunings() {
                let (x, before) = (bits(&x), bits(&before));
                let buffers = [&batch.words[..], &x, &before];
                let out = bench.run(&Gather { width }, tuning, &batch, &buffers).await;
                assert_eq!(out[0], bits(&expected));
            }
        }
    });
}

/// Rows of sequences: slot, first position, number of rows, pooling.
type Pooled = (u32, usize, usize, Option<step::Pool>);

fn pooling_step(seqs: &[Pooled]) -> Batch {
    let capacity = Capacity {
        rows: 100,
        seqs: 4,
        logit_rows: 4,
        blocks: 9,
        context: 128,
        vocab: 9,
        groups: KvGroups::FULL,
        host: HostMemory::NONE,
    };
    let seqs = seqs.iter().map(|&(slot, start, count, pool)| SeqPlan {
        slot,
        tokens: RowTokens::Known(vec![1; count]),
        start: start as u32,
        blocks: (0..8).collect(),
        pool,
        ..Default::default()
    });
    let plan = StepPlan { seqs: seqs.collect(), ..Default::default() };
    let tables = BlockTables::of(&plan, &capacity).expect("valid tables");
    Batch::encode(&plan, &capacity, &tables, 16).expect("a valid step")
}

#[test]
fn pooling_adds_rows_in_order_for_any_prefill_chunks() {
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let (width, count, tunings) = (172, 70, bench.tunings());
        let (stride, kernel) = (row_stride(width), Pool { width });
        let states = activations(&mut rng, count, width);
        let state = |row: usize| &states[row * stride..][..stride];
        let mut before = uniform(&mut rng, 4 * stride);
        before[2 * stride..][..stride].fill(f32::NAN);
        let mut mean = vec![0.0; stride];
        for row in 0..count {
            mean.iter_mut().zip(state(row)).for_each(|(sum, x)| *sum += x);
        }
        let cuts = [vec![0, 70], vec![0, 1, 33, 34, 69, 70], (0..=70).collect()];
        for (pooling, expected) in [(Pooling::Mean, &mean[..]), (Pooling::Last, state(count - 1))] {
            for (cut, tuning) in cuts.iter().flat_map(|cut| tunings.iter().map(move |t| (cut, *t)))
            {
                let (mut sums, mut same) = (before.clone(), before.clone());
                for ends in cut.windows(2) {
                    let last = ends[1] == count;
                    let pool = Some(step::Pool { pooling, last });
                    // Between rows of others, which do not pool or have another slot.
                    let other = Some(step::Pool { pooling: Pooling::Mean, last: false });
                    let seqs =
                        [(0, 5, 3, None), (2, ends[0], ends[1] - ends[0], pool), (1, 0, 2, other)];
                    let batch = pooling_step(&seqs);
                    let mut x = activations(&mut rng, batch.rows as usize, width);
                    x[3 * stride..][..(ends[1] - ends[0]) * stride]
                        .copy_from_slice(&states[ends[0] * stride..ends[1] * stride]);
                    pool::reference(&batch, width, &x, &mut same);
                    let (x, old) = (bits(&x), bits(&sums));
                    let buffers = [&batch.words[..], &x, &old];
                    sums = floats(&bench.run(&kernel, tuning, &batch, &buffers).await[0]);
                }
                assert_eq!(bits(&sums[2 * stride..3 * stride]), bits(expected), "{cut:?}");
                assert_eq!(bits(&sums), bits(&same), "{tuning:?} {cut:?}");
                for slot in [0, 3] {
                    let rows = slot * stride..(slot + 1) * stride;
                    assert_eq!(sums[rows.clone()], before[rows], "slot {slot}");
                }
            }
        }
    });
}

#[test]
fn an_embedding_has_norm_1_and_zeros_stay_zero() {
    assert!(nmse(&[0.6, 0.0, -0.8], &pool::unit(&[3.0, 0.0, -4.0])) < 1e-13);
    assert!(nmse(&[0.6, 0.8], &pool::unit(&[3e30, 4e30])) < 1e-13, "squares overflow");
    assert_eq!(pool::unit(&[0.0; 3]), [0.0; 3]);
    for broken in [f32::NAN, f32::INFINITY] {
        assert!(pool::unit(&[1.0, broken]).iter().any(|v| !v.is_finite()));
    }
}

#[test]
fn rows_behind_drafts_shift_by_the_number_of_accepted_ones() {
    const CAPACITY: Capacity = Capacity {
        rows: 800,
        seqs: 40, // more than one workgroup shifts
        logit_rows: 800,
        blocks: 1000,
        context: 160,
        vocab: 90,
        groups: KvGroups::FULL,
        host: HostMemory::NONE,
    };
    pollster::block_on(async {
        let (mut bench, mut rng) = (Bench::open().await, seeded());
        let most = MAX_DRAFTS as u32;
        let mut slots: Vec<u32> = (0..CAPACITY.seqs as u32).collect();
        rng.shuffle(&mut slots);
        let mut seq = |slot| {
            let mut seq = SeqPlan {
                slot,
                tokens: RowTokens::LastSample,
                start: rng.u32(1..120),
                unverified: if rng.u32(..4) > 0 { rng.u32(1..=most) } else { 0 },
                sample: (rng.u32(..4) > 0).then_some(Sampling::GREEDY),
                ..Default::default()
            };
            if seq.sample.is_some() {
                seq.drafts = vec![Draft::default(); rng.usize(..=MAX_DRAFTS)];
            } else if seq.unverified == 0 {
                seq.tokens = RowTokens::Known(vec![1; rng.usize(1..20)]);
            }
            let end = seq.start as usize + seq.rows() + seq.unverified as usize;
            let blocks = (0..end.div_ceil(BLOCK_SIZE)).map(|_| rng.u32(..CAPACITY.blocks as u32));
            seq.blocks = blocks.collect();
            seq
        };
        let whole: Vec<SeqPlan> = slots.into_iter().map(&mut seq).collect();
        let single = |seq: &SeqPlan| SeqPlan { drafts: Vec::new(), ..seq.clone() };
        let pass = |seqs: usize| whole[..seqs].iter().map(single).collect();
        let plans = [whole.clone(), pass(40), pass(36), pass(3), whole.clone()];
        let plans = plans.map(|seqs| StepPlan { seqs, ..Default::default() });
        let tables = BlockTables::of(&plans[0], &CAPACITY).unwrap();
        let encode = |plan: &StepPlan| Batch::encode(plan, &CAPACITY, &tables, 8).unwrap();

        // Slots with the number of accepted drafts, and others.
        let (slot_tokens, accepted_at) = (SLOT_TOKENS as usize, SLOT_TOKENS as usize - 1);
        let mut last_samples = vec![u32::MAX; CAPACITY.seqs * slot_tokens];
        last_samples.iter_mut().skip(accepted_at).step_by(slot_tokens).for_each(|accepted| {
            *accepted = rng.u32(..=most);
        });
        let accepted = |slot: u32| last_samples[slot as usize * slot_tokens + accepted_at];

        let stride = Batch::max_words(&CAPACITY);
        let (mut words, mut expected) = (Vec::new(), Vec::new());
        for (place, plan) in plans.iter().enumerate() {
            let batch = encode(plan);
            words.resize(place * stride, 0);
            expected.resize(place * stride, 0);
            words.extend(&batch.words);
            expected.extend(&batch.words);
            let resolved = encode(&plan.resolved(accepted)).words;
            // The number of shifts stays, and so do the shifts, which come after all that the resolved
            // plan has.
            let (before, behind) = expected[place * stride..].split_at_mut(6);
            before[..5].copy_from_slice(&resolved[..5]);
            behind[..resolved.len() - 6].copy_from_slice(&resolved[6..]);
        }
        // Batches of an earlier step may follow.
        words.resize(plans.len() * stride, 0);
        words.extend_from_within(..stride);
        expected.resize(plans.len() * stride, 0);
        expected.extend(&words[..stride]);
        let shader = Shift { stride }.shader();
        let grid = Shift::grid(&encode(&plans[0]), plans.len());
        let found = bench.run_shader(&shader, grid, &[&words, &last_samples]).await;
        assert_ne!(words, expected);
        assert_eq!(found[0], expected);
    });
}
