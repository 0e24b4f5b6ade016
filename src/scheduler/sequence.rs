//! The tokens of one request, and how many of them have been computed.

use std::{sync::Arc, time::Duration};

use super::{
    repetition::Repetition,
    request::{FinishReason, Goal, Request, RequestId, TabId, Usage},
};
use crate::{
    Error, Result,
    cache::BlockTable,
    metrics::RequestTimes,
    sampling::{Constraint, TokenLimits},
    speculate::Acceptance,
    step::{
        Adjust, BLOCK_SIZE, Draft, Follow, Logprobs, Mask, Pool, RowTokens, Sample, Sampling,
        Score, SeqPlan,
    },
};

/// Draft tokens proposed to follow a sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum Proposal {
    /// These, starting with the ones for the tokens in flight.
    Tokens(Vec<u32>),
    /// This many, drafted by the executor behind the tokens in flight.
    Device(usize),
    /// To be decided once the tokens in flight are known.
    Open,
}

impl Default for Proposal {
    fn default() -> Proposal {
        Proposal::Tokens(Vec::new())
    }
}

/// A request in progress: `computed` catches up with [`Sequence::known`].
///
/// ```text
///   prompt                output          sampled by steps in flight
/// ├─────────────────────┼───────────────┼───────────┤
///   tokens: known to the host             pending: known to the device
///   verified: its steps are over
///            computed ─►                             known() <= limit
/// ```
#[derive(Debug)]
pub struct Sequence {
    pub id: RequestId,
    pub tab: TabId,
    pub priority: i32,
    /// The request with the same prompt: this one waits for that prompt and shares its blocks.
    pub twin_of: Option<RequestId>,
    /// How often a later request was admitted first.
    pub passed_over: u32,
    /// Index in the executor's tables; set on admission.
    pub slot: u32,
    pub table: BlockTable,
    /// Steps in flight that have rows of this sequence, and so use its slot and blocks.
    pub in_flight: usize,
    pub times: RequestTimes,
    /// Gets no more rows: it is preempted as soon as no step in flight uses its blocks.
    pub preempting: bool,
    /// Gets no more rows until it is released.
    pub held: bool,
    /// Acceptance rates of its drafts from prompt lookup, and by the executor.
    pub acceptance: Acceptance,
    pub device_acceptance: Acceptance,
    /// Drafts behind the tokens that the host knows.
    proposal: Proposal,
    /// Whether the executor's drafter reads it, except perhaps for a few steps.
    pub reads: bool,
    /// Whether the executor's drafter is to read its next rows.
    pub follows: bool,
    /// Whether drafts by the executor seemed to pay last time.
    pub drafts_on_device: bool,
    /// Rounds left in which it has drafts by the executor whether they pay or not.
    pub trial: usize,
    /// Whether the executor's drafter has not read its prompt.
    pub reads_late: bool,
    /// Whether its rounds are planned while the step before runs.
    pub runs_ahead: bool,
    /// Whether the executor's drafter has read the rows of the step before.
    followed: bool,
    /// Drafts of the last step, if it is in flight.
    drafted: usize,
    /// [`SeqPlan::unverified`] of the last step, if it is in flight.
    unverified: usize,
    /// Accepted drafts of the last step that is over.
    last_accepted: usize,
    /// Steps with drafts so far, drafts in them, and accepted drafts.
    rounds: usize,
    drafts: usize,
    accepted: usize,
    goal: Goal,
    tokens: Vec<u32>,
    prompt: usize,
    /// Tokens of prompt and answer that came with the request.
    given: usize,
    pending: usize,
    computed: usize,
    verified: usize,
    /// Entries of the block table that the executor has.
    sent: usize,
    /// Whether rows have been computed since the last admission.
    begun: bool,
    /// Tokens found in the cache on the first admission.
    cached: Option<usize>,
    /// The length, prompt included, at which it ends.
    limit: usize,
    end_tokens: Vec<u32>,
    stop_tokens: Vec<u32>,
    repetition: Option<Repetition>,
    min_tokens: usize,
    sampling: Sampling,
    logprob_tokens: Arc<[u32]>,
    bias: Vec<(u32, f32)>,
    /// Limits the tokens that may be sampled, if anything does.
    limits: Option<TokenLimits>,
    /// A constraint is announced but not set yet.
    constraint_missing: bool,
    /// It was preempted while its constraint was missing: it is not admitted before that is set.
    parked: bool,
    speculates: bool,
    prompt_logprobs: Option<u32>,
    scores: Vec<Logprobs>,
}

