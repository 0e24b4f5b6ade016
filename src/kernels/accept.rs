//! Which draws stand.

use minijinja::context;

use super::{
    Batch, Bindings, HostTables, Kernel, Table, Tuning, adjust,
    batch::{ACCEPTED, DRAWN, SLOT_TOKENS},
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
            last_samples[slot + ACCEPTED as usize] = accepted as u32;
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
            accepted_at => ACCEPTED,
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
        kernels::{BlockTables, Draw, Sample},
        layout::row_stride,
        step::{Capacity, Draft, RowTokens, Sampling, SeqPlan, StepPlan},
    };

    const VOCAB: usize = 10;
    const DRAFTS: usize = 2;
    const CAPACITY: Capacity = Capacity {
        rows: 8,
        seqs: 2,
        logit_rows: 8,
        blocks: 4,
        context: 32,
        vocab: VOCAB,
        window: None,
    };

    /// A step of a sequence with these drafts.
    fn batch(sampling: Sampling, drafts: &[u32]) -> Batch {
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
        Batch::encode(&plan, &CAPACITY, &tables, 8).unwrap()
    }

    /// Rows of logits as kernels have them.
    fn padded(rows: &[Vec<f32>]) -> Vec<f32> {
        let padding = [0.0].repeat(row_stride(VOCAB) - VOCAB);
        rows.iter().flat_map(|row| row.iter().chain(&padding)).copied().collect()
    }

    /// What stands of a sequence with these drafts, where the target has these logits.
    fn stands(sampling: Sampling, drafts: &[u32], logits: &[f32]) -> Vec<u32> {
        let batch = batch(sampling, drafts);
        let mut tables = HostTables::new(VOCAB, 2);
        let mut last = [u32::MAX; 2 * SLOT_TOKENS as usize];
        let mut results = Sample { vocab: VOCAB }.reference(&batch, logits, &tables, &last);
        Accept { vocab: VOCAB }.reference(&batch, &mut tables, &mut last, &mut results);
        assert_eq!(results.len(), batch.result_words as usize);
        let accepted = results[batch.accepted_at(0)] as usize;
        let drawn: Vec<u32> = (0..=accepted).map(|at| results[2 * at]).collect();
        let [other, mine] = [0, 1].map(|slot| &last[slot * SLOT_TOKENS as usize..]);
        assert_eq!((other[0], mine[0]), (u32::MAX, drawn[accepted]));
        assert_eq!(mine[DRAWN as usize..][..=accepted], drawn);
        assert_eq!(mine[ACCEPTED as usize] as usize, accepted);
        drawn
    }

    /// What a drafter with these logits drafts, with the noise of the draws in the same places.
    fn coupled(sampling: Sampling, logits: &[f32]) -> Vec<u32> {
        let batch = batch(sampling, &[0; DRAFTS]);
        let mut last = [0; 2 * SLOT_TOKENS as usize];
        Draw { vocab: VOCAB, mapped: false }.reference(&batch, logits, None, &mut last);
        last[SLOT_TOKENS as usize..][..DRAFTS].to_vec()
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
            assert_eq!(stands(Sampling::GREEDY, drafts, &padded(&logits)), expected, "{drafts:?}");
        }
    }

    /// Tokens in proportion to these weights.
    fn distribution(weights: &[f64]) -> Vec<f64> {
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    /// Root mean square distance from `p` of the shares that tokens have in each group of so many.
    fn distance(drawn: &[u32], group: usize, p: &[f64]) -> f64 {
        let squares = drawn.chunks_exact(group).map(|drawn| {
            let mut shares = [0.0; VOCAB];
            drawn.iter().for_each(|token| shares[*token as usize] += 1.0 / group as f64);
            shares.iter().zip(p).map(|(share, p)| (share - p).powi(2)).sum::<f64>()
        });
        (squares.sum::<f64>() / (drawn.len() / group) as f64).sqrt()
    }

    /// Against others that are as random, as in vLLM's tests of rejection sampling. With so many rounds
    /// a correct sampler would have to be more than five standard deviations off to fail.
    #[test]
    fn what_stands_is_distributed_as_the_model_says_whoever_drafts() {
        const ROUNDS: u64 = 120_000;
        let mut rng = fastrand::Rng::new();
        println!("seed {}", rng.get_seed());
        // In each place one token has most of the mass, so that the last place is often reached.
        let likely = [0; 1 + DRAFTS].map(|_| rng.u32(..VOCAB as u32));
        let mut peaked = |peak: u32| {
            let weight = |token| if token == peak { 36.0 } else { 0.5 + rng.f64() };
            distribution(&(0..VOCAB as u32).map(weight).collect::<Vec<_>>())
        };
        let model = likely.map(&mut peaked);
        let others = likely.map(|token| peaked((token + 1) % VOCAB as u32));
        let near = model.each_ref().map(|p| {
            let weights: Vec<f64> = p.iter().map(|p| p * (0.5 * (rng.f64() - 0.5)).exp()).collect();
            distribution(&weights)
        });
        let logits = |rows: &[Vec<f64>]| {
            let rows = rows.iter().map(|row| row.iter().map(|p| p.ln() as f32).collect());
            padded(&rows.collect::<Vec<_>>())
        };
        let (target, drafter) = (logits(&model), logits(&near));
        type Drafts<'a> = &'a dyn Fn(Sampling) -> Vec<u32>;
        let drafters: [(&str, Drafts); 2] = [
            ("the likeliest", &|_| likely[..DRAFTS].to_vec()),
            ("with the same noise", &|sampling| coupled(sampling, &drafter)),
        ];
        for (name, drafts) in drafters {
            let mut drawn = [const { Vec::new() }; 1 + DRAFTS];
            for seed in 0..ROUNDS {
                let sampling = Sampling { temperature: 1.0, seed, ..Sampling::GREEDY };
                let stands = stands(sampling, &drafts(sampling), &target);
                stands.into_iter().zip(&mut drawn).for_each(|(token, drawn)| drawn.push(token));
            }
            for (place, drawn) in drawn.iter().enumerate() {
                let closer = |p: &[f64]| distance(drawn, 10, p) / distance(drawn, drawn.len(), p);
                let (own, other) = (closer(&model[place]), closer(&others[place]));
                println!("{name}, place {place}: {} draws, {own:.1} and {other:.2}", drawn.len());
                assert!(drawn.len() > 50_000, "{name}: place {place} is reached");
                assert!(own > 20.0 * other, "{name}, place {place}: it converges to the model's");
            }
        }
    }
}
