//! Samples behind drafts, and the sampling of drafts.

use tabloom::{
    kernels::DraftSample,
    layout::row_stride,
    step::{Draft, MAX_DRAFTS, Sampling, SeqPlan},
};

use super::{SLOT_TOKENS, Step, near, padded, random_draw, sampling_seq};
use crate::support::{Bench, WITHOUT_SUBGROUPS, bits};

#[test]
fn samples_after_drafts_equal_those_after_the_same_tokens() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for (vocab, n) in [(5, 12), (300, 12), (2048, 6)] {
            let (mut seqs, mut rows, mut expected) = (Vec::new(), Vec::new(), Vec::new());
            for slot in 0..n {
                let mut seq = random_draw(&mut rng, slot, vocab);
                let count = rng.usize(0..=MAX_DRAFTS);
                seq.blocks.push(0);
                let mut next = SeqPlan { slot: 0, ..seq.clone() };
                for place in 0..=count {
                    let row: Vec<f32> = (0..vocab).map(|_| 8.0 * rng.f32() - 4.0).collect();
                    let logits = padded(vocab, std::slice::from_ref(&row));
                    let sampled = Step::of(vocab, vec![next.clone()]).plain(&logits)[0];
                    expected.push((next.clone(), row.clone(), sampled));
                    rows.push(row);
                    if place == count {
                        break;
                    }
                    let wrong = rng.u32(..vocab as u32);
                    let token = if rng.u32(..4) > 0 { sampled } else { wrong };
                    let mask = random_draw(&mut rng, slot, vocab).mask;
                    seq.drafts.push(Draft { token: Some(token), mask: mask.clone() });
                    let adjust = next.adjust.take().map(|mut adjust| {
                        adjust.tokens.push(token);
                        adjust
                    });
                    next = SeqPlan { adjust, mask, start: next.start + 1, ..next };
                }
                seqs.push(seq);
            }
            let logits = padded(vocab, &rows);
            let mut plain = Step::of(vocab, seqs.clone());
            let mut found = vec![("plain Rust".to_owned(), plain.plain(&logits), plain)];
            for tuning in WITHOUT_SUBGROUPS {
                let mut step = Step::of(vocab, seqs.clone());
                let results = step.run(&mut bench, tuning, &logits).await;
                found.push((format!("{tuning:?}"), results, step));
            }
            for (who, results, step) in found {
                let (mut at, samples) = (0, step.batch.samples as usize);
                for (i, seq) in seqs.iter().enumerate() {
                    let sampled: Vec<u32> =
                        (at..at + seq.sampled()).map(|at| results[2 * at]).collect();
                    for (place, token) in sampled.iter().enumerate() {
                        let (alone, row, expected) = &expected[at + place];
                        assert!(near(row, alone, *token, *expected), "{who}: {place} of {seq:?}");
                    }
                    at += seq.sampled();
                    let drafts = seq.drafts.iter().zip(&sampled);
                    let accepted = drafts
                        .take_while(|(draft, sampled)| draft.token == Some(**sampled))
                        .count();
                    assert_eq!(results[2 * samples + i] as usize, accepted, "{who}: {seq:?}");
                    assert_eq!(
                        step.last_samples[seq.slot as usize * SLOT_TOKENS],
                        sampled[accepted],
                        "{who}"
                    );
                    if let Some(mut adjust) = seq.adjust.clone() {
                        adjust.tokens.extend(&sampled[..=accepted]);
                        let adjusted_plan = SeqPlan { adjust: Some(adjust), ..seq.clone() };
                        let adjusted_plan = Step::of(vocab, vec![adjusted_plan]).tables.tallies;
                        let slot = seq.slot as usize * row_stride(vocab);
                        let slot = slot..slot + row_stride(vocab);
                        assert_eq!(
                            step.tables.tallies[slot.clone()],
                            adjusted_plan[slot],
                            "{who}: {seq:?}"
                        );
                    }
                }
            }
        }
    });
}

/// Shared noise: a draft equals the token that the target samples in its place, if the two agree.
#[test]
fn drafts_are_sampled_with_the_targets_noise() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for (vocab, known, n) in [(300, 300, 20), (2048, 1100, 12), (5, 3, 12)] {
            let temperatures = [0.0, 0.7, 1.0, 1.5];
            let seqs: Vec<SeqPlan> = (0..n)
                .map(|slot| {
                    let temperature = temperatures[slot % 4];
                    let sampling = Sampling { temperature, seed: rng.u64(..), ..Sampling::GREEDY };
                    sampling_seq(slot, rng.u32(1..9999), sampling)
                })
                .collect();
            // The drafter's vocabulary is part of the target's; the target gives the other tokens low
            // logits.
            let mut ids: Vec<u32> = (0..vocab as u32).collect();
            rng.shuffle(&mut ids);
            ids.truncate(known);
            ids.sort_unstable();
            let (mut of_target, mut of_drafter) = (Vec::new(), Vec::new());
            for _ in 0..n {
                let row: Vec<f32> = (0..known).map(|_| 8.0 * rng.f32() - 4.0).collect();
                let mut whole = vec![-1e4; vocab];
                ids.iter().zip(&row).for_each(|(id, logit)| whole[*id as usize] = *logit);
                of_target.push(whole);
                of_drafter.push(row);
            }
            let mut target = Step::of(vocab, seqs.clone());
            let expected = target.plain(&padded(vocab, &of_target));
            let mut drafter = Step::of(vocab, seqs.clone());
            for i in 0..n {
                drafter.batch.sample_mut(i)[9] |= 3 << 8;
            }
            let (kernel, logits) =
                (DraftSample { vocab: known, mapped: true }, padded(known, &of_drafter));
            let mut plain = drafter.last_samples.clone();
            kernel.reference(&drafter.batch, &logits, Some(&ids), &mut plain);
            let mut found = vec![plain];
            for tuning in WITHOUT_SUBGROUPS {
                let words = bits(&logits);
                let buffers = [&drafter.batch.words[..], &words, &ids, &drafter.last_samples];
                found.push(bench.run(&kernel, tuning, &drafter.batch, &buffers).await.remove(0));
            }
            for (who, table) in found.into_iter().enumerate() {
                for (i, (seq, row)) in seqs.iter().zip(&of_target).enumerate() {
                    let (draft, sampled) = (table[i * SLOT_TOKENS + 3], expected[2 * i]);
                    assert!(near(row, seq, draft, sampled), "{who}: {draft} is {sampled}: {seq:?}");
                    assert_eq!(table[i * SLOT_TOKENS], u32::MAX, "the last sample stays");
                }
            }
        }
    });
}