impl Sequence {
    /// The sequence of a valid request. `context`: most tokens.
    pub fn new(
        id: RequestId,
        request: Request,
        context: usize,
        vocab: usize,
        now: Duration,
    ) -> Sequence {
        let prompt = request.prompt.len();
        let wanted = request.max_tokens.map_or(context, |max| prompt.saturating_add(max));
        let limited = request.constrained
            || request.allowed_tokens.is_some()
            || request.min_tokens > 0
            || request.thinking.is_some()
            || !request.bad_words.is_empty();
        let limits = limited.then(|| {
            let endings = [&request.end_tokens[..], &request.stop_tokens].concat();
            let allowed = request.allowed_tokens.as_deref();
            let min_tokens = request.min_tokens;
            let mut limits =
                TokenLimits::new(vocab, allowed, request.bad_words, min_tokens, &endings);
            if let Some(thinking) = request.thinking {
                limits.limit_thinking(thinking, &request.prompt);
            }
            limits
        });
        Sequence {
            id,
            tab: request.tab,
            priority: request.priority,
            twin_of: None,
            passed_over: 0,
            slot: 0,
            table: BlockTable::new(request.salt, request.tab.0),
            in_flight: 0,
            times: RequestTimes::new(now),
            preempting: false,
            held: false,
            acceptance: Acceptance::default(),
            device_acceptance: Acceptance::default(),
            proposal: Proposal::default(),
            reads: false,
            follows: false,
            drafts_on_device: false,
            trial: 0,
            reads_late: false,
            runs_ahead: false,
            followed: false,
            drafted: 0,
            unverified: 0,
            last_accepted: 0,
            rounds: 0,
            drafts: 0,
            accepted: 0,
            goal: request.goal,
            tokens: request.prompt,
            prompt,
            given: prompt,
            pending: 0,
            computed: 0,
            verified: 0,
            sent: 0,
            begun: false,
            cached: None,
            limit: wanted.min(context),
            end_tokens: request.end_tokens,
            stop_tokens: request.stop_tokens,
            repetition: request.repetition,
            min_tokens: request.min_tokens,
            sampling: Sampling { bias: !request.logit_bias.is_empty(), ..request.sampling },
            logprob_tokens: request.logprob_tokens.into(),
            bias: request.logit_bias,
            limits,
            constraint_missing: request.constrained,
            parked: false,
            speculates: request.speculates,
            prompt_logprobs: request.prompt_logprobs,
            scores: Vec::new(),
        }
    }

    /// Adds answer tokens that were generated elsewhere. Returns the finish reason if they end the
    /// answer.
    pub fn resume(&mut self, answered: &[u32]) -> Option<FinishReason> {
        self.given += answered.len();
        let ends = answered.iter().map(|token| self.append(*token).1);
        ends.fold(None, |first, reason| first.or(reason))
    }

    /// Checks that some token is allowed as the first one.
    pub fn check_limits(&mut self) -> Result<()> {
        let Some(limits) = &mut self.limits else { return Ok(()) };
        limits.masks(&[], 0, &[])?;
        limits.restart();
        Ok(())
    }

    /// The tokens that the host knows.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Its block table, and the tokens that the host knows.
    pub fn table_and_tokens(&mut self) -> (&mut BlockTable, &[u32]) {
        (&mut self.table, &self.tokens)
    }

    /// The tokens of the prompt.
    pub fn prompt(&self) -> &[u32] {
        &self.tokens[..self.prompt]
    }

    /// Tokens that the device can compute. The host may not know the last ones yet.
    pub fn known(&self) -> usize {
        self.tokens.len() + self.pending
    }

    /// Tokens whose keys and values are in the cache once the steps in flight are over, if all their
    /// drafts are rejected.
    pub fn computed(&self) -> usize {
        self.computed
    }

    /// Tokens that the blocks must have room for if the next step has this many rows.
    pub fn reach(&self, rows: usize) -> usize {
        self.computed + self.drafted + rows
    }

    /// Tokens whose keys and values are in the cache.
    pub fn verified(&self) -> usize {
        self.verified.min(self.tokens.len())
    }

    /// Whether it has an answer.
    pub fn generates(&self) -> bool {
        self.goal == Goal::Generate
    }

    /// Whether it decodes: one row per step.
    pub fn decodes(&self) -> bool {
        self.generates() && self.computed >= self.prompt && self.remaining() <= 1
    }

