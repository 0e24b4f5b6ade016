//! Speculative decoding: which sequences get drafts, and how drafts are accepted or rejected.

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use super::*;
use crate::speculate::Proposer;
use crate::step::{Draft, Follow};

/// Proposes the same tokens for every sequence.
#[derive(Clone, Debug)]
struct Always(Rc<RefCell<Vec<u32>>>);

fn always(tokens: &[u32]) -> Always {
    Always(Rc::new(RefCell::new(tokens.to_vec())))
}

impl Proposer for Always {
    fn fresh(&self) -> Box<dyn Proposer> {
        Box::new(self.clone())
    }

    fn propose(&mut self, _: &[u32], most: usize) -> Vec<u32> {
        self.0.borrow().iter().take(most).copied().collect()
    }
}

fn drafting(rows: usize, seqs: usize, blocks: usize, drafts: &[u32]) -> Scheduler {
    drafting_by(rows, seqs, blocks, always(drafts))
}

fn drafting_by(rows: usize, seqs: usize, blocks: usize, drafter: Always) -> Scheduler {
    let scheduler = with(rows, seqs, blocks, |options| {
        options.max_drafts = 3;
        options.adaptive_drafts = false;
    });
    // The number of a real executor.
    let capacity = Capacity { logit_rows: 16, ..scheduler.capacity };
    Scheduler { capacity, ..scheduler.with_proposer(Rc::new(drafter)) }
}

/// A result in which each sequence's accepted tokens are these.
fn accepted(plan: &StepPlan, tokens: &[&[u32]]) -> StepResult {
    let samples = plan.seqs.iter().zip(tokens).flat_map(|(seq, tokens)| {
        tokens.iter().map(|token| Sample { slot: seq.slot, token: *token, ..Default::default() })
    });
    StepResult { samples: samples.collect(), ..Default::default() }
}

fn commit_accepted(scheduler: &mut Scheduler, plan: &StepPlan, tokens: &[&[u32]]) -> Vec<Event> {
    scheduler.commit(plan, &accepted(plan, tokens), NOW, NOW);
    scheduler.check_integrity(std::iter::empty());
    scheduler.take_events()
}

fn returned(events: &[Event]) -> Vec<(u32, bool)> {
    let token = |event: &Event| match event {
        Event::Token { token, drafted, .. } => Some((*token, *drafted)),
        _ => None,
    };
    events.iter().filter_map(token).collect()
}

fn drafts(plan: &StepPlan) -> Vec<Vec<u32>> {
    let tokens = |seq: &SeqPlan| seq.drafts.iter().filter_map(|draft| draft.token).collect();
    plan.seqs.iter().map(tokens).collect()
}

#[test]
fn prefill_chunks_have_no_drafts_and_decode_steps_have() {
    let mut scheduler = drafting(50, 1, 20, &[7, 8, 9]);
    submit(&mut scheduler, &[80]);
    let mut rows = Vec::new();
    for sampled in [&[][..], &[7], &[7, 8, 9, 7]] {
        let plan = plan(&mut scheduler);
        rows.push(plan.rows());
        commit_accepted(&mut scheduler, &plan, &[sampled]);
    }
    assert_eq!(rows, [50, 30, 4]);
}

#[test]
fn a_request_without_speculation_has_no_drafts_beside_others_that_have() {
    let mut scheduler = drafting(64, 2, 20, &[7, 8, 9]);
    add(&mut scheduler, Request { speculates: false, ..request(10, 1000) });
    add(&mut scheduler, request(10, 1000));
    let prompts = plan(&mut scheduler);
    commit_accepted(&mut scheduler, &prompts, &[&[5], &[5]]);
    let round = plan(&mut scheduler);
    assert_eq!(drafts(&round), [vec![], vec![7, 8, 9]]);
    // Nor does it get a step of its own before the others.
    assert_eq!(plan(&mut scheduler), StepPlan::default());
    commit_accepted(&mut scheduler, &round, &[&[5], &[7, 8]]);
    assert_eq!(plan(&mut scheduler).seqs.len(), 2);
}

