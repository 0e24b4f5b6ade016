//! Answers that continue where another engine stopped.

use super::*;
use crate::sampling::Constraint;

fn resumed(prompt: usize, answered: &[u32], max_tokens: usize) -> Request {
    Request { answered: answered.to_vec(), ..request(prompt, max_tokens) }
}

/// Allows these tokens, in this order.
#[derive(Debug)]
struct Fixed {
    tokens: Vec<u32>,
    accepted: usize,
}

pub fn fixed(tokens: &[u32]) -> Box<dyn Constraint> {
    Box::new(Fixed { tokens: tokens.to_vec(), accepted: 0 })
}

impl Constraint for Fixed {
    fn mask(&mut self) -> Result<Vec<u32>> {
        Ok(vec![self.tokens.get(self.accepted).map_or(0, |next| 1 << next)])
    }

    fn accept(&mut self, token: u32) -> Result<()> {
        if self.tokens.get(self.accepted) != Some(&token) {
            return Err(Error::Aborted);
        }
        self.accepted += 1;
        Ok(())
    }

    fn rollback(&mut self, count: usize) -> Result<()> {
        self.accepted -= count;
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.accepted == self.tokens.len()
    }
}

#[test]
fn the_first_sampled_token_comes_after_the_given_answer() {
    let mut scheduler = scheduler(64, 4, 10);
    let mut ask = Request { min_tokens: 4, ..resumed(20, &[5, 6, 5], 5) };
    ask.sampling.presence_penalty = 0.5;
    let id = add(&mut scheduler, ask);
    let first = plan(&mut scheduler);
    let seq = &first.seqs[0];
    let known = [vec![1; 20], vec![5, 6, 5]].concat();
    assert_eq!(seq.tokens, RowTokens::Known(known.clone()));
    let adjust = seq.adjust.as_ref().expect("penalties look at all tokens");
    assert_eq!((&adjust.tokens, adjust.prompt), (&known, 20));
    let Mask::New(words) = &seq.mask else { panic!("{:?}", seq.mask) };
    assert_eq!(words[0], !1, "the fourth token is no end token yet");
    assert_eq!(commit(&mut scheduler, &first, TOKEN), [token(id)]);
    assert_eq!(scheduler.metrics().prompt_tokens, 20);

    let second = plan(&mut scheduler);
    assert_eq!((second.seqs[0].start, &second.seqs[0].mask), (23, &Mask::None));
    let end = [token(id), finished(id, FinishReason::Length, 20, 5)];
    assert_eq!(commit(&mut scheduler, &second, TOKEN), end);
    let metrics = scheduler.metrics();
    assert_eq!((metrics.prompt_tokens, metrics.generation_tokens), (20, 2));
}

#[test]
fn a_prompt_counts_once_though_it_is_computed_twice() {
    let mut scheduler = scheduler(16, 4, 4);
    let first = submit(&mut scheduler, &[15])[0];
    add(&mut scheduler, resumed(10, &[7; 30], 35));
    while scheduler.metrics().num_preemptions == 0 {
        step(&mut scheduler);
    }
    finish(&mut scheduler, first, FinishReason::Stop);
    while !scheduler.is_idle() {
        step(&mut scheduler);
    }
    assert_eq!(scheduler.metrics().prompt_tokens, 25);
}

#[test]
fn a_finished_answer_ends_at_once() {
    let (stop, length) = (FinishReason::Stop, FinishReason::Length);
    let cases = [
        ("the token limit", resumed(10, &[7; 3], 3), &length),
        ("more than the token limit", resumed(10, &[7; 3], 2), &length),
        ("the context", resumed(10, &[7; 22], 1000), &length),
        ("more than the context", resumed(10, &[7; 50], 1000), &length),
        ("an end token", resumed(10, &[7, END], 1000), &stop),
        ("an end token at the limit", resumed(10, &[7, 7, END], 3), &stop),
    ];
    for (case, request, reason) in cases {
        // Two blocks hold 32 tokens.
        let mut scheduler = scheduler(64, 4, 2);
        let answered = request.answered.len();
        let id = add(&mut scheduler, request);
        assert!(!scheduler.is_idle(), "{case}: there is an event to take");
        assert_eq!(plan(&mut scheduler), StepPlan::default(), "{case}");
        let end = finished(id, reason.clone(), 10, answered);
        assert_eq!(scheduler.take_events(), [end], "{case}");
        assert!(scheduler.is_idle(), "{case}");
    }
}