    /// Whether it was ever admitted.
    pub fn has_run(&self) -> bool {
        self.cached.is_some()
    }

    /// Whether a cached prefix may replace rows of its own; false if every row's result is needed.
    pub fn may_skip_rows(&self) -> bool {
        self.prompt_logprobs.is_none() && self.generates()
    }

    /// Rows left to compute. 0 once the last token is in flight: nothing follows it.
    pub fn remaining(&self) -> usize {
        if !self.may_run() {
            return 0;
        }
        let rows = self.known() - self.computed;
        if self.constraint_missing || self.waits() {
            // All but the row that samples.
            return rows.saturating_sub(1);
        }
        // The last row of a scored prompt has no next token to score: it gets a step of its own.
        if self.scores_rows() { rows - 1 } else { rows }
    }

    /// Whether it waits for the steps in flight: it has to know their tokens to draft or for its limits,
    /// or how many of their drafts are accepted.
    pub fn waits(&self) -> bool {
        if self.limits.as_ref().is_some_and(|limits| limits.waits(self.pending)) {
            return true;
        }
        let is_open = match &self.proposal {
            Proposal::Tokens(tokens) => tokens.len() > self.pending,
            Proposal::Device(drafts) => *drafts > 0 && !self.runs_ahead,
            Proposal::Open => true,
        };
        let is_unsure = self.drafted + self.unverified > 0;
        self.pending > 0 && is_open
            || self.drafted > 0 && !self.may_plan_behind_drafts()
            || is_unsure && self.in_flight > 1
    }

    /// Whether the next step may be planned before it is known how many drafts of the last are
    /// accepted: the executor drafts, wherever they end, and the answer has room for all of them.
    fn may_plan_behind_drafts(&self) -> bool {
        self.runs_ahead
            && matches!(self.proposal, Proposal::Device(1..))
            && self.may_draft_on_device()
            && self.known() + self.drafted < self.limit
    }

    /// Whether it ever uses speculative decoding: the caller agrees, and it generates.
    pub fn may_speculate(&self) -> bool {
        self.speculates && self.generates()
    }

    /// Whether it can have drafts now.
    pub fn may_draft(&self) -> bool {
        self.may_speculate()
            && self.may_run()
            && !self.preempting
            && !self.scores_rows()
            && !self.constraint_missing
            && self.computed + 1 >= self.known()
    }

    /// Sets the proposed drafts. If there are more than the tokens in flight, the sequence waits for
    /// these and verifies the others as drafts.
    pub fn set_proposal(&mut self, proposal: Proposal) {
        self.proposal = proposal;
    }

    /// Whether the executor's drafter can draft for it: it has read the last rows, and no mask depends
    /// on the drafts.
    pub fn may_draft_on_device(&self) -> bool {
        self.followed && self.limits.is_none()
    }

    /// Whether the executor's drafter may ever draft for it.
    pub fn may_follow(&self) -> bool {
        self.generates() && self.limits.is_none() && self.prompt_logprobs.is_none()
    }

    /// Tokens in flight.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Drafts that the next sampling row can have. Together with the token sampled without them, they
    /// fit into the answer.
    pub fn drafts(&self) -> usize {
        let room = self.limit.saturating_sub(self.known() + self.drafted + 1);
        let proposed = match &self.proposal {
            Proposal::Tokens(tokens) if self.pending == 0 => tokens.len(),
            Proposal::Device(drafts) if self.followed => *drafts,
            _ => 0,
        };
        if self.may_draft() { proposed.min(room) } else { 0 }
    }

    /// Steps with drafts so far.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Whether it may get rows: it is not held or parked, and its last token is not yet known or in
    /// flight.
    pub fn may_run(&self) -> bool {
        let full = self.generates() && self.known() >= self.limit;
        !self.held && !self.parked && !full
    }

    /// Tokens that it will have if its answer becomes `answer` tokens long, unless it is longer already.
    pub fn expected(&self, answer: usize) -> usize {
        let answer = if self.generates() { answer } else { 0 };
        (self.prompt + answer).min(self.limit).max(self.known())
    }

    /// Blocks that its [expected](Sequence::expected) tokens need, `most` at a time, and that it does not
    /// hold yet.
    pub fn promised_blocks(&self, answer: usize, most: usize) -> usize {
        let blocks = self.expected(answer).div_ceil(BLOCK_SIZE).min(most);
        blocks.saturating_sub(self.table.blocks_held())
    }