#[test]
fn accepted_drafts_are_returned_and_counted_and_rejected_ones_computed_again() {
    // (tokens sampled in a round with the drafts 7, 8 and 9, how many drafts are accepted)
    let table: [(&[u32], usize); 4] =
        [(&[7, 8, 9, 4], 3), (&[7, 8, 3], 2), (&[7, 3], 1), (&[3], 0)];
    for (sampled, accepted) in table {
        let mut scheduler = drafting(64, 1, 20, &[7, 8, 9]);
        let id = submit(&mut scheduler, &[20])[0];
        let prompt = plan(&mut scheduler);
        commit_accepted(&mut scheduler, &prompt, &[&[5]]);
        let round = plan(&mut scheduler);
        assert_eq!(shape(&round), [(0, 20, 1)]);
        assert_eq!(drafts(&round), [[7, 8, 9]]);
        assert!(plan(&mut scheduler).seqs.is_empty(), "nothing is planned before it is over");
        let events = commit_accepted(&mut scheduler, &round, &[sampled]);
        let expected = sampled.iter().enumerate().map(|(at, token)| (*token, at < accepted));
        assert_eq!(returned(&events), expected.collect::<Vec<_>>());
        let next = plan(&mut scheduler);
        assert_eq!(shape(&next), [(0, 21 + accepted as u32, 1)]);
        assert_eq!(next.seqs[0].tokens, RowTokens::Known(vec![*sampled.last().unwrap()]));
        let metrics = scheduler.metrics();
        assert_eq!(metrics.spec_decode.spec_decode_num_draft_tokens, 3);
        assert_eq!(metrics.spec_decode.spec_decode_num_accepted_tokens, accepted as u64);
        assert_eq!(metrics.tabs[&0].spec_decode, metrics.spec_decode);
        let Some(Event::Finished { usage, .. }) =
            finish(&mut scheduler, id, FinishReason::Cancelled).pop()
        else {
            panic!("it ends")
        };
        assert_eq!((usage.accepted_tokens, usage.rejected_tokens), (accepted, 3 - accepted));
    }
}

#[test]
fn an_answer_ends_inside_its_drafts() {
    let ask = |set: fn(&mut Request)| {
        let mut ask = request(10, 1000);
        set(&mut ask);
        ask
    };
    let table: [(Request, &[u32], FinishReason); 4] = [
        (ask(|ask| ask.stop_tokens = vec![8]), &[7], FinishReason::StopToken(8)),
        (ask(|ask| ask.end_tokens = vec![9]), &[7, 8], FinishReason::Stop),
        (ask(|ask| ask.max_tokens = Some(3)), &[7, 8], FinishReason::Length),
        (ask(|_| {}), &[7, 8, 9, 4], FinishReason::Cancelled),
    ];
    for (ask, expected, reason) in table {
        let mut scheduler = drafting(64, 1, 20, &[7, 8, 9]);
        let id = add(&mut scheduler, ask);
        let prompt = plan(&mut scheduler);
        commit_accepted(&mut scheduler, &prompt, &[&[5]]);
        let round = plan(&mut scheduler);
        let all = [7, 8, 9, 4];
        let stands = &all[..=round.seqs[0].drafts.len()];
        let mut events = commit_accepted(&mut scheduler, &round, &[stands]);
        if reason == FinishReason::Cancelled {
            events.extend(finish(&mut scheduler, id, FinishReason::Cancelled));
        }
        let tokens: Vec<u32> = returned(&events).into_iter().map(|(token, _)| token).collect();
        assert_eq!(tokens, expected, "{reason:?}");
        let last = events.pop();
        assert!(matches!(last, Some(Event::Finished { reason: found, .. }) if found == reason));
        assert!(scheduler.is_idle());
    }
}

