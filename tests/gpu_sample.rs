//! Sampling on the GPU against plain Rust, against transformers' filters, and as a distribution.
#![cfg(not(target_arch = "wasm32"))]

mod support;

use serde::Deserialize;
use support::{Bench, bits};
use tabloom::{
    kernels::{
        Batch, BlockTables, Sample, Tuning,
        noise::{gumbel, philox},
        sample::lowest_kept,
    },
    layout::row_stride,
    step::{Capacity, RowTokens, Sampling, SeqPlan, StepPlan},
};

/// One decode row per sample, at its position.
fn encode(vocab: usize, samples: &[(u32, Sampling)]) -> Batch {
    let seqs = samples.iter().enumerate().map(|(slot, (position, sampling))| SeqPlan {
        slot: slot as u32,
        tokens: RowTokens::Known(vec![0]),
        start: position - 1,
        blocks: vec![0; position.div_ceil(16) as usize],
        sample: Some(*sampling),
        ..Default::default()
    });
    let plan = StepPlan { seqs: seqs.collect(), ..Default::default() };
    let n = samples.len();
    let capacity = Capacity {
        rows: n,
        seqs: n,
        logit_rows: n,
        blocks: 1,
        context: 1 << 20,
        vocab,
        window: None,
    };
    let tables = BlockTables::of(&plan, &capacity).expect("valid tables");
    Batch::encode(&plan, &capacity, &tables, 1).expect("a valid plan")
}

/// Rows of logits at their stride; the padding would win every comparison.
fn padded(vocab: usize, rows: &[Vec<f32>]) -> Vec<f32> {
    rows.iter()
        .flat_map(|row| row.iter().copied().chain((vocab..row_stride(vocab)).map(|_| 1e30)))
        .collect()
}

/// Runs the kernel and checks that the last samples repeat the results; `[token, not finite]` each.
async fn run(
    bench: &mut Bench,
    tuning: Tuning,
    vocab: usize,
    batch: &Batch,
    logits: &[f32],
) -> Vec<[u32; 2]> {
    let n = batch.samples as usize;
    let unset = vec![u32::MAX; 2 * n];
    let buffers = [&batch.words[..], &bits(logits), &unset[..n], &unset];
    let outputs = bench.run(&Sample { vocab }, tuning, batch, &buffers).await;
    let results: Vec<[u32; 2]> = outputs[1].chunks(2).map(|r| [r[0], r[1]]).collect();
    let tokens: Vec<u32> = results.iter().map(|[token, _]| *token).collect();
    assert_eq!(outputs[0], tokens, "last samples");
    results
}

/// The variants that differ for this kernel.
fn tunings() -> [Tuning; 2] {
    [true, false].map(|barriers| Tuning { subgroups: false, barriers })
}

/// What a token's draw is decided by.
fn score(logits: &[f32], token: u32, position: u32, sampling: &Sampling) -> f32 {
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

#[test]
fn the_gpu_draws_what_plain_rust_draws() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for (vocab, n) in [(1, 3), (5, 20), (64, 40), (259, 60), (2048, 30), (128_256, 3)] {
            let samples: Vec<_> =
                (0..n).map(|_| (rng.u32(1..9999), random_sampling(&mut rng, vocab))).collect();
            // A coarse grid of values, so that there are ties at the top and at the thresholds.
            let value = |rng: &mut fastrand::Rng| rng.i32(-160..=160) as f32 / 16.0;
            let rows: Vec<Vec<f32>> =
                (0..n).map(|_| (0..vocab).map(|_| value(&mut rng)).collect()).collect();
            let batch = encode(vocab, &samples);
            let logits = padded(vocab, &rows);
            let mut last = vec![0; n];
            let expected = Sample { vocab }.reference(&batch, &logits, &mut last);
            for tuning in tunings() {
                let found = run(&mut bench, tuning, vocab, &batch, &logits).await;
                for (i, ((position, sampling), row)) in samples.iter().zip(&rows).enumerate() {
                    let ([a, _], [b, not_finite]) = (expected[i], found[i]);
                    assert_eq!(not_finite, 0);
                    // Scores that agree to their last bits may be ordered either way.
                    let near = || {
                        let score = |token| score(row, token, *position, sampling);
                        sampling.temperature > 0.0 && (score(a) - score(b)).abs() < 1e-4
                    };
                    assert!(a == b || near(), "{a} is {b}: {sampling:?} of {vocab}, {tuning:?}");
                }
            }
        }
    });
}