    /// Whether the next rows are scored: each then needs its logits.
    pub fn scores_rows(&self) -> bool {
        self.prompt_logprobs.is_some() && self.computed + 1 < self.prompt
    }

    /// Whether nothing can be computed for it for now: it is held, or its constraint is missing and all
    /// else is computed.
    pub fn rests(&self) -> bool {
        self.held || self.constraint_missing && self.remaining() == 0
    }

    /// Sets the announced constraint. Returns the finish reason if the tokens so far end the answer.
    pub fn constrain(&mut self, constraint: Box<dyn Constraint>) -> Option<FinishReason> {
        (self.constraint_missing, self.parked) = (false, false);
        let limits = self.limits.as_mut()?;
        limits.set_constraint(constraint);
        let answer = &self.tokens[self.prompt..];
        let ended = answer.iter().find_map(|token| constrained(limits, *token));
        ended.or((self.tokens.len() >= self.limit).then_some(FinishReason::Length))
    }

    /// Sets the slot of a sequence that has its first blocks; the first `cached` tokens are computed.
    pub fn admit(&mut self, slot: u32, cached: usize) {
        debug_assert!(self.pending == 0 && self.in_flight == 0);
        self.slot = slot;
        (self.computed, self.verified) = (cached, cached);
        self.cached.get_or_insert(cached);
        if let Some(limits) = &mut self.limits {
            limits.restart();
        }
    }

    /// Plans the next `count` rows, where 1 <= `count` <= [`Sequence::remaining`], and up to `drafts`
    /// of its [drafts](Sequence::drafts) behind them, as far as the limits allow.
    ///
    /// # Errors
    /// What the request's constraint reports.
    pub fn advance(&mut self, count: usize, drafts: usize) -> Result<SeqPlan> {
        let (start, end) = (self.computed, self.computed + count);
        debug_assert!(start < end && end <= self.known());
        let samples = self.generates() && end == self.known();
        let drafts = if samples { drafts } else { 0 };
        let proposal = match &self.proposal {
            Proposal::Tokens(tokens) => tokens[..drafts].iter().copied().map(Some).collect(),
            Proposal::Device(_) | Proposal::Open => vec![None; drafts],
        };
        let masks = match &mut self.limits {
            Some(limits) if samples => {
                let proposal: Vec<u32> = proposal.iter().copied().flatten().collect();
                limits.masks(&self.tokens[self.prompt..], end - self.prompt, &proposal)?
            }
            _ => vec![Mask::None; 1 + drafts],
        };
        let mut masks = masks.into_iter();
        let mask = masks.next().unwrap_or_default();
        let proposal = proposal.into_iter().zip(masks);
        let drafts: Vec<Draft> = proposal.map(|(token, mask)| Draft { token, mask }).collect();
        let follow = match (self.follows, self.tokens.get(end)) {
            (false, _) => Follow::No,
            (true, _) if samples => Follow::Sampled,
            (true, next) => next.map_or(Follow::No, |next| Follow::Known(*next)),
        };
        self.followed = follow != Follow::No;
        // If drafts by the executor paid, they still do as far as is known.
        self.proposal = match self.proposal {
            Proposal::Device(drafts) if self.followed => Proposal::Device(drafts),
            _ if self.followed => Proposal::Open,
            _ => Proposal::default(),
        };
        let tokens = match self.tokens.get(start..end) {
            Some(tokens) => RowTokens::Known(tokens.to_vec()),
            None => RowTokens::LastSample,
        };
        let adjusted = self.sampling.penalises() || self.sampling.bias;
        let adjust = (adjusted && !self.begun).then(|| {
            let (tokens, bias) = (self.tokens.clone(), self.bias.clone());
            Box::new(Adjust { tokens, prompt: self.prompt, bias })
        });
        let score = self.prompt_logprobs.filter(|_| self.scores_rows());
        let score = score.map(|top| Score { targets: self.tokens[start + 1..=end].to_vec(), top });
        let pool = match self.goal {
            Goal::Embed(pooling) => Some(Pool { pooling, last: end == self.known() }),
            Goal::Generate => None,
        };
        let entries = self.table.covering(self.reach(count + drafts.len()));
        let first_block = self.sent.min(entries.len());
        let blocks = entries[first_block..].to_vec();
        self.sent = entries.len().max(self.sent);
        self.begun = true;
        self.computed = end;
        self.in_flight += 1;
        self.pending += usize::from(samples);
        (self.unverified, self.drafted) = (self.drafted, drafts.len());
        Ok(SeqPlan {
            slot: self.slot,
            tokens,
            start: start as u32,
            unverified: self.unverified as u32,
            first_block: first_block as u32,
            blocks,
            sample: samples.then_some(self.sampling),
            drafts,
            follow,
            logprob_tokens: self.logprob_tokens.clone(),
            adjust,
            mask,
            score,
            pool,
        })
    }

