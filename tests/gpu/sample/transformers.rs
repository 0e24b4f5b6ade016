//! Filters and the distribution of samples, against transformers.

use serde::Deserialize;
use tabloom::{
    kernels::{Tuning, sample::lowest_kept},
    step::{Adjust, Sampling, SeqPlan},
};

use super::{adjusted, padded, run, sampling_seq};
use crate::support::Bench;

/// A case of `goldens/sampling.json`, filtered by transformers.
#[derive(Deserialize)]
struct Golden {
    /// In units of 1/65536.
    logits: Vec<i32>,
    temperature: f32,
    top_k: Option<u32>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    #[serde(default)]
    bias: Vec<(u32, f32)>,
    repetition_penalty: Option<f32>,
    #[serde(default)]
    tokens: Vec<u32>,
    kept: Vec<u32>,
    /// Of the kept tokens.
    probabilities: Vec<f64>,
}

impl Golden {
    fn all() -> Vec<Golden> {
        serde_json::from_str(include_str!("../../goldens/sampling.json"))
            .expect("the goldens parse")
    }

    fn logits(&self) -> Vec<f32> {
        self.logits.iter().map(|v| *v as f32 / 65536.0).collect()
    }

    fn seq(&self, slot: usize, position: u32, seed: u64) -> SeqPlan {
        let sampling = Sampling {
            temperature: self.temperature,
            top_k: self.top_k.unwrap_or(0),
            top_p: self.top_p.unwrap_or(1.0),
            min_p: self.min_p.unwrap_or(0.0),
            repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
            bias: !self.bias.is_empty(),
            seed,
            ..Sampling::GREEDY
        };
        // The repetition penalty does not distinguish prompt and output.
        let (tokens, prompt) = (self.tokens.clone(), self.tokens.len() / 2);
        let adjust = Adjust { tokens, prompt, bias: self.bias.clone() };
        SeqPlan { adjust: Some(adjust.into()), ..sampling_seq(slot, position, sampling) }
    }
}

#[test]
fn the_filters_keep_the_same_tokens_as_transformers() {
    let cases = Golden::all();
    assert!(cases.len() >= 30 && cases.iter().any(|golden| golden.repetition_penalty.is_some()));
    for golden in cases {
        let seq = golden.seq(0, 1, 0);
        let (logits, sampling) =
            (adjusted(&golden.logits(), &seq), seq.sample.expect("it samples"));
        let lowest = lowest_kept(&logits, &sampling);
        let kept: Vec<u32> =
            (0..).zip(&logits).filter(|(_, v)| **v >= lowest).map(|(i, _)| i).collect();
        assert_eq!(kept, golden.kept, "{sampling:?}");
    }
}

/// χ² of samples from a golden's distribution, with the rare tokens joined, and its degrees of freedom.
fn chi_square(golden: &Golden, counts: &[u32], samples: usize) -> (f64, usize) {
    let (mut sum, mut bins) = (0.0, 0);
    let (mut rare, mut rare_expected) = (0.0, 0.0);
    for (token, probability) in golden.kept.iter().zip(&golden.probabilities) {
        let (found, expected) = (f64::from(counts[*token as usize]), probability * samples as f64);
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
fn samples_follow_the_probabilities_of_transformers() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let first = fastrand::u32(..);
        println!("seed {first}");
        const SAMPLES: usize = 1024;
        // One vocabulary, so one pipeline: the added tokens are too unlikely to be sampled.
        let vocab = 512;
        for golden in Golden::all().into_iter().filter(|golden| golden.logits.len() <= vocab) {
            let mut logits = golden.logits();
            logits.resize(vocab, -1e4);
            // Half of the samples differ in their seed, half in their position.
            let seqs: Vec<_> = (0..SAMPLES)
                .map(|i| match i % 2 {
                    0 => golden.seq(i, 77, u64::from(first.wrapping_add(i as u32)) << (i % 32)),
                    _ => golden.seq(i, 1 + i as u32, u64::from(first)),
                })
                .collect();
            let logits = padded(vocab, &vec![logits; SAMPLES]);
            let tuning = Tuning::of(&bench.gpu.adapter);
            let mut counts = vec![0; vocab];
            for [token, not_finite] in run(&mut bench, tuning, vocab, &seqs, &logits).await {
                assert_eq!(not_finite, 0);
                counts[token as usize] += 1;
            }
            let sampled = (0..).zip(&counts).filter(|(_, n)| **n > 0).map(|(i, _)| i);
            let stray: Vec<u32> = sampled.filter(|i| !golden.kept.contains(i)).collect();
            assert!(stray.is_empty(), "{stray:?} sampled from {:?}", seqs[0]);
            let (chi_square, freedom) = chi_square(&golden, &counts, SAMPLES);
            // Six standard deviations, and room for the tail at few degrees of freedom: chance exceeds
            // it less than once in ten million cases.
            let limit = freedom as f64 + 6.0 * (2.0 * freedom as f64).sqrt() + 20.0;
            assert!(chi_square < limit, "{chi_square} of {freedom}: {:?}", seqs[0]);
        }
    });
}
