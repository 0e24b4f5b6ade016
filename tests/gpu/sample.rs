//! Sampling on the GPU, against the CPU reference.

mod drafts;
mod logprobs;
mod transformers;

use std::collections::HashMap;

use crate::support::{Bench, WITHOUT_SUBGROUPS, bits};
use tabloom::{
    kernels::{
        Accept, Batch, BlockTables, HostTables, Logprobs, Sample, Tuning, Upload, batch,
        noise::{gumbel, philox},
    },
    layout::row_stride,
    step::{
        Adjust, Capacity, HostMemory, KvGroups, MAX_BIAS, Mask, RowTokens, Sampling, SeqPlan,
        StepPlan,
    },
};

/// One decode row that samples for a slot at a position.
fn sampling_seq(slot: usize, position: u32, sampling: Sampling) -> SeqPlan {
    SeqPlan {
        slot: slot as u32,
        tokens: RowTokens::Known(vec![0]),
        start: position - 1,
        blocks: vec![0; position.div_ceil(16) as usize],
        sample: Some(sampling),
        ..Default::default()
    }
}

const SLOT_TOKENS: usize = batch::SLOT_TOKENS as usize;

/// A step, with its slots' tables before it.
struct Step {
    vocab: usize,
    batch: Batch,
    tables: HostTables,
    last_samples: Vec<u32>,
}

impl Step {
    fn of(vocab: usize, seqs: Vec<SeqPlan>) -> Step {
        let slots = 1 + seqs.iter().map(|seq| seq.slot as usize).max().expect("a sequence");
        let mut step = Step {
            vocab,
            batch: Batch::default(),
            tables: HostTables::new(vocab, slots),
            last_samples: vec![u32::MAX; slots * SLOT_TOKENS],
        };
        step.next(seqs);
        step
    }

    /// Continues with another step of the same slots.
    fn next(&mut self, seqs: Vec<SeqPlan>) {
        let plan = StepPlan { seqs, ..Default::default() };
        let capacity = Capacity {
            rows: plan.rows(),
            seqs: self.last_samples.len() / SLOT_TOKENS,
            logit_rows: plan.rows(),
            blocks: 1,
            context: 1 << 20,
            vocab: self.vocab,
            groups: KvGroups::FULL,
            host: HostMemory::NONE,
        };
        let tables = BlockTables::of(&plan, &capacity).expect("valid tables");
        self.batch = Batch::encode(&plan, &capacity, &tables, 1).expect("a valid plan");
        assert!(self.batch.result_words as usize <= Batch::max_result_words(&capacity));
        for upload in Upload::of(&plan, self.vocab) {
            self.tables.write(&upload);
        }
    }

    /// Runs the step on the CPU; returns the results.
    fn plain(&mut self, logits: &[f32]) -> Vec<u32> {
        let Step { vocab, batch, tables, last_samples } = self;
        let vocab = *vocab;
        let mut results = Sample { vocab }.reference(batch, logits, tables, last_samples);
        Accept { vocab }.reference(batch, tables, last_samples, &mut results);
        Logprobs { vocab }.reference(batch, logits, &mut results);
        results
    }

    /// Runs the step on the GPU; returns the results.
    async fn run(&mut self, bench: &mut Bench, tuning: Tuning, logits: &[f32]) -> Vec<u32> {
        let Step { vocab, batch, tables, last_samples } = self;
        let vocab = *vocab;
        let unset = vec![u32::MAX; batch.result_words as usize];
        let HostTables { tallies, bias, masks } = tables;
        let logits = bits(logits);
        let buffers = [&batch.words[..], &logits, last_samples, tallies, bias, masks, &unset];
        let mut outputs = bench.run(&Sample { vocab }, tuning, batch, &buffers).await;
        let mut results = outputs.remove(2);
        (tables.tallies, *last_samples) = (outputs.remove(1), outputs.remove(0));
        let buffers = [&batch.words[..], last_samples, &results, &tables.tallies];
        let mut outputs = bench.run(&Accept { vocab }, tuning, batch, &buffers).await;
        results = outputs.remove(1);
        (tables.tallies, *last_samples) = (outputs.remove(1), outputs.remove(0));
        if batch.logprobs > 0 {
            let buffers = [&batch.words[..], &logits, &results];
            results = bench.run(&Logprobs { vocab }, tuning, batch, &buffers).await.remove(0);
        }
        results
    }
}