    /// Records that a step with these rows is over and that `accepted` of its drafts are accepted:
    /// their rows count as computed. Returns whether that completes the prompt for the first time.
    pub fn verify(&mut self, rows: &SeqPlan, accepted: usize) -> bool {
        let moved = if rows.unverified > 0 { self.last_accepted } else { 0 };
        let end = rows.start as usize + moved + rows.tokens.count() + accepted;
        let before = self.verified;
        self.verified = before.max(end);
        self.computed += accepted;
        self.rounds += usize::from(!rows.drafts.is_empty());
        self.drafts += rows.drafts.len();
        self.last_accepted = accepted;
        self.in_flight -= 1;
        if self.in_flight == 0 {
            (self.drafted, self.unverified) = (0, 0);
        }
        before < self.given && self.verified >= self.given && self.tokens.len() == self.given
    }

    /// Adds log-probabilities of the prompt; returns all of them, one less than the prompt has tokens,
    /// once they are complete.
    pub fn score(&mut self, scores: Vec<Logprobs>) -> Option<Vec<Logprobs>> {
        self.scores.extend(scores);
        if self.scores.len() + 1 < self.prompt {
            return None;
        }
        // If the prompt is computed again, they are not returned again.
        self.prompt_logprobs.take()?;
        Some(std::mem::take(&mut self.scores))
    }

    /// Adds the oldest token in flight; `drafted` if it is an accepted draft, which is not counted as
    /// pending. Returns whether it is part of the answer, and the finish reason if it ends the answer.
    pub fn accept(&mut self, sample: &Sample, drafted: bool) -> (bool, Option<FinishReason>) {
        self.accepted += usize::from(drafted);
        self.pending -= usize::from(!drafted);
        if sample.not_finite > 0 {
            let error = Error::Numerical { count: sample.not_finite };
            return (false, Some(FinishReason::Error(error)));
        }
        self.append(sample.token)
    }

    /// Appends a token. Returns whether it is part of the returned answer, and the finish reason if it
    /// ends the answer.
    fn append(&mut self, token: u32) -> (bool, Option<FinishReason>) {
        self.tokens.push(token);
        if self.end_tokens.contains(&token) {
            return (false, Some(FinishReason::Stop));
        }
        if self.stop_tokens.contains(&token) {
            return (false, Some(FinishReason::StopToken(token)));
        }
        if let Some(reason) = self.limits.as_mut().and_then(|limits| constrained(limits, token)) {
            return (reason == FinishReason::Stop, Some(reason));
        }
        if self.is_repetitive() {
            return (true, Some(FinishReason::Repetition));
        }
        // The missing constraint may still call the answer complete.
        let ends = self.tokens.len() >= self.limit && !self.constraint_missing;
        (true, ends.then_some(FinishReason::Length))
    }

    fn is_repetitive(&self) -> bool {
        let answer = &self.tokens[self.prompt..];
        let repetition = self.repetition.as_ref().filter(|_| answer.len() >= self.min_tokens);
        repetition.is_some_and(|repetition| repetition.ends(answer))
    }

    /// Resets what was computed, once no step is in flight and the blocks are freed.
    pub fn restart(&mut self) {
        debug_assert!(self.in_flight == 0 && self.pending == 0 && self.drafted == 0);
        (self.computed, self.verified, self.sent) = (0, 0, 0);
        (self.begun, self.preempting, self.followed) = (false, false, false);
        self.parked = self.constraint_missing;
        self.scores.clear();
    }

    pub fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompt,
            cached_tokens: self.cached.unwrap_or(0).min(self.prompt),
            completion_tokens: self.tokens.len() - self.prompt,
            accepted_tokens: self.accepted,
            rejected_tokens: self.drafts - self.accepted,
        }
    }
}

/// Advances the constraint, if there is one. Returns the finish reason if the token ends the answer.
fn constrained(limits: &mut TokenLimits, token: u32) -> Option<FinishReason> {
    match limits.accept(token) {
        Ok(()) => limits.is_complete().then_some(FinishReason::Stop),
        Err(error) => Some(FinishReason::Error(error)),
    }
}