#[test]
fn kv_slots_are_reserved_for_drafts_and_drafts_dropped_where_there_are_none() {
    // Two blocks hold 32 tokens; the token after the last draft needs no slot, but counts.
    for (prompt, expected) in [(27, 3), (28, 2), (29, 1), (30, 0)] {
        let mut scheduler = drafting(64, 1, 2, &[7, 8, 9]);
        submit(&mut scheduler, &[prompt]);
        let first = plan(&mut scheduler);
        commit_accepted(&mut scheduler, &first, &[&[5]]);
        let found = drafts(&plan(&mut scheduler)).first().map_or(0, Vec::len);
        assert_eq!(found, expected, "after {prompt} tokens");
    }
    // Another sequence holds the block that drafts would need: they are not worth a preemption.
    let mut scheduler = drafting(64, 2, 3, &[7, 8, 9]);
    submit(&mut scheduler, &[15, 17]);
    let first = plan(&mut scheduler);
    commit_accepted(&mut scheduler, &first, &[&[5], &[5]]);
    let second = plan(&mut scheduler);
    assert_eq!(drafts(&second), [vec![], vec![7, 8, 9]]);
    assert_eq!(scheduler.metrics().num_preemptions, 0);
}

#[test]
fn drafts_of_several_sequences_are_verified_together_and_fewer_of_each_the_more_there_are() {
    for (sequences, expected) in [(1, 3), (2, 3), (4, 3), (5, 2), (8, 1), (9, 0)] {
        let mut scheduler = drafting(256, 16, 100, &[7, 8, 9]);
        submit(&mut scheduler, &vec![10; sequences]);
        let first = plan(&mut scheduler);
        commit_accepted(&mut scheduler, &first, &vec![&[5][..]; sequences]);
        let round = plan(&mut scheduler);
        assert_eq!(round.seqs.len(), sequences);
        let counts = drafts(&round).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(counts, vec![expected; sequences]);
    }
}

#[test]
fn drafts_leave_a_logit_row_for_a_prompt_that_ends() {
    let mut scheduler = drafting(256, 16, 100, &[7, 8, 9]);
    submit(&mut scheduler, &[10; 4]);
    let first = plan(&mut scheduler);
    commit_accepted(&mut scheduler, &first, &[&[5][..]; 4]);
    submit(&mut scheduler, &[12]);
    let round = plan(&mut scheduler);
    assert_eq!(round.seqs.len(), 5);
    assert!(round.seqs[4].sample.is_some());
    assert!(round.seqs.iter().map(SeqPlan::sampled).sum::<usize>() <= 16);
}

#[test]
fn a_sequence_waits_for_its_token_in_flight_only_if_a_draft_follows_it() {
    // A single proposed token is for the token in flight itself.
    for (proposal, waits) in [(&[7][..], false), (&[7, 8], true)] {
        let drafter = always(&[]);
        let mut scheduler = drafting_by(64, 1, 20, drafter.clone());
        submit(&mut scheduler, &[20]);
        let prompt = plan(&mut scheduler);
        let ahead = plan(&mut scheduler);
        assert_eq!(shape(&ahead), [(0, 20, 1)], "nothing is proposed yet");
        *drafter.0.borrow_mut() = proposal.to_vec();
        commit_accepted(&mut scheduler, &prompt, &[&[5]]);
        assert_eq!(plan(&mut scheduler).seqs.is_empty(), waits, "{proposal:?}");
    }
}

#[test]
fn a_step_without_samples_is_no_rejection() {
    let mut scheduler = drafting(64, 1, 20, &[7, 8, 9]);
    submit(&mut scheduler, &[20]);
    let prompt = plan(&mut scheduler);
    commit_accepted(&mut scheduler, &prompt, &[&[5]]);
    let id = scheduler.running[0].id;
    let round = plan(&mut scheduler);
    finish(&mut scheduler, id, FinishReason::Cancelled);
    commit_accepted(&mut scheduler, &round, &[&[]]);
    assert_eq!(scheduler.metrics().spec_decode.spec_decode_num_drafts, 0);
}

#[test]
fn rejected_drafts_are_not_found_in_the_cache() {
    let mut scheduler = with(64, 1, 20, |options| {
        options.prefix_caching = true;
        options.adaptive_drafts = false;
        options.max_drafts = 3;
    });
    scheduler.capacity.logit_rows = 16;
    let mut scheduler = scheduler.with_proposer(Rc::new(always(&[7, 8, 9])));
    // A block has room for the first sampled token and one more.
    submit(&mut scheduler, &[14]);
    let prompt = plan(&mut scheduler);
    commit_accepted(&mut scheduler, &prompt, &[&[5]]);
    let round = plan(&mut scheduler);
    commit_accepted(&mut scheduler, &round, &[&[3]]);
    let probe = |next: u32| [vec![1; 14], vec![5, next, 0]].concat();
    assert_eq!(looked_up(&scheduler, &probe(7), 0), 0, "a rejected draft");
    let round = plan(&mut scheduler);
    commit_accepted(&mut scheduler, &round, &[&[3]]);
    assert_eq!(looked_up(&scheduler, &probe(3), 0), 16);
    assert_eq!(looked_up(&scheduler, &probe(7), 0), 0);
}