/// Rows of logits at their stride; the padding would win every comparison.
fn padded(vocab: usize, rows: &[Vec<f32>]) -> Vec<f32> {
    rows.iter()
        .flat_map(|row| row.iter().copied().chain((vocab..row_stride(vocab)).map(|_| 1e30)))
        .collect()
}

/// Samples for slots counted up from 0, checks that the last samples equal the results, and returns
/// `[token, not finite]` of each.
async fn run(
    bench: &mut Bench,
    tuning: Tuning,
    vocab: usize,
    seqs: &[SeqPlan],
    logits: &[f32],
) -> Vec<[u32; 2]> {
    let mut step = Step::of(vocab, seqs.to_vec());
    let results = step.run(bench, tuning, logits).await;
    let results = results[..2 * step.batch.samples as usize].chunks(2);
    let results: Vec<[u32; 2]> = results.map(|r| [r[0], r[1]]).collect();
    let tokens: Vec<u32> = results.iter().map(|[token, _]| *token).collect();
    let last: Vec<u32> = step.last_samples.iter().step_by(SLOT_TOKENS).copied().collect();
    assert_eq!(last, tokens, "last samples");
    results
}

/// The adjusted logits of a sequence, by the published formulas: OpenAI's for frequency and presence,
/// mu[j] - c[j] * alpha_frequency - float(c[j] > 0) * alpha_presence, and that of CTRL (Keskar et al.
/// 2019) for repetition, as in transformers.
fn adjusted(logits: &[f32], seq: &SeqPlan) -> Vec<f32> {
    let (sampling, mut logits) = (seq.sample.expect("it samples"), logits.to_vec());
    if let Some(adjust) = &seq.adjust {
        for (token, bias) in &adjust.bias {
            logits[*token as usize] += bias;
        }
        let mut counts = HashMap::new();
        for (at, token) in adjust.tokens.iter().enumerate() {
            *counts.entry(*token).or_insert(0) += i32::from(at >= adjust.prompt);
        }
        for (token, count) in counts {
            let logit = &mut logits[token as usize];
            let penalty = sampling.repetition_penalty;
            *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            *logit -= count as f32 * sampling.frequency_penalty;
            *logit -= f32::from(count > 0) * sampling.presence_penalty;
        }
    }
    if let Mask::New(mask) = &seq.mask {
        for (token, logit) in logits.iter_mut().enumerate() {
            if mask[token / 32] >> (token % 32) & 1 == 0 {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
    logits
}

/// The score that decides which token is sampled.
fn score(logits: &[f32], token: u32, position: u32, sampling: &Sampling) -> f32 {
    if sampling.temperature == 0.0 {
        return logits[token as usize];
    }
    let seed = [sampling.seed as u32, (sampling.seed >> 32) as u32];
    let word = philox([position, token / 4, 0, 0], seed)[token as usize % 4];
    logits[token as usize] / sampling.temperature + gumbel(word)
}

fn random_sampling(rng: &mut fastrand::Rng, vocab: usize) -> Sampling {
    Sampling {
        temperature: [0.0, 0.2, 0.7, 1.0, 1.5][rng.usize(..5)],
        top_k: if rng.bool() { rng.u32(1..=vocab as u32 + 3) } else { 0 },
        top_p: if rng.bool() { 0.05 + 0.95 * rng.f32() } else { 1.0 },
        min_p: if rng.bool() { 0.2 * rng.f32() } else { 0.0 },
        seed: rng.u64(..),
        ..Sampling::GREEDY
    }
}

/// A sample with any choice of penalties, bias and mask.
fn random_draw(rng: &mut fastrand::Rng, slot: usize, vocab: usize) -> SeqPlan {
    let mut sampling = random_sampling(rng, vocab);
    let position = rng.u32(1..9999);
    let tokens: Vec<u32> = (0..rng.usize(1..60)).map(|_| rng.u32(..vocab as u32)).collect();
    let mut adjust = Adjust { prompt: rng.usize(1..=tokens.len()), tokens, bias: Vec::new() };
    if rng.bool() {
        sampling.presence_penalty = 4.0 * rng.f32() - 2.0;
        sampling.frequency_penalty = 4.0 * rng.f32() - 2.0;
        sampling.repetition_penalty = 0.5 + 1.5 * rng.f32();
    }
    if rng.bool() {
        sampling.bias = true;
        let mut tokens: Vec<u32> = (0..vocab as u32).collect();
        rng.shuffle(&mut tokens);
        tokens.truncate(rng.usize(1..=MAX_BIAS));
        adjust.bias = tokens.into_iter().map(|token| (token, 20.0 * rng.f32() - 10.0)).collect();
    }
    let mut seq = sampling_seq(slot, position, sampling);
    seq.adjust = (sampling.bias || sampling.penalises()).then(|| adjust.into());
    if rng.bool() {
        let mut mask: Vec<u32> =
            (0..vocab.div_ceil(32)).map(|_| rng.u32(..) & rng.u32(..)).collect();
        let token = rng.usize(..vocab);
        mask[token / 32] |= 1 << (token % 32);
        seq.mask = Mask::New(mask);
    }
    seq
}

/// Whether the scores of two tokens are nearly equal: the order of scores that differ in their last
/// bits may vary.
fn near(logits: &[f32], seq: &SeqPlan, a: u32, b: u32) -> bool {
    let (sampling, logits) = (seq.sample.expect("it samples"), adjusted(logits, seq));
    let score = |token| score(&logits, token, seq.start + 1, &sampling);
    let exact = sampling.temperature == 0.0 && seq.adjust.is_none();
    a == b || !exact && (score(a) - score(b)).abs() < 1e-4
}

#[test]
fn the_gpu_samples_the_same_tokens_as_the_cpu() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for (vocab, n) in [(1, 3), (5, 20), (64, 40), (259, 60), (2048, 30), (128_256, 3)] {
            let seqs: Vec<_> = (0..n).map(|slot| random_draw(&mut rng, slot, vocab)).collect();
            // A coarse grid of values gives ties at the top and at the thresholds.
            let value = |rng: &mut fastrand::Rng| rng.i32(-160..=160) as f32 / 16.0;
            let rows: Vec<Vec<f32>> =
                (0..n).map(|_| (0..vocab).map(|_| value(&mut rng)).collect()).collect();
            let logits = padded(vocab, &rows);
            let mut plain = Step::of(vocab, seqs.clone());
            let expected = plain.plain(&logits);
            for (i, (seq, row)) in seqs.iter().zip(&rows).enumerate() {
                let (token, row) = (expected[2 * i], adjusted(row, seq));
                assert!(row[token as usize].is_finite(), "{token} is masked: {seq:?}");
                if seq.sample.expect("it samples").temperature == 0.0 {
                    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    assert!(row[token as usize] >= top - 1e-4, "{token}: {seq:?}");
                }
            }
            for tuning in WITHOUT_SUBGROUPS {
                let mut step = Step::of(vocab, seqs.clone());
                let found = step.run(&mut bench, tuning, &logits).await;
                for (i, (seq, row)) in seqs.iter().zip(&rows).enumerate() {
                    let (a, b) = (expected[2 * i], found[2 * i]);
                    assert_eq!(found[2 * i + 1], 0);
                    assert!(near(row, seq, a, b), "{a} is {b}: {seq:?} of {vocab}, {tuning:?}");
                    if a == b {
                        let slot = i * row_stride(vocab)..(i + 1) * row_stride(vocab);
                        let tallies =
                            [&step, &plain].map(|step| &step.tables.tallies[slot.clone()]);
                        assert_eq!(tallies[0], tallies[1], "tallies: {seq:?} of {vocab}");
                    }
                }
            }
        }
    });
}

