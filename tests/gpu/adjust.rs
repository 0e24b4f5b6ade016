//! Penalties, bias, masks and log-probabilities on whole models, by both executors.

use crate::support::{
    goldens::{self, folder, golden},
    log_softmax,
};
use tabloom::{
    executor::AnyExecutor,
    load::Device,
    step::{
        Adjust, Executor, Logprobs, Mask, RowTokens, Sampling, Score, SeqPlan, StepPlan, StepResult,
    },
    weights::FolderSource,
};

const MODEL: &str = "llama3_bf16";
const SLOT: u32 = 2;

async fn open(device: Device) -> AnyExecutor {
    goldens::executor(&FolderSource::new(folder(MODEL)), device).await.expect("it loads")
}

/// Rows of one sequence from a position on.
fn rows(tokens: RowTokens, start: usize) -> SeqPlan {
    let blocks =
        (0..(start + tokens.count()).div_ceil(16) as u32).map(|i| (i * 3 + 5) % 8).collect();
    SeqPlan { slot: SLOT, tokens, start: start as u32, blocks, ..Default::default() }
}

async fn run(executor: &mut AnyExecutor, seq: SeqPlan, read_logits: bool) -> StepResult {
    let plan = StepPlan { seqs: vec![seq], read_logits, ..Default::default() };
    executor.submit(&plan).expect("a valid plan");
    executor.result(async || {}).await.expect("it runs")
}

fn check(found: &Logprobs, logits: &[f32], token: u32, top: usize, limit: f64) {
    let exact = log_softmax(logits);
    let close = |found: f32, token: u32| (f64::from(found) - exact[token as usize]).abs() < limit;
    assert!(close(found.chosen, token), "{} is {}", found.chosen, exact[token as usize]);
    assert_eq!(found.top.len(), top);
    let falling = found.top.windows(2).all(|pair| pair[0].1 >= pair[1].1);
    assert!(falling && found.top.iter().all(|(token, value)| close(*value, *token)));
    if let Some((likeliest, _)) = found.top.first() {
        assert!(
            close(found.top[0].1, *likeliest)
                && exact.iter().all(|v| v - limit <= exact[*likeliest as usize])
        );
    }
}

fn argmax(logits: &[f32]) -> u32 {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter().position(|logit| *logit == top).expect("the largest") as u32
}

#[test]
fn prompt_log_probabilities_are_those_of_transformers() {
    pollster::block_on(async {
        for device in [Device::Gpu, Device::Cpu] {
            let (golden, mut executor) = (golden(MODEL), open(device).await);
            let vocab = executor.capacity().vocab;
            // The last chunk also samples, and returns the log-probability of its token.
            for (chunk, top) in [(0..10, 3), (10..22, 0), (22..24, 20)] {
                let mut seq =
                    rows(RowTokens::Known(golden.tokens[chunk.clone()].to_vec()), chunk.start);
                let targets: Vec<u32> =
                    (1..=chunk.len()).map(|i| golden.tokens[(chunk.start + i) % 24]).collect();
                seq.score = Some(Score { targets: targets.clone(), top });
                let last = chunk.end == 24;
                seq.sample = last.then_some(Sampling { logprobs: Some(5), ..Sampling::GREEDY });
                for read_logits in [false, true] {
                    let result = run(&mut executor, seq.clone(), read_logits).await;
                    assert_eq!(result.scores.len(), chunk.len());
                    for (i, (score, target)) in result.scores.iter().zip(&targets).enumerate() {
                        let row =
                            |logits: &[f32], row: usize| logits[row * vocab..][..vocab].to_vec();
                        let theirs = row(&golden.logits, chunk.start + i);
                        check(score, &theirs, *target, top as usize, 0.02);
                        if read_logits {
                            check(score, &row(&result.logits, i), *target, top as usize, 1e-4);
                        }
                    }
                    assert_eq!(result.samples.len(), usize::from(last));
                    for sample in &result.samples {
                        let logprobs = sample.logprobs.as_ref().expect("it was requested");
                        let theirs = &golden.logits[23 * vocab..];
                        assert_eq!(sample.token, argmax(theirs));
                        check(logprobs, theirs, sample.token, 5, 0.02);
                    }
                }
            }
        }
    });
}

