//! What a step may have: an index out of bounds would silently corrupt device memory.

use crate::{
    Error, Result,
    step::{
        Capacity, MAX_BIAS, MAX_DRAFTS, MAX_LOGPROB_TOKENS, MAX_LOGPROBS, Mask, RowTokens, SeqPlan,
        StepPlan,
    },
};

/// Checks a plan against the capacity, but for its tables and the number of its logit rows.
pub(super) fn plan(plan: &StepPlan, capacity: &Capacity) -> Result<()> {
    if plan.is_empty() || plan.rows() > capacity.rows || plan.seqs.len() > capacity.seqs {
        return Err(refused(format!(
            "{} rows in {} sequences; this executor takes 1 to {} rows in at most {} sequences",
            plan.rows(),
            plan.seqs.len(),
            capacity.rows,
            capacity.seqs
        )));
    }
    let inside = |block: u32| (block as usize) < capacity.blocks;
    if let Some(copy) = plan.copies.iter().find(|c| !inside(c.from) || !inside(c.to)) {
        return Err(refused(format!("{copy:?} in a cache of {} blocks", capacity.blocks)));
    }
    let kept = |block: u32| (block as usize) < capacity.host.blocks;
    let outside = plan.saves.iter().find(|c| !inside(c.from) || !kept(c.to));
    let outside = outside.or(plan.restores.iter().find(|c| !kept(c.from) || !inside(c.to)));
    if outside.is_some() || plan.saves.len() > capacity.host.saves {
        return Err(refused(format!(
            "{} saves and {} restores, of which {outside:?} is out of range; this executor has {:?}",
            plan.saves.len(),
            plan.restores.len(),
            capacity.host
        )));
    }
    for seq in &plan.seqs {
        if let Some(what) = bad_sampling(seq, capacity.vocab) {
            return Err(refused(format!("{what} of slot {} is out of range", seq.slot)));
        }
    }
    Ok(())
}

/// A plan is refused.
pub(super) fn refused(message: String) -> Error {
    Error::InvalidRequest { param: "step".into(), message }
}