#[test]
fn a_sample_depends_on_neither_its_batch_nor_its_slot() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let mut rng = fastrand::Rng::with_seed(17);
        let (vocab, n) = (300, 24);
        let seqs: Vec<_> = (0..n).map(|slot| random_draw(&mut rng, slot, vocab)).collect();
        let rows: Vec<Vec<f32>> =
            (0..n).map(|_| crate::support::uniform(&mut rng, vocab)).collect();
        for tuning in WITHOUT_SUBGROUPS {
            let together = run(&mut bench, tuning, vocab, &seqs, &padded(vocab, &rows)).await;
            for i in 0..n {
                let seq = SeqPlan { slot: 0, ..seqs[i].clone() };
                let logits = padded(vocab, &rows[i..=i]);
                let alone = run(&mut bench, tuning, vocab, &[seq], &logits).await;
                assert_eq!(alone[0], together[i], "{:?} {tuning:?}", seqs[i]);
            }
        }
    });
}

#[test]
fn samples_are_counted_from_step_to_step_in_their_own_slot() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let (vocab, slots) = (70, 6);
        for tuning in WITHOUT_SUBGROUPS {
            let mut rng = fastrand::Rng::with_seed(seed);
            // Slot 4 has no penalties; the sequence of slot 5 never samples.
            let mut known: Vec<Vec<u32>> =
                (0..slots).map(|_| (0..9).map(|_| rng.u32(..vocab)).collect()).collect();
            let sampling: Vec<_> = (0..slots)
                .map(|slot| Sampling {
                    presence_penalty: if slot == 4 { 0.0 } else { 1.5 },
                    frequency_penalty: if slot == 4 { 0.0 } else { 0.75 },
                    repetition_penalty: if slot == 4 { 1.0 } else { 1.3 },
                    temperature: 0.5 * (slot % 2) as f32,
                    seed: rng.u64(..),
                    bias: slot < 4,
                    ..Sampling::GREEDY
                })
                .collect();
            let adjust = |tokens: &[u32]| {
                Some(Box::new(Adjust { tokens: tokens.to_vec(), prompt: 9, bias: vec![(3, 2.5)] }))
            };
            let brought = (0..slots).map(|slot| SeqPlan {
                adjust: adjust(&known[slot]),
                sample: (slot < 4).then_some(sampling[slot]),
                ..sampling_seq(slot, 9, sampling[slot])
            });
            let mut step = Step::of(vocab as usize, brought.collect());
            let idle = step.tables.tallies[5 * row_stride(vocab as usize)..].to_vec();
            for round in 0..12 {
                // Not all sample in all steps, and their order changes.
                let mut active: Vec<usize> = (0..5).filter(|_| rng.u32(..4) > 0).collect();
                rng.shuffle(&mut active);
                if round == 0 || active.is_empty() {
                    active = vec![0, 1, 2, 3];
                }
                let rows: Vec<Vec<f32>> = active
                    .iter()
                    .map(|_| (0..vocab).map(|_| 4.0 * rng.f32() - 2.0).collect())
                    .collect();
                let at =
                    |slot: &usize| sampling_seq(*slot, known[*slot].len() as u32, sampling[*slot]);
                let seqs: Vec<SeqPlan> = active.iter().map(at).collect();
                if round > 0 {
                    step.next(seqs.clone());
                }
                let results = step.run(&mut bench, tuning, &padded(vocab as usize, &rows)).await;
                for ((seq, row), result) in seqs.into_iter().zip(&rows).zip(results.chunks(2)) {
                    let slot = seq.slot as usize;
                    // The same sample, with all tokens sent anew.
                    let mut fresh = SeqPlan { slot: 0, ..seq };
                    if slot < 4 {
                        fresh.adjust = adjust(&known[slot]);
                    }
                    let logits = padded(vocab as usize, std::slice::from_ref(row));
                    let expected = Step::of(vocab as usize, vec![fresh.clone()]).plain(&logits);
                    assert!(
                        near(row, &fresh, expected[0], result[0]),
                        "{slot}, {round}: {fresh:?}"
                    );
                    known[slot].push(result[0]);
                }
            }
            for slot in 0..4 {
                let brought = SeqPlan {
                    adjust: adjust(&known[slot]),
                    ..sampling_seq(slot, 1, sampling[slot])
                };
                let fresh = Step::of(vocab as usize, vec![brought]).tables.tallies;
                let row =
                    slot * row_stride(vocab as usize)..(slot + 1) * row_stride(vocab as usize);
                assert_eq!(step.tables.tallies[row.clone()], fresh[row], "slot {slot} {tuning:?}");
            }
            assert_eq!(step.tables.tallies[5 * row_stride(vocab as usize)..], idle, "{tuning:?}");
        }
    });
}

