//! Which draws stand.

use minijinja::context;

use super::{
    Batch, Bindings, HostTables, Kernel, Table, Tuning, adjust,
    batch::{DRAWN, SLOT_TOKENS},
};
use crate::gpu::Shader;

/// Decides how many drafts of each sequence are right: those, in order, that are the token drawn in
/// their place. The draw after the last of them stands too; it becomes the slot's last sample.
///
/// A token is drawn with noise that depends on its position alone, so what stands is what would have
/// been drawn without drafts (Daliri, Musco, Suresh, "Coupling without communication and
/// drafter-invariant speculative decoding", 2024).
///
/// Bindings: step, last samples (in and out) `[slots][SLOT_TOKENS]`, results (in and out): what [`super::Sample`] wrote,
/// then `[draws]` how many drafts are right, tallies (in and out), which count what stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    pub vocab: usize,
}

impl Accept {
    /// Threads of a workgroup; each decides for one sequence.
    const THREADS: u32 = 32;

    /// The same in plain Rust: appends to the samples' results.
    pub fn reference(
        &self,
        batch: &Batch,
        tables: &mut HostTables,
        last_samples: &mut [u32],
        results: &mut Vec<u32>,
    ) {
        for i in 0..batch.draws as usize {
            let (first, samples) = batch.draw(i);
            let drawn = |sample: usize| results[2 * sample];
            let right = |sample: &usize| {
                drawn(sample - 1) == batch.token(batch.sample(*sample)[13] as usize, last_samples)
            };
            let accepted = (first + 1..first + samples).take_while(right).count();
            let slot = (batch.sample(first)[1] * SLOT_TOKENS) as usize;
            for place in 0..=accepted {
                let token = drawn(first + place);
                tables.drawn(self.vocab, batch.sample(first + place), token);
                last_samples[slot + DRAWN as usize + place] = token;
            }
            last_samples[slot] = drawn(first + accepted);
            results.push(accepted as u32);
        }
    }
}

