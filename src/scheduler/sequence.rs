//! The tokens of one request, and how many of them have been computed.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::{
    repetition::Repetition,
    request::{FinishReason, Goal, Request, RequestId, TabId, Usage},
};
use crate::{
    Error, Result,
    cache::BlockTable,
    metrics::RequestTimes,
    sampling::{Constraint, TokenLimits},
    speculate::{Choice, Decoding, Drafts},
    step::{
        Adjust, Capacity, Draft, Follow, Logprobs, Mask, Pool, RowTokens, Sample, Sampling, Score,
        SeqPlan,
    },
};

/// The rows of a sequence in a step in flight.
#[derive(Debug)]
struct Flight {
    rows: usize,
    drafts: usize,
    /// Whether a token is sampled after the rows.
    samples: bool,
}

/// A request in progress: [`Sequence::computed`] catches up with [`Sequence::known`].
///
/// ```text
///   prompt                output          sampled by steps in flight
/// ├─────────────────────┼───────────────┼───────────┤
///   tokens: known on the CPU              pending: known to the device
///   verified: its steps are over
///           └ flights ┘ computed ─►                  known() <= limit
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
    pub times: RequestTimes,
    /// Gets no more rows: it is preempted as soon as no step in flight uses its blocks.
    pub preempting: bool,
    /// Gets no more rows until it is released.
    pub held: bool,
    pub drafts: Drafts,
    goal: Goal,
    tokens: Vec<u32>,
    prompt: usize,
    /// Tokens of prompt and answer that came with the request.
    given: usize,
    /// Tokens whose keys and values are in the cache: those that were found there, and those of the steps
    /// that are over.
    verified: usize,
    /// Its rows in the steps in flight, which use its slot and blocks; the oldest first.
    flights: VecDeque<Flight>,
    /// Entries of the block table that the executor has.
    sent: usize,
    /// Whether rows have been computed since the last admission.
    begun: bool,
    /// Tokens found in the cache on the first admission.
    cached: Option<usize>,
    /// Tokens that were known on the last admission.
    admitted: usize,
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
    /// The sequence of a valid request, of at most `context` tokens.
    pub fn new(
        id: RequestId,
        request: Request,
        context: usize,
        capacity: &Capacity,
        drafts: Drafts,
        now: Duration,
    ) -> Sequence {
        let (prompt, vocab) = (request.prompt.len(), capacity.vocab);
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
            table: BlockTable::new(request.salt, request.tab.0, capacity.groups.count()),
            times: RequestTimes::new(now),
            preempting: false,
            held: false,
            drafts,
            goal: request.goal,
            tokens: request.prompt,
            prompt,
            given: prompt,
            verified: 0,
            flights: VecDeque::new(),
            sent: 0,
            begun: false,
            cached: None,
            admitted: 0,
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

    /// The tokens that are known on the CPU side.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Its block table, and the tokens that are known on the CPU side.
    pub fn table_and_tokens(&mut self) -> (&mut BlockTable, &[u32]) {
        (&mut self.table, &self.tokens)
    }

    /// Its speculation, and the tokens that are known on the CPU side.
    pub fn drafts_and_tokens(&mut self) -> (&mut Drafts, &[u32]) {
        (&mut self.drafts, &self.tokens)
    }

    /// The tokens of the prompt.
    pub fn prompt(&self) -> &[u32] {
        &self.tokens[..self.prompt]
    }

    /// Tokens that the device can compute. The host may not know the last ones yet.
    pub fn known(&self) -> usize {
        self.tokens.len() + self.pending()
    }

    /// Tokens whose keys and values are in the cache once the steps in flight are over, if all their
    /// drafts are rejected.
    pub fn computed(&self) -> usize {
        self.verified + self.flights.iter().map(|flight| flight.rows).sum::<usize>()
    }

    /// Steps in flight that have rows of it, and so use its slot and blocks.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Tokens in flight, without those of drafts.
    pub fn pending(&self) -> usize {
        self.flights.iter().filter(|flight| flight.samples).count()
    }

    /// Drafts in flight.
    fn drafted(&self) -> usize {
        self.flights.iter().map(|flight| flight.drafts).sum()
    }

    /// Tokens that the blocks must have room for if the next step has this many rows.
    pub fn reach(&self, rows: usize) -> usize {
        self.computed() + self.drafted() + rows
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
        self.generates() && self.computed() >= self.prompt && self.remaining() <= 1
    }

    /// Tokens that were known on its last admission.
    pub fn admitted(&self) -> usize {
        self.admitted
    }

    /// Whether this many tokens were added since its last admission.
    pub fn has_had(&self, tokens: usize) -> bool {
        self.tokens.len() >= self.admitted + tokens
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
        let rows = self.known() - self.computed();
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
        let pending = self.pending();
        if self.limits.as_ref().is_some_and(|limits| limits.waits(pending)) {
            return true;
        }
        // Tokens in flight come before the drafts that are known.
        let is_open =
            matches!(self.drafts.choice(), Choice::Tokens(tokens) if tokens.len() > pending);
        pending > 0 && is_open
            || self.drafted() > 0 && (self.in_flight() > 1 || !self.may_plan_behind_drafts())
    }

    /// Whether the next step may be planned before it is known how many drafts of the last are
    /// accepted: the executor drafts, wherever they end, and the answer has room for all of them.
    fn may_plan_behind_drafts(&self) -> bool {
        self.drafts.runs_ahead()
            && self.limits.is_none()
            && self.known() + self.drafted() < self.limit
    }

    /// Whether it ever uses speculative decoding: the caller agrees, and it generates.
    pub fn may_speculate(&self) -> bool {
        self.speculates && self.generates()
    }

    /// Drafts that it can have now. Together with the token sampled without them, they fit into the answer.
    fn room(&self) -> usize {
        let may_draft = self.may_speculate()
            && self.may_run()
            && !self.preempting
            && !self.scores_rows()
            && !self.constraint_missing
            && self.computed() + 1 >= self.known();
        match may_draft {
            true => self.limit.saturating_sub(self.known() + self.drafted() + 1),
            false => 0,
        }
    }

    /// Tokens that its answer will have if it becomes as long as those of others, `usual`.
    pub fn expected_answer(&self, usual: Option<f64>) -> f64 {
        let most = (self.limit - self.prompt) as f64;
        usual.map_or(most, |usual| usual.min(most))
    }

    /// What its next drafts are chosen from.
    pub fn decoding(&mut self) -> Decoding<'_> {
        let (pending, room, may_read) = (self.pending(), self.room(), self.may_read());
        Decoding { drafts: &mut self.drafts, tokens: &self.tokens, pending, room, may_read }
    }

    /// Whether the executor's drafter may ever draft for it.
    pub fn may_read(&self) -> bool {
        self.may_speculate() && self.limits.is_none() && self.prompt_logprobs.is_none()
    }

    /// Drafts that the next sampling row has, as far as blocks and rows suffice.
    pub fn next_drafts(&self) -> usize {
        let chosen = match self.drafts.choice() {
            Choice::Tokens(tokens) if self.pending() == 0 => tokens.len(),
            Choice::Device(drafts) if self.drafts.has_read() => *drafts,
            Choice::None | Choice::Tokens(_) | Choice::Device(_) => 0,
        };
        chosen.min(self.room())
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

    /// Blocks that its [expected](Sequence::expected) tokens need and that it does not hold yet.
    pub fn promised_blocks(&self, answer: usize, capacity: &Capacity) -> usize {
        capacity.blocks_of(self.expected(answer)).saturating_sub(self.table.blocks_held())
    }

    /// Whether the next rows are scored: each then needs its logits.
    pub fn scores_rows(&self) -> bool {
        self.prompt_logprobs.is_some() && self.computed() + 1 < self.prompt
    }

    /// Whether nothing can be computed for it for now: it is held, or its constraint is missing and all
    /// else is computed.
    pub fn is_blocked(&self) -> bool {
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
        debug_assert!(self.flights.is_empty());
        self.slot = slot;
        self.verified = cached;
        self.cached.get_or_insert(cached);
        self.admitted = self.tokens.len();
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
        let start = self.computed();
        let end = start + count;
        debug_assert!(start < end && end <= self.known());
        let samples = self.generates() && end == self.known();
        let drafts = if samples { drafts } else { 0 };
        let proposal = match self.drafts.choice() {
            Choice::Tokens(tokens) => tokens[..drafts].iter().copied().map(Some).collect(),
            Choice::None | Choice::Device(_) => vec![None; drafts],
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
        let follow = match (self.drafts.reads(), self.tokens.get(end)) {
            (false, _) => Follow::No,
            (true, _) if samples => Follow::Sampled,
            (true, next) => next.map_or(Follow::No, |next| Follow::Known(*next)),
        };
        self.drafts.read(follow != Follow::No);
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
        let blocks = self.table.covering(self.reach(count + drafts.len()));
        let (groups, entries) = (self.table.groups(), blocks.len() / self.table.groups());
        let first_entry = self.sent.min(entries);
        let blocks = blocks[first_entry * groups..].to_vec();
        self.sent = entries.max(self.sent);
        self.begun = true;
        let unverified = self.flights.back().map_or(0, |last| last.drafts) as u32;
        self.flights.push_back(Flight { rows: count, drafts: drafts.len(), samples });
        Ok(SeqPlan {
            slot: self.slot,
            tokens,
            start: start as u32,
            unverified,
            first_entry: first_entry as u32,
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

    /// Records that its oldest step in flight is over and that `accepted` of its drafts are accepted: their
    /// rows count as computed. Returns whether that completes the prompt for the first time.
    pub fn land(&mut self, accepted: usize) -> bool {
        let before = self.verified;
        let rows = self.flights.pop_front().map_or(0, |flight| flight.rows);
        self.verified = before + rows + accepted;
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

    /// Adds a sampled token; `drafted` if it is an accepted draft. Returns whether it is part of the answer,
    /// and the finish reason if it ends the answer.
    pub fn accept(&mut self, sample: &Sample, drafted: bool) -> (bool, Option<FinishReason>) {
        if drafted {
            self.drafts.accept();
        }
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
        debug_assert!(self.flights.is_empty());
        (self.verified, self.sent) = (0, 0);
        (self.begun, self.preempting) = (false, false);
        self.drafts.restart();
        self.parked = self.constraint_missing;
        self.scores.clear();
    }

    pub fn usage(&self) -> Usage {
        let (accepted_tokens, rejected_tokens) = self.drafts.counts();
        Usage {
            prompt_tokens: self.prompt,
            cached_tokens: self.cached.unwrap_or(0).min(self.prompt),
            completion_tokens: self.tokens.len() - self.prompt,
            accepted_tokens,
            rejected_tokens,
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
