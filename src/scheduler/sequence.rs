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

/// Tokens that are guessed to follow.
#[derive(Clone, Debug, PartialEq)]
pub enum Guess {
    /// These, those in flight among them.
    Tokens(Vec<u32>),
    /// So many, by the executor's own drafter, behind those in flight.
    Device(usize),
    /// To be decided once those in flight are known.
    Open,
}

impl Default for Guess {
    fn default() -> Guess {
        Guess::Tokens(Vec::new())
    }
}

/// A request on its way: `computed` catches up with [`Sequence::known`].
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
    pub salt: u64,
    /// The request whose prompt this one repeats: it waits for that prompt and takes over its blocks.
    pub twin_of: Option<RequestId>,
    /// How often a request behind it was admitted first.
    pub passed_over: u32,
    /// Place in the executor's tables; set on admission.
    pub slot: u32,
    pub table: BlockTable,
    /// Steps in flight that have rows of this sequence, and so use its slot and blocks.
    pub in_flight: usize,
    pub times: RequestTimes,
    /// Gets no more rows: it gives way to others as soon as no step in flight uses its blocks.
    pub yielding: bool,
    /// Gets no more rows until it is released.
    pub held: bool,
    /// How often its drafts are right, and those of the executor's drafter.
    pub acceptance: Acceptance,
    pub device_acceptance: Acceptance,
    /// What is guessed to follow the tokens that the host knows.
    guess: Guess,
    /// Whether the executor's drafter reads it, all but what few steps may have left out.
    pub reads: bool,
    /// Whether the executor's drafter is to read its next rows.
    pub follows: bool,
    /// Whether it last seemed worth having it draft.
    pub drafts_on_device: bool,
    /// Rounds in which it has drafts of the executor's, whether they pay or not.
    pub trial: usize,
    /// Whether that drafter has not read its prompt.
    pub reads_late: bool,
    /// Whether its rounds are planned while the step before runs.
    pub runs_ahead: bool,
    /// Whether it has read those of the step before.
    followed: bool,
    /// Drafts of the last step, if it is in flight.
    drafted: usize,
    /// [`SeqPlan::unverified`] of the last step, if it is in flight.
    unverified: usize,
    /// How many drafts were right of the last step that is over.
    right: usize,
    /// Steps with drafts so far, the drafts, and how many of these were right.
    rounds: usize,
    drafts: usize,
    accepted: usize,
    goal: Goal,
    tokens: Vec<u32>,
    prompt: usize,
    /// Tokens of prompt and answer that the request brought along.
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
    /// The length at which it ends.
    limit: usize,
    end_tokens: Vec<u32>,
    stop_tokens: Vec<u32>,
    repetition: Option<Repetition>,
    min_tokens: usize,
    sampling: Sampling,
    logprob_tokens: Arc<[u32]>,
    bias: Vec<(u32, f32)>,
    /// What forbids tokens, if anything does.
    limits: Option<TokenLimits>,
    /// A constraint is announced and has not come.
    constraint_missing: bool,
    speculates: bool,
    prompt_logprobs: Option<u32>,
    scores: Vec<Logprobs>,
}