/// What is out of range in a sequence's sampling, if anything.
fn bad_sampling(seq: &SeqPlan, vocab: usize) -> Option<&'static str> {
    let known = |token: &u32| (*token as usize) < vocab;
    let given = match &seq.tokens {
        RowTokens::Known(ids) => &ids[..],
        RowTokens::LastSample => &[],
    };
    let drafts = &seq.drafts;
    let refused = [
        ("a token", !given.iter().all(known)),
        (
            "a draft",
            drafts.len() > MAX_DRAFTS
                || !drafts.iter().all(|draft| draft.token.as_ref().is_none_or(known))
                || !drafts.is_empty() && (seq.sample.is_none() || seq.score.is_some()),
        ),
        (
            "a row after unverified drafts",
            seq.unverified > 0
                && (seq.unverified as usize > MAX_DRAFTS
                    || seq.tokens != RowTokens::LastSample
                    || drafts.iter().any(|draft| draft.token.is_some())
                    || seq.score.is_some()
                    || seq.pool.is_some()),
        ),
        (
            "the adjustment",
            seq.adjust.as_ref().is_some_and(|adjust| {
                let bias = |(token, value): &(u32, f32)| known(token) && value.is_finite();
                !adjust.tokens.iter().all(known)
                    || adjust.prompt > adjust.tokens.len()
                    || adjust.bias.len() > MAX_BIAS
                    || !adjust.bias.iter().all(bias)
            }),
        ),
        (
            "the mask",
            seq.masks()
                .any(|mask| matches!(mask, Mask::New(words) if words.len() != vocab.div_ceil(32))),
        ),
        (
            "the score",
            seq.score.as_ref().is_some_and(|score| {
                score.targets.len() != seq.tokens.count()
                    || !score.targets.iter().all(known)
                    || score.top > MAX_LOGPROBS
            }),
        ),
        (
            "the number of log-probabilities",
            seq.sample.and_then(|s| s.logprobs).is_some_and(|top| top > MAX_LOGPROBS),
        ),
        (
            "a token named for its log-probability",
            seq.logprob_tokens.len() > MAX_LOGPROB_TOKENS || !seq.logprob_tokens.iter().all(known),
        ),
    ];
    refused.into_iter().find(|(_, bad)| *bad).map(|(what, _)| what)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            Batch,
            tests::{CAPACITY, encode, seq},
        },
        *,
    };
    use crate::{
        kernels::BlockTables,
        step::{Adjust, BlockCopy, HostMemory, Sampling, Score},
    };

    #[test]
    fn indices_out_of_range_are_refused() {
        const ROOMY: Capacity = Capacity { context: 128, ..CAPACITY };
        let bad = [
            seq(0, RowTokens::Known(vec![100]), 0, &[1]),
            seq(0, RowTokens::Known(vec![1; 65]), 0, &[1, 2, 3, 4, 5]),
        ];
        for seq in bad {
            let plan = StepPlan { seqs: vec![seq], ..Default::default() };
            let tables = BlockTables::of(&plan, &ROOMY).unwrap();
            let refused = Batch::encode(&plan, &CAPACITY, &tables, 8);
            assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{plan:?}");
        }
        for (from, to) in [(10, 0), (0, 10)] {
            let copies = vec![BlockCopy { from, to }];
            let seqs = vec![seq(0, RowTokens::Known(vec![1]), 0, &[1])];
            let plan = StepPlan { copies, seqs, ..Default::default() };
            let tables = BlockTables::of(&plan, &CAPACITY).unwrap();
            let refused = Batch::encode(&plan, &CAPACITY, &tables, 8);
            assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{plan:?}");
        }
    }

    #[test]
    fn copies_beyond_host_memory_are_refused() {
        const HOST: HostMemory = HostMemory { blocks: 3, saves: 1, reads: 0 };
        let capacity = Capacity { host: HOST, ..CAPACITY };
        let accepted = |saves: &[(u32, u32)], restores: &[(u32, u32)]| {
            let copies = |list: &[(u32, u32)]| {
                list.iter().map(|(from, to)| BlockCopy { from: *from, to: *to }).collect()
            };
            let (saves, restores) = (copies(saves), copies(restores));
            let seqs = vec![seq(0, RowTokens::Known(vec![1]), 0, &[1])];
            let plan = StepPlan { saves, restores, seqs, ..Default::default() };
            let tables = BlockTables::of(&plan, &capacity).unwrap();
            Batch::encode(&plan, &capacity, &tables, 8).is_ok()
        };
        assert!(accepted(&[(9, 2)], &[(2, 9), (0, 1)]));
        assert!(!accepted(&[(10, 2)], &[]) && !accepted(&[(9, 3)], &[]));
        assert!(!accepted(&[], &[(3, 1)]) && !accepted(&[], &[(0, 10)]));
        assert!(!accepted(&[(1, 0), (2, 1)], &[]), "more than a step saves");
    }

    #[test]
    fn sampling_out_of_range_is_refused() {
        let good = || seq(0, RowTokens::Known(vec![1]), 0, &[1]);
        let adjust = |tokens: &[u32], prompt, bias: &[(u32, f32)]| {
            let (tokens, bias) = (tokens.to_vec(), bias.to_vec());
            SeqPlan { adjust: Some(Box::new(Adjust { tokens, prompt, bias })), ..good() }
        };
        let mask = |words| SeqPlan { mask: Mask::New(vec![1; words]), ..good() };
        let score = |targets: &[u32], top| SeqPlan {
            score: Some(Score { targets: targets.to_vec(), top }),
            ..good()
        };
        let logprobs = |top| {
            let sample = Some(Sampling { logprobs: Some(top), ..Sampling::GREEDY });
            SeqPlan { sample, ..good() }
        };
        let fits = [
            adjust(&[99, 1], 2, &[(99, -3e38)]),
            adjust(&[], 0, &[(0, 1.0); MAX_BIAS]),
            mask(4),
            score(&[99], 20),
            logprobs(20),
        ];
        let bad = [
            adjust(&[100], 1, &[]),
            adjust(&[1], 2, &[]),
            adjust(&[1], 1, &[(100, 1.0)]),
            adjust(&[1], 1, &[(1, f32::NAN)]),
            adjust(&[1], 1, &[(1, f32::INFINITY)]),
            adjust(&[1], 1, &[(1, 1.0); MAX_BIAS + 1]),
            mask(3),
            mask(5),
            score(&[], 0),
            score(&[1, 2], 0),
            score(&[100], 0),
            score(&[1], 21),
            logprobs(21),
        ];
        for (seqs, fit) in [(fits.to_vec(), true), (bad.to_vec(), false)] {
            for seq in seqs {
                let plan = StepPlan { seqs: vec![seq], ..Default::default() };
                let encoded = encode(&plan);
                match fit {
                    true => assert!(encoded.is_ok(), "{plan:?}: {encoded:?}"),
                    false => {
                        assert!(matches!(encoded, Err(Error::InvalidRequest { .. })), "{plan:?}")
                    }
                }
            }
        }
    }
}