#[test]
fn drafts_that_the_limits_forbid_are_not_verified() {
    let mut scheduler = drafting(64, 1, 20, &[7, 8, 9]);
    let ask = Request { bad_words: vec![vec![7, 8]], ..request(10, 100) };
    add(&mut scheduler, ask);
    let prompt = plan(&mut scheduler);
    commit_accepted(&mut scheduler, &prompt, &[&[5]]);
    let round = plan(&mut scheduler);
    let forbids_8 = |mask: &Mask| matches!(mask, Mask::New(words) if words[0] >> 8 & 1 == 0);
    let [Draft { token: Some(7), mask }] = &round.seqs[0].drafts[..] else {
        panic!("{:?}", round.seqs[0].drafts)
    };
    assert!(forbids_8(mask) && round.seqs[0].mask == Mask::None);
}

/// A scheduler for an executor with its own drafter.
fn with_head(set: impl Fn(&mut Options)) -> Scheduler {
    with_head_and(always(&[]), set)
}

fn with_head_and(lookup: Always, set: impl Fn(&mut Options)) -> Scheduler {
    let mut scheduler = with(64, 4, 40, |options| {
        options.max_drafts = 3;
        options.adaptive_drafts = false;
        set(options);
    });
    scheduler.capacity.logit_rows = 16;
    scheduler.with_proposer(Rc::new(lookup)).with_device_drafts(3, 1)
}

#[test]
fn a_draft_head_reads_every_row_and_drafts_from_the_first_sampled_token_on() {
    let mut scheduler = with_head(|_| {});
    let ask = Request { prompt: (1..=80).collect(), ..request(80, 100) };
    add(&mut scheduler, ask);
    let mut follows = Vec::new();
    let mut drafts = Vec::new();
    for sampled in [&[][..], &[90], &[1, 2, 3, 4], &[5]] {
        let plan = plan(&mut scheduler);
        follows.push(plan.seqs[0].follow);
        drafts.push(plan.seqs[0].drafts.clone());
        commit_accepted(&mut scheduler, &plan, &[sampled]);
    }
    // The prompt comes in chunks of 64 and 16 rows.
    assert_eq!(follows, [Follow::Known(65), Follow::Sampled, Follow::Sampled, Follow::Sampled]);
    assert_eq!(drafts, [vec![], vec![], vec![Draft::default(); 3], vec![Draft::default(); 3]]);
    assert_eq!(scheduler.metrics().spec_decode.spec_decode_num_accepted_tokens, 3);
}

#[test]
fn a_round_of_a_draft_head_is_planned_while_the_one_before_runs() {
    let mut scheduler = with_head(|_| {});
    let id = add(&mut scheduler, Request { max_tokens: Some(13), ..request(10, 100) });
    let prompt = plan(&mut scheduler);
    commit_accepted(&mut scheduler, &prompt, &[&[5]]);
    let at = |plan: &StepPlan| {
        let [seq] = &plan.seqs[..] else { panic!("{plan:?}") };
        (seq.start, seq.unverified, seq.drafts.len())
    };
    let first = plan(&mut scheduler);
    assert_eq!(at(&first), (10, 0, 3));
    let second = plan(&mut scheduler);
    assert_eq!(at(&second), (11, 3, 3), "as if none were accepted");
    assert_eq!(second.seqs[0].tokens, RowTokens::LastSample);
    assert_eq!(plan(&mut scheduler), StepPlan::default(), "at most two in flight");
    commit_accepted(&mut scheduler, &first, &[&[1, 2, 3]]);
    let third = plan(&mut scheduler);
    assert_eq!(at(&third), (14, 3, 3), "two were accepted");
    // Five tokens are known; up to seven of these eight may come.
    commit_accepted(&mut scheduler, &second, &[&[4, 5, 6, 7]]);
    assert_eq!(at(&plan(&mut scheduler)), (18, 3, 0), "no more than the answer has room for");
    commit_accepted(&mut scheduler, &third, &[&[8]]);
    let Some(Event::Finished { usage, .. }) =
        finish(&mut scheduler, id, FinishReason::Cancelled).pop()
    else {
        panic!("it ends")
    };
    assert_eq!((usage.completion_tokens, usage.accepted_tokens), (9, 5));
    assert_eq!(usage.rejected_tokens, 4);
}