#[test]
fn a_draw_depends_on_neither_its_batch_nor_its_slot() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let mut rng = fastrand::Rng::with_seed(17);
        let (vocab, n) = (300, 16);
        let samples: Vec<_> =
            (0..n).map(|_| (rng.u32(1..500), random_sampling(&mut rng, vocab))).collect();
        let rows: Vec<Vec<f32>> = (0..n).map(|_| support::uniform(&mut rng, vocab)).collect();
        for tuning in tunings() {
            let batch = encode(vocab, &samples);
            let together = run(&mut bench, tuning, vocab, &batch, &padded(vocab, &rows)).await;
            for i in 0..n {
                let batch = encode(vocab, &samples[i..=i]);
                let logits = padded(vocab, &rows[i..=i]);
                let alone = run(&mut bench, tuning, vocab, &batch, &logits).await;
                assert_eq!(alone[0], together[i], "{:?} {tuning:?}", samples[i]);
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
            // Draws among equals are free.
            (warm, [None, None, Some([1000, 4]), Some([0, 1001])]),
        ] {
            let batch = encode(vocab, &[(1, sampling); 4]);
            let logits = padded(vocab, &rows);
            let plain = Sample { vocab }.reference(&batch, &logits, &mut [0; 4]);
            let mut found = vec![plain];
            for tuning in tunings() {
                found.push(run(&mut bench, tuning, vocab, &batch, &logits).await);
            }
            for found in found {
                for (found, expected) in found.iter().zip(expected) {
                    assert_eq!(*found, expected.unwrap_or(*found), "{sampling:?}");
                }
            }
        }
    });
}

/// A case of `goldens/sampling.json`, as transformers filters it.
#[derive(Deserialize)]
struct Golden {
    /// In units of 1/65536.
    logits: Vec<i32>,
    temperature: f32,
    top_k: Option<u32>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    kept: Vec<u32>,
    /// Of the kept tokens.
    probabilities: Vec<f64>,
}

impl Golden {
    fn all() -> Vec<Golden> {
        serde_json::from_str(include_str!("goldens/sampling.json")).expect("the goldens parse")
    }

    fn logits(&self) -> Vec<f32> {
        self.logits.iter().map(|v| *v as f32 / 65536.0).collect()
    }

    fn sampling(&self, seed: u64) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_k: self.top_k.unwrap_or(0),
            top_p: self.top_p.unwrap_or(1.0),
            min_p: self.min_p.unwrap_or(0.0),
            seed,
            ..Sampling::GREEDY
        }
    }
}

#[test]
fn the_filters_keep_what_transformers_keeps() {
    let cases = Golden::all();
    assert!(cases.len() >= 20);
    for golden in cases {
        let (logits, sampling) = (golden.logits(), golden.sampling(0));
        let lowest = lowest_kept(&logits, &sampling);
        let kept: Vec<u32> =
            (0..).zip(&logits).filter(|(_, v)| **v >= lowest).map(|(i, _)| i).collect();
        assert_eq!(kept, golden.kept, "{sampling:?}");
    }
}

/// χ² of draws from a golden's distribution, with the rare tokens taken together, and its degrees
/// of freedom.
fn chi_square(golden: &Golden, counts: &[u32], draws: usize) -> (f64, usize) {
    let (mut sum, mut bins) = (0.0, 0);
    let (mut rare, mut rare_expected) = (0.0, 0.0);
    for (token, probability) in golden.kept.iter().zip(&golden.probabilities) {
        let (found, expected) = (f64::from(counts[*token as usize]), probability * draws as f64);
        if expected < 10.0 {
            (rare, rare_expected) = (rare + found, rare_expected + expected);
        } else {
            sum += (found - expected).powi(2) / expected;
            bins += 1;
        }
    }
    if rare_expected > 1.0 {
        sum += (rare - rare_expected).powi(2) / rare_expected;
        bins += 1;
    }
    (sum, bins.max(2) - 1)
}

#[test]
fn draws_follow_the_probabilities_of_transformers() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let first = fastrand::u32(..);
        println!("seed {first}");
        const DRAWS: usize = 1024;
        // One vocabulary, so one pipeline: the tokens added are too unlikely to be drawn.
        let vocab = 512;
        for golden in Golden::all().into_iter().filter(|golden| golden.logits.len() <= vocab) {
            let mut logits = golden.logits();
            logits.resize(vocab, -1e4);
            // Half of the draws differ in their seed, half in their position.
            let samples: Vec<_> = (0..DRAWS as u32)
                .map(|i| match i % 2 {
                    0 => (77, golden.sampling(u64::from(first.wrapping_add(i)) << (i % 32))),
                    _ => (1 + i, golden.sampling(u64::from(first))),
                })
                .collect();
            let batch = encode(vocab, &samples);
            let logits = padded(vocab, &vec![logits; DRAWS]);
            let tuning = Tuning::of(&bench.gpu.adapter);
            let mut counts = vec![0; vocab];
            for [token, not_finite] in run(&mut bench, tuning, vocab, &batch, &logits).await {
                assert_eq!(not_finite, 0);
                counts[token as usize] += 1;
            }
            let drawn = (0..).zip(&counts).filter(|(_, n)| **n > 0).map(|(i, _)| i);
            let stray: Vec<u32> = drawn.filter(|i| !golden.kept.contains(i)).collect();
            assert!(stray.is_empty(), "{stray:?} drawn from {:?}", samples[0]);
            let (chi_square, freedom) = chi_square(&golden, &counts, DRAWS);
            // Six standard deviations and room for the tail at few degrees of freedom: chance
            // exceeds it less than once in ten million cases.
            let limit = freedom as f64 + 6.0 * (2.0 * freedom as f64).sqrt() + 20.0;
            assert!(chi_square < limit, "{chi_square} of {freedom}: {:?}", samples[0]);
        }
    });
}