#[test]
fn a_mask_holds_until_the_next_and_hides_no_bad_logit() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let vocab = 70;
        let mut row: Vec<f32> = (0..vocab).map(|token| token as f32 / 8.0).collect();
        (row[5], row[9]) = (f32::NAN, f32::INFINITY);
        let mask = |tokens: &[u32]| {
            let mut words = vec![0; 3];
            tokens.iter().for_each(|token| words[*token as usize / 32] |= 1 << (token % 32));
            Mask::New(words)
        };
        let warm = Sampling { temperature: 1.5, top_k: 5, seed: 3, ..Sampling::GREEDY };
        for (tuning, sampling) in
            WITHOUT_SUBGROUPS.into_iter().flat_map(|t| [(t, Sampling::GREEDY), (t, warm)])
        {
            let seqs = |masks: [Mask; 2]| {
                let seqs = masks.into_iter().enumerate();
                seqs.map(|(slot, mask)| SeqPlan { mask, ..sampling_seq(slot, 1, sampling) })
                    .collect::<Vec<_>>()
            };
            let logits = padded(vocab, &[row.clone(), row.clone()]);
            let mut step = Step::of(vocab, seqs([mask(&[2, 33, 5]), mask(&[0])]));
            // (masks of the next step, tokens that this step may sample)
            let steps: [([Mask; 2], [&[u32]; 2]); 3] = [
                ([Mask::Same, mask(&[64])], [&[2, 33], &[0]]),
                ([Mask::None, Mask::Same], [&[2, 33], &[64]]),
                ([Mask::None, Mask::None], [&[65, 66, 67, 68, 69], &[64]]),
            ];
            for (next, allowed) in steps {
                let mut plain = Step {
                    tables: step.tables.clone(),
                    batch: step.batch.clone(),
                    last_samples: vec![0; 2 * SLOT_TOKENS],
                    vocab,
                };
                let expected = plain.plain(&logits);
                let found = step.run(&mut bench, tuning, &logits).await;
                for results in [&expected, &found] {
                    for (result, allowed) in results.chunks(2).zip(allowed) {
                        assert!(allowed.contains(&result[0]), "{result:?} {allowed:?} {tuning:?}");
                        assert_eq!(result[1], 2, "{tuning:?}");
                    }
                }
                step.next(seqs(next));
            }
        }
    });
}

