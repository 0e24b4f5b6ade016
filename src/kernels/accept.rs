//! Verification of drafts.

use minijinja::context;

use super::{
    Batch, Bindings, HostTables, Kernel, Table, Tuning, adjust,
    batch::{ACCEPTED, SAMPLED, SLOT_TOKENS},
};
use crate::gpu::Shader;

/// Verifies drafts: the first drafts of each sequence that equal the tokens sampled in their places are
/// accepted. The token sampled after the last accepted draft (the bonus token) counts too; it becomes
/// the slot's last sample.
///
/// Tokens are sampled with noise that depends on the position alone, so the result is the same as
/// without drafts (Daliri, Musco, Suresh, "Coupling without communication and drafter-invariant
/// speculative decoding", 2024).
///
/// Bindings: step, last samples (in and out) `[slots][SLOT_TOKENS]`, results (in and out): those of
/// [`super::Sample`], then `[sample runs]` the number of accepted drafts, tallies (in and out),
/// which count the accepted tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    pub vocab: usize,
}

impl Accept {
    /// Threads of a workgroup, one per sequence.
    const THREADS: u32 = 32;

    /// CPU reference: appends to the samples' results.
    pub fn reference(
        &self,
        batch: &Batch,
        tables: &mut HostTables,
        last_samples: &mut [u32],
        results: &mut Vec<u32>,
    ) {
        for i in 0..batch.sample_runs as usize {
            let (first, samples) = batch.sample_run(i);
            let sampled = |sample: usize| results[2 * sample];
            let is_accepted = |sample: &usize| {
                sampled(sample - 1) == batch.token(batch.sample(*sample)[13] as usize, last_samples)
            };
            let accepted = (first + 1..first + samples).take_while(is_accepted).count();
            let slot = (batch.sample(first)[1] * SLOT_TOKENS) as usize;
            for place in 0..=accepted {
                let token = sampled(first + place);
                tables.count_sampled(self.vocab, batch.sample(first + place), token);
                last_samples[slot + SAMPLED as usize + place] = token;
            }
            last_samples[slot] = sampled(first + accepted);
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
            count => adjust::COUNT,
            slot_tokens => SLOT_TOKENS,
            sampled_at => SAMPLED,
            accepted_at => ACCEPTED,
        };
        Shader::render("accept", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        // Without drafts, `Sample` has done all of this.
        let seqs = if batch.samples > batch.sample_runs { batch.sample_runs } else { 0 };
        [seqs.div_ceil(Accept::THREADS), 1, 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kernels::{BlockTables, DraftSample, Sample},
        layout::row_stride,
        step::{Capacity, Draft, HostMemory, KvGroups, RowTokens, Sampling, SeqPlan, StepPlan},
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
        groups: KvGroups::FULL,
        host: HostMemory::NONE,
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

    /// Rows of logits with the kernels' padding.
    fn padded(rows: &[Vec<f32>]) -> Vec<f32> {
        let padding = [0.0].repeat(row_stride(VOCAB) - VOCAB);
        rows.iter().flat_map(|row| row.iter().chain(&padding)).copied().collect()
    }

    /// The accepted tokens of a sequence with these drafts and these target logits.
    fn verify(sampling: Sampling, drafts: &[u32], logits: &[f32]) -> Vec<u32> {
        let batch = batch(sampling, drafts);
        let mut tables = HostTables::new(VOCAB, 2);
        let mut last = [u32::MAX; 2 * SLOT_TOKENS as usize];
        let mut results = Sample { vocab: VOCAB }.reference(&batch, logits, &tables, &last);
        Accept { vocab: VOCAB }.reference(&batch, &mut tables, &mut last, &mut results);
        assert_eq!(results.len(), batch.result_words as usize);
        let accepted = results[batch.accepted_at(0)] as usize;
        let sampled: Vec<u32> = (0..=accepted).map(|at| results[2 * at]).collect();
        let [other, mine] = [0, 1].map(|slot| &last[slot * SLOT_TOKENS as usize..]);
        assert_eq!((other[0], mine[0]), (u32::MAX, sampled[accepted]));
        assert_eq!(mine[SAMPLED as usize..][..=accepted], sampled);
        assert_eq!(mine[ACCEPTED as usize] as usize, accepted);
        sampled
    }

    /// Drafts of a drafter with these logits, sampled with the target's noise.
    fn coupled(sampling: Sampling, logits: &[f32]) -> Vec<u32> {
        let batch = batch(sampling, &[0; DRAFTS]);
        let mut last = [0; 2 * SLOT_TOKENS as usize];
        DraftSample { vocab: VOCAB, mapped: false }.reference(&batch, logits, None, &mut last);
        last[SLOT_TOKENS as usize..][..DRAFTS].to_vec()
    }

    #[test]
    fn drafts_are_accepted_up_to_the_first_that_differs_from_the_sampled_token() {
        let likely = |token: u32| (0..VOCAB as u32).map(|i| f32::from(i == token)).collect();
        // (drafts, most likely tokens, accepted tokens)
        let table: [(&[u32], &[u32], &[u32]); 5] = [
            (&[1, 2, 3], &[1, 2, 3, 4], &[1, 2, 3, 4]),
            (&[1, 2, 3], &[1, 5, 3, 4], &[1, 5]),
            (&[3], &[3, 4], &[3, 4]),
            (&[], &[5], &[5]),
            (&[1], &[2, 3], &[2]),
        ];
        for (drafts, target, expected) in table {
            let logits: Vec<Vec<f32>> = target.iter().map(|token| likely(*token)).collect();
            assert_eq!(verify(Sampling::GREEDY, drafts, &padded(&logits)), expected, "{drafts:?}");
        }
    }

    /// Probabilities in proportion to these weights.
    fn distribution(weights: &[f64]) -> Vec<f64> {
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    /// Root mean square distance between `p` and the token frequencies in groups of `group` tokens.
    fn distance(tokens: &[u32], group: usize, p: &[f64]) -> f64 {
        let squares = tokens.chunks_exact(group).map(|chunk| {
            let mut shares = [0.0; VOCAB];
            chunk.iter().for_each(|token| shares[*token as usize] += 1.0 / group as f64);
            shares.iter().zip(p).map(|(share, p)| (share - p).powi(2)).sum::<f64>()
        });
        (squares.sum::<f64>() / (tokens.len() / group) as f64).sqrt()
    }

    /// As in vLLM's tests of rejection sampling, distances are compared with those of another
    /// distribution as random as this one. With this many rounds, a correct sampler fails only beyond
    /// five standard deviations.
    #[test]
    fn accepted_tokens_follow_the_models_distribution_with_any_drafter() {
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
            ("the most likely", &|_| likely[..DRAFTS].to_vec()),
            ("with the same noise", &|sampling| coupled(sampling, &drafter)),
        ];
        for (name, drafts) in drafters {
            let mut places = [const { Vec::new() }; 1 + DRAFTS];
            for seed in 0..ROUNDS {
                let sampling = Sampling { temperature: 1.0, seed, ..Sampling::GREEDY };
                let tokens = verify(sampling, &drafts(sampling), &target);
                tokens.into_iter().zip(&mut places).for_each(|(token, place)| place.push(token));
            }
            for (place, all) in places.iter().enumerate() {
                let closer = |p: &[f64]| distance(all, 10, p) / distance(all, all.len(), p);
                let (own, other) = (closer(&model[place]), closer(&others[place]));
                println!("{name}, place {place}: {} samples, {own:.1} and {other:.2}", all.len());
                assert!(all.len() > 50_000, "{name}: place {place} is reached");
                assert!(own > 20.0 * other, "{name}, place {place}: it converges to the model's");
            }
        }
    }
}