impl Sequence {
    /// The sequence of a valid request, which ends at `context` tokens if nothing ends it before.
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
            salt: request.salt,
            twin_of: None,
            passed_over: 0,
            slot: 0,
            table: BlockTable::default(),
            in_flight: 0,
            times: RequestTimes::new(now),
            yielding: false,
            held: false,
            acceptance: Acceptance::default(),
            device_acceptance: Acceptance::default(),
            guess: Guess::default(),
            reads: false,
            follows: false,
            drafts_on_device: false,
            trial: 0,
            reads_late: false,
            runs_ahead: false,
            followed: false,
            drafted: 0,
            unverified: 0,
            right: 0,
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
            speculates: request.speculates,
            prompt_logprobs: request.prompt_logprobs,
            scores: Vec::new(),
        }
    }

    /// Takes in tokens of the answer that were drawn elsewhere. Returns why it ends with them if it
    /// does.
    pub fn resume(&mut self, answered: &[u32]) -> Option<FinishReason> {
        self.given += answered.len();
        let ends = answered.iter().map(|token| self.draw(*token).1);
        ends.fold(None, |first, reason| first.or(reason))
    }

    /// Checks that the first draw has something to choose from.
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

    /// Its blocks, and the tokens that the host knows.
    pub fn table_and_tokens(&mut self) -> (&mut BlockTable, &[u32]) {
        (&mut self.table, &self.tokens)
    }

    /// The tokens of the prompt.
    pub fn prompt(&self) -> &[u32] {
        &self.tokens[..self.prompt]
    }

    /// Tokens that the device can compute, though the host may not have seen the last ones.
    pub fn known(&self) -> usize {
        self.tokens.len() + self.pending
    }

    /// Tokens whose keys and values are in the cache once the steps in flight are over, if no draft of
    /// these is right.
    pub fn computed(&self) -> usize {
        self.computed
    }

    /// Tokens that the blocks must have room for if the next step has so many rows.
    pub fn reach(&self, rows: usize) -> usize {
        self.computed + self.drafted + rows
    }

    /// Tokens whose keys and values are in the cache.
    pub fn verified(&self) -> usize {
        self.verified.min(self.tokens.len())
    }

    /// Whether it produces tokens already, at one row a step.
    pub fn decodes(&self) -> bool {
        self.goal == Goal::Generate && self.computed >= self.prompt && self.remaining() <= 1
    }

    /// Whether it has ever been admitted.
    pub fn has_run(&self) -> bool {
        self.cached.is_some()
    }

    /// Whether cached prefixes may stand in for rows of its own: not where every row counts.
    pub fn may_skip_rows(&self) -> bool {
        self.prompt_logprobs.is_none() && self.goal == Goal::Generate
    }

    /// Rows left to compute. None once the last token is on its way: nothing follows it.
    pub fn remaining(&self) -> usize {
        if !self.may_run() {
            return 0;
        }
        let rows = self.known() - self.computed;
        let limits = self.limits.as_ref();
        let waits = self.waits() || limits.is_some_and(|limits| limits.waits(self.pending));
        if self.constraint_missing || waits {
            // All but the row that draws.
            return rows.saturating_sub(1);
        }
        // The last row of a scored prompt has no next token to score: it goes alone.
        if self.scores_rows() { rows - 1 } else { rows }
    }

    /// Whether it waits for the tokens in flight, so as to know what to draft or what of it is right.
    pub fn waits(&self) -> bool {
        let is_open = match &self.guess {
            Guess::Tokens(tokens) => tokens.len() > self.pending,
            Guess::Device(drafts) => *drafts > 0 && !self.runs_ahead,
            Guess::Open => true,
        };
        let is_unsure = self.drafted + self.unverified > 0;
        self.pending > 0 && is_open
            || self.drafted > 0 && !self.goes_on_behind_drafts()
            || is_unsure && self.in_flight > 1
    }

    /// Whether the next step may be planned before it is known how many drafts of the last are right:
    /// the executor drafts behind them, wherever that is, and the answer has room if all are.
    fn goes_on_behind_drafts(&self) -> bool {
        self.runs_ahead
            && matches!(self.guess, Guess::Device(1..))
            && self.may_draft_on_device()
            && self.known() + self.drafted < self.limit
    }

    /// Whether its tokens are ever guessed: its caller agrees, and it draws.
    pub fn may_be_guessed(&self) -> bool {
        self.speculates && self.goal == Goal::Generate
    }

    /// Whether tokens may be guessed for it now: nothing but what it knows is needed to.
    pub fn may_guess(&self) -> bool {
        self.may_be_guessed()
            && self.may_run()
            && !self.yielding
            && !self.scores_rows()
            && !self.constraint_missing
            && self.computed + 1 >= self.known()
    }

    /// Sets what is guessed to follow. A sequence with guesses for more than its tokens in flight waits
    /// for these, and then tries the others as drafts.
    pub fn guess(&mut self, guess: Guess) {
        self.guess = guess;
    }

    /// Whether the executor's drafter can draft for it: it has read the last rows, and nothing depends
    /// on the drafts that the host would have to know.
    pub fn may_draft_on_device(&self) -> bool {
        self.followed && self.limits.is_none()
    }

    /// Whether the executor's drafter may ever draft for it.
    pub fn may_follow(&self) -> bool {
        self.goal == Goal::Generate && self.limits.is_none() && self.prompt_logprobs.is_none()
    }

    /// Tokens in flight.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Drafts that the next row that draws could have: not more than tokens that the answer may have
    /// beside the one drawn without them.
    pub fn drafts(&self) -> usize {
        let room = self.limit.saturating_sub(self.known() + self.drafted + 1);
        let guessed = match &self.guess {
            Guess::Tokens(tokens) if self.pending == 0 => tokens.len(),
            Guess::Device(drafts) if self.followed => *drafts,
            _ => 0,
        };
        if self.may_guess() { guessed.min(room) } else { 0 }
    }

    /// Steps with drafts so far.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Whether it may get rows: it is not held, and not all its tokens are there or on their way.
    pub fn may_run(&self) -> bool {
        let full = self.goal == Goal::Generate && self.known() >= self.limit;
        !self.held && !full
    }

    /// Blocks that its tokens need, `most` at a time, and that it does not hold yet.
    pub fn promised_blocks(&self, most: usize) -> usize {
        self.known().div_ceil(BLOCK_SIZE).min(most).saturating_sub(self.table.blocks_held())
    }

    /// Whether the next rows are scored: each then needs its logits.
    pub fn scores_rows(&self) -> bool {
        self.prompt_logprobs.is_some() && self.computed + 1 < self.prompt
    }

    /// Whether all is computed that can be before its constraint comes.
    pub fn awaits_constraint(&self) -> bool {
        self.constraint_missing && self.remaining() == 0
    }

    /// Takes the constraint that was announced. Returns why the answer ends with the tokens it has
    /// already, if it does.
    pub fn constrain(&mut self, constraint: Box<dyn Constraint>) -> Option<FinishReason> {
        self.constraint_missing = false;
        let limits = self.limits.as_mut()?;
        limits.set_constraint(constraint);
        let answer = &self.tokens[self.prompt..];
        let ended = answer.iter().find_map(|token| constrained(limits, *token));
        ended.or((self.tokens.len() >= self.limit).then_some(FinishReason::Length))
    }

    /// Takes a slot and blocks, of which the first `cached` tokens are computed.
    pub fn admit(&mut self, slot: u32, table: BlockTable, cached: usize) {
        debug_assert!(self.pending == 0 && self.in_flight == 0);
        self.slot = slot;
        self.table = table;
        (self.computed, self.verified) = (cached, cached);
        self.cached.get_or_insert(cached);
        if let Some(limits) = &mut self.limits {
            limits.restart();
        }
    }

    /// Puts the next `count` rows into a step, where 1 <= `count` <= [`Sequence::remaining`], and so
    /// many of the [drafts](Sequence::drafts) behind them as their order lets be drawn.
    ///
    /// # Errors
    /// What the request's constraint has to say against going on.
    pub fn advance(&mut self, count: usize, drafts: usize) -> Result<SeqPlan> {
        let (start, end) = (self.computed, self.computed + count);
        debug_assert!(start < end && end <= self.known());
        let draws = self.goal == Goal::Generate && end == self.known();
        let drafts = if draws { drafts } else { 0 };
        let guess = match &self.guess {
            Guess::Tokens(tokens) => tokens[..drafts].iter().copied().map(Some).collect(),
            Guess::Device(_) | Guess::Open => vec![None; drafts],
        };
        let masks = match &mut self.limits {
            Some(limits) if draws => {
                let guess: Vec<u32> = guess.iter().copied().flatten().collect();
                limits.masks(&self.tokens[self.prompt..], end - self.prompt, &guess)?
            }
            _ => vec![Mask::None; 1 + drafts],
        };
        let mut masks = masks.into_iter();
        let mask = masks.next().unwrap_or_default();
        let guess = guess.into_iter().zip(masks);
        let drafts: Vec<Draft> = guess.map(|(token, mask)| Draft { token, mask }).collect();
        let follow = match (self.follows, self.tokens.get(end)) {
            (false, _) => Follow::No,
            (true, _) if draws => Follow::Drawn,
            (true, next) => next.map_or(Follow::No, |next| Follow::Known(*next)),
        };
        self.followed = follow != Follow::No;
        // What was worth drafting still is, as far as is known.
        self.guess = match self.guess {
            Guess::Device(drafts) if self.followed => Guess::Device(drafts),
            _ if self.followed => Guess::Open,
            _ => Guess::default(),
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
        self.pending += usize::from(draws);
        (self.unverified, self.drafted) = (self.drafted, drafts.len());
        Ok(SeqPlan {
            slot: self.slot,
            tokens,
            start: start as u32,
            unverified: self.unverified as u32,
            first_block: first_block as u32,
            blocks,
            sample: draws.then_some(self.sampling),
            drafts,
            follow,
            logprob_tokens: self.logprob_tokens.clone(),
            adjust,
            mask,
            score,
            pool,
        })
    }

    /// Notes that a step with these rows is over, and how many of its drafts are right: their rows count
    /// as computed. Returns whether that completes the prompt, for the first time.
    pub fn verify(&mut self, rows: &SeqPlan, right: usize) -> bool {
        let moved = if rows.unverified > 0 { self.right } else { 0 };
        let end = rows.start as usize + moved + rows.tokens.count() + right;
        let before = self.verified;
        self.verified = before.max(end);
        self.computed += right;
        self.rounds += usize::from(!rows.drafts.is_empty());
        self.drafts += rows.drafts.len();
        self.right = right;
        self.in_flight -= 1;
        if self.in_flight == 0 {
            (self.drafted, self.unverified) = (0, 0);
        }
        before < self.given && self.verified >= self.given && self.tokens.len() == self.given
    }

    /// Takes in log-probabilities of the prompt; returns all of them once they are complete.
    pub fn score(&mut self, scores: Vec<Logprobs>) -> Option<Vec<Logprobs>> {
        self.scores.extend(scores);
        if self.scores.len() + 1 < self.prompt {
            return None;
        }
        // Should it be computed again, it is not told again.
        self.prompt_logprobs = None;
        Some(std::mem::take(&mut self.scores))
    }

    /// Takes in the oldest token in flight; `drafted` if it was a draft, which is not counted among those
    /// pending. Returns whether it is part of the answer, and why the answer ends if it does.
    pub fn accept(&mut self, sample: &Sample, drafted: bool) -> (bool, Option<FinishReason>) {
        self.accepted += usize::from(drafted);
        self.pending -= usize::from(!drafted);
        if sample.not_finite > 0 {
            let error = Error::Numerical { count: sample.not_finite };
            return (false, Some(FinishReason::Error(error)));
        }
        self.draw(sample.token)
    }

    /// Adds a token to the answer. Returns whether it is part of what the caller is told, and why the
    /// answer ends if it does.
    fn draw(&mut self, token: u32) -> (bool, Option<FinishReason>) {
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
        // A constraint still to come may call the answer complete.
        let ends = self.tokens.len() >= self.limit && !self.constraint_missing;
        (true, ends.then_some(FinishReason::Length))
    }

    fn is_repetitive(&self) -> bool {
        let answer = &self.tokens[self.prompt..];
        let repetition = self.repetition.as_ref().filter(|_| answer.len() >= self.min_tokens);
        repetition.is_some_and(|repetition| repetition.ends(answer))
    }

    /// Forgets what was computed, once no step is in flight and the blocks are given up.
    pub fn restart(&mut self) {
        debug_assert!(self.in_flight == 0 && self.pending == 0 && self.drafted == 0);
        (self.computed, self.verified, self.sent) = (0, 0, 0);
        (self.begun, self.yielding, self.followed) = (false, false, false);
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

/// Tells a constraint, if there is one, of a token. Returns why the answer ends with it if it does.
fn constrained(limits: &mut TokenLimits, token: u32) -> Option<FinishReason> {
    match limits.accept(token) {
        Ok(()) => limits.is_complete().then_some(FinishReason::Stop),
        Err(error) => Some(FinishReason::Error(error)),
    }
}