#[test]
fn greedy_takes_the_lowest_of_equal_tokens_and_bad_logits_are_counted() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let vocab = 1001;
        let mut flat = vec![-0.0; vocab];
        flat[700] = 0.0;
        let mut tied = vec![-5.0; vocab];
        (tied[999], tied[500], tied[1000]) = (-1.5, -1.5, -1.5);
        let mut bad = vec![-1e38; vocab];
        (bad[0], bad[3], bad[4], bad[5]) = (f32::NAN, f32::INFINITY, -f32::NAN, f32::NEG_INFINITY);
        bad[1000] = -2.0;
        let lost = vec![f32::NAN; vocab];
        let rows = [flat, tied, bad, lost];
        let warm = Sampling { temperature: 1.0, top_k: 1, top_p: 0.5, ..Sampling::GREEDY };
        for (sampling, expected) in [
            (Sampling::GREEDY, [[0, 0], [500, 0], [1000, 4], [0, 1001]].map(Some)),
            // Ties may go either way at temperature > 0.
            (warm, [None, None, Some([1000, 4]), Some([0, 1001])]),
        ] {
            let seqs: Vec<_> = (0..4).map(|slot| sampling_seq(slot, 1, sampling)).collect();
            let logits = padded(vocab, &rows);
            let plain = Step::of(vocab, seqs.clone()).plain(&logits);
            let mut found = vec![plain.chunks(2).map(|r| [r[0], r[1]]).collect()];
            for tuning in WITHOUT_SUBGROUPS {
                found.push(run(&mut bench, tuning, vocab, &seqs, &logits).await);
            }
            for found in found {
                for (found, expected) in found.iter().zip(expected) {
                    assert_eq!(*found, expected.unwrap_or(*found), "{sampling:?}");
                }
            }
        }
    });
}