impl Kernel for Accept {
    fn shader(&self, _: Tuning) -> Shader {
        let bindings = Bindings::read(&["step"]).write("last_samples").write("result");
        let bindings = bindings.write("tallies");
        let values = context! {
            stride => Table::Tallies.stride(self.vocab),
            threads => Accept::THREADS,
            count => adjust::DRAWN,
            slot_tokens => SLOT_TOKENS,
            drawn_at => DRAWN,
        };
        Shader::render("accept", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        // Without drafts `Sample` has done it all.
        let draws = if batch.samples > batch.draws { batch.draws } else { 0 };
        [draws.div_ceil(Accept::THREADS), 1, 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kernels::{BlockTables, Sample},
        layout::row_stride,
        step::{Capacity, Draft, RowTokens, Sampling, SeqPlan, StepPlan},
    };

    const VOCAB: usize = 10;
    const CAPACITY: Capacity = Capacity {
        rows: 8,
        seqs: 2,
        logit_rows: 8,
        blocks: 4,
        context: 32,
        vocab: VOCAB,
        window: None,
    };

    /// What stands of a sequence with these drafts, and the slot's last sample.
    fn stands(sampling: Sampling, drafts: &[u32], logits: &[Vec<f32>]) -> Vec<u32> {
        let draft = |token: &u32| Draft { token: Some(*token), ..Default::default() };
        let seq = SeqPlan {
            slot: 1,
            tokens: RowTokens::Known(vec![1]),
            blocks: vec![1],
            sample: Some(sampling),
            drafts: drafts.iter().map(draft).collect(),
            ..Default::default()
        };
        let plan = StepPlan { seqs: vec![seq], ..Default::default() };
        let tables = BlockTables::of(&plan, &CAPACITY).unwrap();
        let batch = Batch::encode(&plan, &CAPACITY, &tables, 8).unwrap();
        let padded = logits.iter().flat_map(|row| {
            let padding = row_stride(VOCAB) - VOCAB;
            row.iter().copied().chain(std::iter::repeat_n(0.0, padding))
        });
        let mut tables = HostTables::new(VOCAB, 2);
        let mut last = [u32::MAX; 2 * SLOT_TOKENS as usize];
        let mut results =
            Sample { vocab: VOCAB }.reference(&batch, &padded.collect::<Vec<_>>(), &tables, &last);
        Accept { vocab: VOCAB }.reference(&batch, &mut tables, &mut last, &mut results);
        assert_eq!(results.len(), batch.result_words as usize);
        let accepted = results[batch.accepted_at(0)] as usize;
        let drawn: Vec<u32> = (0..=accepted).map(|at| results[2 * at]).collect();
        let [other, mine] = [0, 1].map(|slot| &last[slot * SLOT_TOKENS as usize..]);
        assert_eq!((other[0], mine[0]), (u32::MAX, drawn[accepted]));
        assert_eq!(mine[DRAWN as usize..][..=accepted], drawn);
        drawn
    }

    #[test]
    fn drafts_are_right_up_to_the_first_that_was_not_drawn() {
        let likely = |token: u32| (0..VOCAB as u32).map(|i| f32::from(i == token)).collect();
        // (drafts, the likeliest tokens, what stands)
        let table: [(&[u32], &[u32], &[u32]); 5] = [
            (&[1, 2, 3], &[1, 2, 3, 4], &[1, 2, 3, 4]),
            (&[1, 2, 3], &[1, 5, 3, 4], &[1, 5]),
            (&[3], &[3, 4], &[3, 4]),
            (&[], &[5], &[5]),
            (&[1], &[2, 3], &[2]),
        ];
        for (drafts, target, expected) in table {
            let logits: Vec<Vec<f32>> = target.iter().map(|token| likely(*token)).collect();
            assert_eq!(stands(Sampling::GREEDY, drafts, &logits), expected, "{drafts:?}");
        }
    }

    #[test]
    fn what_stands_is_distributed_as_the_model_says() {
        let mut rng = fastrand::Rng::new();
        println!("seed {}", rng.get_seed());
        let mut distribution = || {
            let weights: Vec<f64> = (0..VOCAB).map(|_| rng.f64().powi(2) + 1e-3).collect();
            let sum: f64 = weights.iter().sum();
            weights.into_iter().map(|weight| weight / sum).collect::<Vec<f64>>()
        };
        let model = [distribution(), distribution(), distribution()];
        let other = distribution();
        let logits = model.each_ref().map(|row| row.iter().map(|p| p.ln() as f32).collect());
        let likeliest = |row: &[f64]| {
            (0..VOCAB as u32).max_by(|a, b| row[*a as usize].total_cmp(&row[*b as usize]))
        };
        let drafts = [0, 1].map(|at| likeliest(&model[at]).unwrap());
        let distance = |found: &[f64; VOCAB], of: &[f64]| {
            let count: f64 = found.iter().sum();
            let squares = found.iter().zip(of).map(|(n, p)| (n / count - p).powi(2));
            squares.sum::<f64>().sqrt()
        };
        let mut found = [[0.0; VOCAB]; 3];
        let mut few = found;
        for seed in 0..100_000 {
            let sampling = Sampling { temperature: 1.0, seed, ..Sampling::GREEDY };
            for (place, token) in stands(sampling, &drafts, &logits).into_iter().enumerate() {
                found[place][token as usize] += 1.0;
                if few[place].iter().sum::<f64>() < 10.0 {
                    few[place][token as usize] += 1.0;
                }
            }
        }
        for place in 0..3 {
            assert!(found[place].iter().sum::<f64>() > 100.0, "place {place} is reached");
            let closer = |of: &[f64]| distance(&few[place], of) / distance(&found[place], of);
            assert!(distance(&found[place], &model[place]) < 0.05, "place {place}");
            if place == 0 {
                assert!(closer(&model[0]) > 20.0 * closer(&other), "it converges to the model's");
            }
        }
    }
}