#[test]
fn rounds_planned_after_the_end_of_an_answer_are_not_counted() {
    let mut scheduler = with_head(|_| {});
    add(&mut scheduler, Request { end_tokens: vec![9], ..request(10, 100) });
    let prompt = plan(&mut scheduler);
    commit_accepted(&mut scheduler, &prompt, &[&[5]]);
    let [first, second] = [plan(&mut scheduler), plan(&mut scheduler)];
    let events = commit_accepted(&mut scheduler, &first, &[&[1, 9, 2, 3]]);
    assert_eq!(returned(&events), [(1, true)]);
    assert_eq!(commit_accepted(&mut scheduler, &second, &[&[4, 5, 6, 7]]), []);
    assert_eq!(scheduler.metrics().spec_decode.spec_decode_num_draft_tokens, 3);
}

#[test]
fn a_draft_head_drafts_nothing_where_masks_would_depend_on_its_drafts() {
    let mut scheduler = with_head(|_| {});
    add(&mut scheduler, Request { bad_words: vec![vec![7, 8]], ..request(10, 100) });
    for _ in 0..3 {
        let plan = plan(&mut scheduler);
        assert_eq!((plan.seqs[0].follow, plan.seqs[0].drafts.len()), (Follow::No, 0));
        commit(&mut scheduler, &plan, TOKEN);
    }
}

#[test]
fn prompt_lookup_comes_before_a_draft_head_unless_it_is_rejected_more_often() {
    let lookup = always(&[]);
    let mut scheduler = with_head_and(lookup.clone(), |_| {});
    submit(&mut scheduler, &[10]);
    let first = plan(&mut scheduler);
    *lookup.0.borrow_mut() = vec![7, 8];
    // Nobody has drafted this, but lookup would have been accepted.
    commit_accepted(&mut scheduler, &first, &[&[7]]);
    let round = plan(&mut scheduler);
    assert_eq!(drafts(&round), [[7, 8]]);
    assert_eq!(round.seqs[0].follow, Follow::Sampled, "the draft head goes on reading");
    commit_accepted(&mut scheduler, &round, &[&[5]]);
    assert_eq!(plan(&mut scheduler).seqs[0].drafts, vec![Draft::default(); 3]);
}

/// The draft head's keys and values at a position depend on the token after it.
#[test]
fn with_a_draft_head_a_cached_block_must_match_the_token_after_it_too() {
    let mut scheduler = with_head(|options| options.prefix_caching = true);
    submit(&mut scheduler, &[32]);
    let found = |scheduler: &Scheduler, next: u32| {
        let probe = [vec![1; 32], vec![next, 7]].concat();
        looked_up(scheduler, &probe, 0)
    };
    let prompt = plan(&mut scheduler);
    commit_accepted(&mut scheduler, &prompt, &[&[5]]);
    assert_eq!([5, 6].map(|next| found(&scheduler, next)), [16, 16]);
    let round = plan(&mut scheduler);
    commit_accepted(&mut scheduler, &round, &[&[9]]);
    assert_eq!([5, 6].map(|next| found(&scheduler, next)), [32, 16]);
}