#[test]
fn a_late_constraint_gets_the_given_answer() {
    let aborted = FinishReason::Error(Error::Aborted);
    let cases = [
        (&[5, 6][..], 10, Some(FinishReason::Stop)),
        (&[5, 6], 2, Some(FinishReason::Stop)),
        (&[5, 6, 7], 2, Some(FinishReason::Length)),
        (&[5, 9], 10, Some(aborted)),
        (&[5, 6, 7], 10, None),
    ];
    for (allowed, max_tokens, ended) in cases {
        let mut scheduler = scheduler(64, 4, 20);
        let ask = Request { constrained: true, ..resumed(20, &[5, 6], max_tokens) };
        let id = add(&mut scheduler, ask);
        let other = add(&mut scheduler, request(10, 1));
        // A full answer waits in the queue, and delays nobody.
        let rows = if max_tokens > 2 { vec![(0, 0, 21), (1, 0, 10)] } else { vec![(0, 0, 10)] };
        let first = plan(&mut scheduler);
        assert_eq!(shape(&first), rows);
        let end = finished(other, FinishReason::Length, 10, 1);
        assert_eq!(commit(&mut scheduler, &first, TOKEN), [token(other), end]);
        assert!(scheduler.is_idle(), "it has only its constraint to wait for");
        scheduler.constrain(id, fixed(allowed), NOW);
        match ended {
            Some(reason) => {
                assert_eq!(scheduler.take_events(), [finished(id, reason, 20, 2)]);
                assert!(scheduler.is_idle());
            }
            None => {
                let next = plan(&mut scheduler);
                assert_eq!(shape(&next), [(0, 21, 1)]);
                assert_eq!(next.seqs[0].mask, Mask::New(vec![1 << 7, 0, 0, 0]));
                let end = finished(id, FinishReason::Stop, 20, 3);
                assert_eq!(commit(&mut scheduler, &next, TOKEN), [token(id), end]);
            }
        }
        scheduler.check_integrity(std::iter::empty());
    }
}

#[test]
fn a_given_answer_is_checked_like_a_prompt() {
    let mut scheduler = scheduler(64, 4, 20);
    let scored = Request { prompt_logprobs: Some(0), ..resumed(5, &[7], 9) };
    let embedded = Request { goal: Goal::Embed(Pooling::Mean), ..resumed(5, &[7], 9) };
    for refused in [resumed(5, &[7, 100], 9), scored, embedded] {
        let Err(Error::InvalidRequest { param, .. }) = scheduler.submit(refused, NOW) else {
            panic!("it is accepted")
        };
        assert_eq!(param, "answered");
    }
    assert!(scheduler.is_idle());
}

#[test]
fn a_given_answer_is_found_in_the_cache_and_shared_by_twins() {
    let mut scheduler = with(64, 4, 20, |options| options.prefix_caching = true);
    let ask = || resumed(10, &[7; 40], 42);
    let ids = scheduler.submit_many(ask(), 2, NOW).unwrap();
    assert_eq!(step(&mut scheduler), [(0, 0, 50)]);
    let fork = plan(&mut scheduler);
    assert_eq!(shape(&fork), [(0, 50, 1), (1, 49, 1)]);
    commit(&mut scheduler, &fork, TOKEN);
    step(&mut scheduler);
    assert!(scheduler.is_idle(), "{ids:?}");
    let id = add(&mut scheduler, ask());
    assert_eq!(step(&mut scheduler), [(1, 48, 2)]);
    let plan = plan(&mut scheduler);
    let events = commit(&mut scheduler, &plan, TOKEN);
    let usage =
        Usage { prompt_tokens: 10, cached_tokens: 10, completion_tokens: 42, ..Default::default() };
    assert_eq!(events[1], Event::Finished { id, reason: FinishReason::Length, usage });
}
