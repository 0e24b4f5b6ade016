//! Log-probabilities, against a softmax in f64.

use tabloom::step::{MAX_LOGPROB_TOKENS, MAX_LOGPROBS, RowTokens, Score, SeqPlan};

use super::{Step, padded, random_draw};
use crate::support::{Bench, WITHOUT_SUBGROUPS, floats, log_softmax};

#[test]
fn log_probabilities_are_those_of_the_raw_logits() {
    pollster::block_on(async {
        let mut bench = Bench::open().await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for (vocab, n) in [(1, 4), (7, 12), (300, 12), (128_256, 3)] {
            // Each sequence may score two rows, may sample from its last one, and may return
            // log-probabilities of either.
            let mut seqs = Vec::new();
            for slot in 0..n {
                let mut seq = random_draw(&mut rng, slot, vocab);
                let asked = |rng: &mut fastrand::Rng| [0, 1, 5, MAX_LOGPROBS][rng.usize(..4)];
                if rng.bool() {
                    let targets = [0; 2].map(|_| rng.u32(..vocab as u32)).to_vec();
                    seq.tokens = RowTokens::Known(vec![0; 2]);
                    seq.blocks.extend([0, 0]);
                    seq.score = Some(Score { targets, top: asked(&mut rng) });
                }
                let sampling = seq.sample.as_mut().expect("it samples");
                sampling.logprobs = rng.bool().then(|| asked(&mut rng));
                let names = [0, 1, MAX_LOGPROB_TOKENS][rng.usize(..3)];
                seq.logprob_tokens = (0..names).map(|_| rng.u32(..vocab as u32)).collect();
                if seq.score.is_some() && rng.bool() {
                    seq.sample = None;
                }
                seqs.push(seq);
            }
            let scored = |seq: &SeqPlan| seq.score.is_some();
            let rows =
                |seq: &SeqPlan| if scored(seq) { 2 } else { usize::from(seq.sample.is_some()) };
            let count: usize = seqs.iter().map(rows).sum();
            // Ties among the most likely tokens in some rows, and a row that is not a distribution.
            let mut logits: Vec<Vec<f32>> = (0..count)
                .map(|row| {
                    (0..vocab)
                        .map(|_| match row % 2 {
                            0 => rng.i32(-40..=40) as f32 / 4.0,
                            _ => 30.0 * rng.f32() - 15.0,
                        })
                        .collect()
                })
                .collect();
            let bad = rng.usize(..count);
            logits[bad][rng.usize(..vocab)] =
                [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][rng.usize(..3)];

            let mut plain = Step::of(vocab, seqs.clone());
            let padded = padded(vocab, &logits);
            let expected = plain.plain(&padded);
            let mut found = vec![("plain Rust".to_owned(), expected)];
            for tuning in WITHOUT_SUBGROUPS {
                let results = Step::of(vocab, seqs.clone()).run(&mut bench, tuning, &padded).await;
                found.push((format!("{tuning:?}"), results));
            }
            for (who, results) in found {
                let active = seqs.iter().filter(|seq| seq.sample.is_some());
                let mut sampled = results.chunks(2);
                let mut at = 3 * active.count();
                // (row, token, how many, which): first those of the samples, then the scores.
                let mut wanted = Vec::new();
                let mut scores = Vec::new();
                let mut row = 0;
                for seq in &seqs {
                    let end = row + rows(seq);
                    if let Some(sampling) = seq.sample {
                        let token = sampled.next().expect("a sample")[0];
                        let named = &seq.logprob_tokens[..];
                        wanted.extend(sampling.logprobs.map(|top| (end - 1, token, top, named)));
                    }
                    if let Some(score) = &seq.score {
                        let targets = score.targets.iter().zip(row..);
                        scores
                            .extend(targets.map(|(token, row)| (row, *token, score.top, &[][..])));
                    }
                    row = end;
                }
                for (row, token, top, named) in wanted.into_iter().chain(scores) {
                    let top = (top as usize).min(vocab);
                    let (words, exact) = (&results[at..][..1 + 2 * top], log_softmax(&logits[row]));
                    let others = &results[at + words.len()..][..named.len()];
                    at += words.len() + others.len();
                    let chosen = f32::from_bits(words[0]);
                    if row == bad {
                        assert!(chosen.is_nan(), "{who}: {chosen} of a bad row");
                        continue;
                    }
                    let close = |found: f32, token: u32| {
                        (f64::from(found) - exact[token as usize]).abs() < 1e-4
                    };
                    assert!(
                        close(chosen, token),
                        "{who}: {chosen} of {token}, {}",
                        exact[token as usize]
                    );
                    let mut order: Vec<u32> = (0..vocab as u32).collect();
                    order.sort_by(|a, b| {
                        logits[row][*b as usize].total_cmp(&logits[row][*a as usize])
                    });
                    for (word, token) in others.iter().zip(named) {
                        assert!(close(f32::from_bits(*word), *token), "{who}: named {token}");
                    }
                    for (pair, token) in words[1..].chunks(2).zip(order) {
                        assert_eq!(pair[0], token, "{who}: most likely of {vocab}");
                        assert!(close(floats(pair)[1], token), "{who}: {pair:?}");
                    }
                }
                assert_eq!(at, results.len(), "{who}");
            }
        }
    });
}