#[test]
fn a_draft_head_that_does_not_pay_stops_and_reads_again_before_it_drafts_again() {
    let mut scheduler = with_head(|options| options.adaptive_drafts = true);
    add(&mut scheduler, request(10, 4000));
    let mut asked = Vec::new();
    for at in 0..400 {
        let plan = plan(&mut scheduler);
        let seq = &plan.seqs[0];
        asked.push((seq.follow != Follow::No, seq.drafts.len()));
        // All drafts are rejected, and each row has its cost.
        let took = Duration::from_millis(plan.rows() as u64);
        scheduler.commit(&plan, &accepted(&plan, &[&[5]]), took, NOW + Duration::from_secs(at));
    }
    let drafted = asked.iter().filter(|(_, drafts)| *drafts > 0).count();
    assert!((1..30).contains(&drafted), "{drafted} rounds");
    let followed = asked.iter().filter(|(follows, _)| *follows).count();
    assert!(followed < 60, "{followed} steps");
    for pair in asked.windows(2) {
        assert!(pair[1].1 == 0 || pair[0].0, "it drafts only after rows that it has read");
    }
}

#[test]
fn with_adaptive_drafts_only_long_answers_have_rounds_planned_ahead() {
    // Four tokens come in a round.
    for (max_tokens, expected) in [(4000, true), (20, false)] {
        let mut scheduler = with_head(|options| options.adaptive_drafts = true);
        add(&mut scheduler, request(10, max_tokens));
        let (mut in_flight, mut ahead) = (VecDeque::new(), false);
        for at in 0..100 {
            while in_flight.len() < 2 {
                let plan = plan(&mut scheduler);
                let [seq] = &plan.seqs[..] else { break };
                ahead |= seq.unverified > 0;
                in_flight.push_back(plan);
            }
            let Some(plan): Option<StepPlan> = in_flight.pop_front() else { break };
            // All drafts are accepted, and rows are free.
            let sampled = vec![5; 1 + plan.seqs[0].drafts.len()];
            let now = NOW + Duration::from_secs(at);
            let took = Duration::from_millis(1);
            scheduler.commit(&plan, &accepted(&plan, &[&sampled]), took, now);
        }
        assert_eq!(ahead, expected, "{max_tokens} tokens");
    }
}

#[test]
fn a_draft_head_reads_a_request_again_once_that_pays() {
    let mut scheduler = with_head(|options| options.adaptive_drafts = true);
    let ids: Vec<RequestId> = (0..4).map(|_| add(&mut scheduler, request(10, 4000))).collect();
    let run = |scheduler: &mut Scheduler, steps| {
        let mut last = StepPlan::default();
        let mut drafts = 0;
        for at in 0..steps {
            last = plan(scheduler);
            let sampled: Vec<Vec<u32>> =
                last.seqs.iter().map(|seq| vec![5; 1 + seq.drafts.len()]).collect();
            let sampled: Vec<&[u32]> = sampled.iter().map(Vec::as_slice).collect();
            drafts += last.seqs.iter().map(|seq| seq.drafts.len()).sum::<usize>();
            // Up to four rows are free, and further ones expensive.
            let rows = last.rows() as u64;
            let took = Duration::from_millis(if rows > 4 { 3 * rows } else { 1 });
            scheduler.commit(
                &last,
                &accepted(&last, &sampled),
                took,
                NOW + Duration::from_secs(at),
            );
        }
        (last, drafts)
    };
    let (last, _) = run(&mut scheduler, 300);
    assert!(
        last.seqs.iter().all(|seq| seq.follow == Follow::No),
        "drafts do not pay for four sequences"
    );
    for id in &ids[1..] {
        finish(&mut scheduler, *id, FinishReason::Cancelled);
    }
    let (last, drafts) = run(&mut scheduler, 60);
    assert_eq!(last.seqs.len(), 1);
    assert!(drafts > 60, "{drafts} drafts of a single request");
}

#[test]
fn steps_without_drafts_are_measured_soon() {
    let mut scheduler = with_head_and(always(&[5; 3]), |options| options.adaptive_drafts = true);
    add(&mut scheduler, request(10, 4000));
    let mut steps = Vec::new();
    for at in 0..40 {
        let plan = plan(&mut scheduler);
        let drafts = plan.seqs[0].drafts.len();
        steps.push(drafts > 0);
        // All are accepted.
        let sampled = vec![5; 1 + drafts];
        let took = Duration::from_millis(1);
        scheduler.commit(&plan, &accepted(&plan, &[&sampled]), took, NOW + Duration::from_secs(at));
    }
    let longest = steps.split(|drafts| *drafts).map(<[bool]>::len).max();
    assert!(steps.contains(&true) && longest >= Some(3), "{steps:?}");
}