#[test]
fn penalties_count_the_sampled_tokens_of_their_slot() {
    pollster::block_on(async {
        let mut texts = Vec::new();
        for device in [Device::Gpu, Device::Cpu] {
            let (golden, mut executor) = (golden(MODEL), open(device).await);
            let sampling = Sampling {
                presence_penalty: 0.25,
                frequency_penalty: 0.5,
                repetition_penalty: 1.25,
                bias: true,
                logprobs: Some(0),
                ..Sampling::GREEDY
            };
            // A token that is rarely sampled otherwise, until its penalty outweighs its bias.
            let adjust =
                Adjust { tokens: golden.tokens.clone(), prompt: 24, bias: vec![(77, 2.0)] };
            let mut counts = vec![0u16; executor.capacity().vocab];
            let mut text = Vec::new();
            for i in 0..30 {
                let mut seq = match i {
                    0 => rows(RowTokens::Known(golden.tokens[16..].to_vec()), 16),
                    _ => rows(RowTokens::LastSample, 23 + i),
                };
                if i == 0 {
                    // The adjustment comes with the first rows, which do not sample yet.
                    let mut first = rows(RowTokens::Known(golden.tokens[..16].to_vec()), 0);
                    first.adjust = Some(adjust.clone().into());
                    run(&mut executor, first, false).await;
                }
                seq.sample = Some(sampling);
                let result = run(&mut executor, seq, true).await;
                let raw = &result.logits[result.logits.len() - counts.len()..];
                let mut logits = raw.to_vec();
                logits[77] += 2.0;
                for (token, logit) in logits.iter_mut().enumerate() {
                    if counts[token] > 0 || golden.tokens.contains(&(token as u32)) {
                        *logit = if *logit > 0.0 { *logit / 1.25 } else { *logit * 1.25 };
                    }
                    *logit -=
                        0.5 * f32::from(counts[token]) + if counts[token] > 0 { 0.25 } else { 0.0 };
                }
                let sample = &result.samples[0];
                assert_eq!(sample.token, argmax(&logits), "sample {i}");
                check(sample.logprobs.as_ref().expect("asked for"), raw, sample.token, 0, 1e-4);
                counts[sample.token as usize] += 1;
                text.push(sample.token);
            }
            assert!(counts[77] > 0, "the bias has no effect");
            assert!(counts.iter().all(|count| *count < 20), "penalties have no effect: {text:?}");
            texts.push(text);
        }
        assert_eq!(texts[0], texts[1], "the executors differ");
    });
}

#[test]
fn only_requested_adjustments_are_uploaded_or_computed() {
    pollster::block_on(async {
        let (mut executor, tokens) = (open(Device::Gpu).await, golden(MODEL).tokens);
        let work = |executor: &AnyExecutor| match executor {
            AnyExecutor::Gpu(executor) => executor.work(),
            AnyExecutor::Cpu(_) => panic!("not on the GPU"),
        };
        let vocab = executor.capacity().vocab;
        let adjust = Adjust { tokens: tokens.clone(), prompt: 24, bias: Vec::new() };
        let plain = Sampling::GREEDY;
        let penalties = Sampling { presence_penalty: 1.0, ..plain };
        let told = Sampling { logprobs: Some(2), ..penalties };
        let only_5 = Mask::New((0..vocab.div_ceil(32)).map(|i| u32::from(i == 0) << 5).collect());
        let mut dispatches = Vec::new();
        // (sampling, mask, adjustment, buffer writes)
        let steps = [
            (plain, Mask::None, None, 2), // the step, and its first block
            (penalties, Mask::None, Some(Box::new(adjust)), 2),
            (penalties, Mask::None, None, 1),
            (penalties, only_5, None, 2),
            (penalties, Mask::Same, None, 1),
            (told, Mask::Same, None, 1),
        ];
        for (i, (sampling, mask, adjust, writes)) in steps.into_iter().enumerate() {
            let masked = mask != Mask::None;
            let tokens = RowTokens::Known(vec![tokens[i]]);
            let seq = SeqPlan { sample: Some(sampling), mask, adjust, ..rows(tokens, i) };
            let before = work(&executor);
            let result = run(&mut executor, seq, false).await;
            let after = work(&executor);
            assert_eq!(after.buffer_writes - before.buffer_writes, writes, "step {i}");
            assert_eq!(after.bind_groups, before.bind_groups);
            dispatches.push(after.dispatches - before.dispatches);
            assert!(!masked || result.samples[0].token == 5, "step {i}: {result:?}");
        }
        let plain = dispatches[0];
        assert_eq!(dispatches, [plain, plain, plain, plain, plain, plain + 1]);
    });
}
