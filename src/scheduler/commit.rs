//! Processes the result of a step.

use std::time::Duration;

use super::{
    request::{Event, FinishReason},
    state::Scheduler,
};
use crate::{
    Error,
    speculate::{Observed, Sampled, Source},
    step::{BLOCK_SIZE, Follow, Logprobs, Sample, SeqPlan, StepPlan, StepResult},
};

/// What a step brought for one sequence.
struct Came<'a> {
    /// The sampled token, and one more for each accepted draft.
    samples: Vec<&'a Sample>,
    /// One for each row that was scored.
    scores: Vec<Logprobs>,
    embedding: Option<Vec<f32>>,
}

impl Scheduler {
    /// Processes the result of a planned step. `took` is the time from its submission, or from the
    /// result before it if that came later, to its result. Steps are committed in the order of their
    /// plans.
    pub fn commit(&mut self, plan: &StepPlan, result: &StepResult, took: Duration, now: Duration) {
        let came: Vec<_> = by_sequence(plan, result).collect();
        self.measure(plan, result, &came, took);
        self.cache.saved(&plan.saves, &result.lost);
        for (rows, came) in came {
            if let Some(at) = self.running.iter().position(|seq| seq.slot == rows.slot) {
                self.land(at, rows, &came);
                let ended = self.deliver(at, came, now);
                self.settle(at, ended, now);
            } else if let Some(at) = self.draining.iter().position(|seq| seq.slot == rows.slot) {
                self.drain(at);
            }
        }
    }

    /// Records what the step took, and which drafts were accepted.
    fn measure(
        &mut self,
        plan: &StepPlan,
        result: &StepResult,
        came: &[(&SeqPlan, Came<'_>)],
        took: Duration,
    ) {
        let (rows, computed) =
            (plan.rows(), result.device_nanos.map_or(took, Duration::from_nanos));
        let mut copying = Duration::ZERO;
        if !plan.restores.is_empty() {
            let tokens = plan.restores.len() * BLOCK_SIZE / self.capacity.groups.count();
            copying = self.pace.observe_restored(tokens, rows, took);
        }
        if rows == 0 {
            return;
        }
        self.metrics.stepped(rows, computed);
        let sampled = self.running.iter_mut().filter(|seq| seq.may_speculate());
        let mut sampled: Vec<Sampled<'_>> = sampled
            .filter_map(|seq| {
                let (rows, came) = came.iter().find(|(rows, _)| rows.slot == seq.slot)?;
                let (drafts, tokens) = seq.drafts_and_tokens();
                let came = came.samples.iter().map(|sample| sample.token).collect();
                Some(Sampled { drafts, tokens, came, made: &rows.drafts })
            })
            .collect();
        let spent = self.speculation.observe(observed(plan), &mut sampled, took);
        self.pace.observe(rows, computed.min(took.saturating_sub(copying)), spent.decoding);
        self.metrics.spec_decode_seconds_saved += spent.saved.unwrap_or(0.0);
    }

    /// Counts its rows, and those of accepted drafts, as computed.
    fn land(&mut self, at: usize, rows: &SeqPlan, came: &Came<'_>) {
        let seq = &mut self.running[at];
        let accepted = came.samples.len().saturating_sub(1);
        debug_assert!(came.samples.len() <= rows.sampled());
        if !rows.drafts.is_empty() {
            self.metrics.verified(seq.tab.0, rows.drafts.len(), accepted);
        }
        if seq.land(accepted) {
            self.metrics.prefilled(seq.tab.0, seq.prompt().len());
        }
        if seq.may_speculate() {
            let verified = seq.verified();
            let (drafts, tokens) = seq.drafts_and_tokens();
            drafts.index(&tokens[..verified]);
        }
    }

    /// Raises the events of what came. Returns the finish reason if that ends the request.
    fn deliver(&mut self, at: usize, came: Came<'_>, now: Duration) -> Option<FinishReason> {
        let seq = &mut self.running[at];
        let mut ended = None;
        let bad = came.scores.iter().filter(|score| score.chosen.is_nan()).count() as u32;
        if bad > 0 {
            ended = Some(FinishReason::Error(Error::Numerical { count: bad }));
        } else if let Some(logprobs) = seq.score(came.scores) {
            self.events.push(Event::PromptLogprobs { id: seq.id, logprobs });
        }
        if let Some(vector) = came.embedding {
            let not_finite = vector.iter().filter(|value| !value.is_finite()).count();
            ended = Some(match not_finite as u32 {
                0 => FinishReason::Stop,
                count => FinishReason::Error(Error::Numerical { count }),
            });
            if not_finite == 0 {
                self.events.push(Event::Embedding { id: seq.id, vector });
            }
        }
        let accepted = came.samples.len().saturating_sub(1);
        for (place, sample) in came.samples.into_iter().enumerate() {
            let drafted = place < accepted;
            let (is_answer, reason) = seq.accept(sample, drafted);
            if sample.not_finite == 0 {
                seq.times.token(now, &mut self.metrics);
                self.metrics.generated(seq.tab.0);
            }
            if is_answer {
                let (token, logprobs) = (sample.token, sample.logprobs.clone());
                self.events.push(Event::Token { id: seq.id, token, logprobs, drafted });
            }
            ended = reason;
            if ended.is_some() {
                break;
            }
        }
        ended
    }

    /// Publishes what was computed, and ends or preempts the sequence if that is due.
    fn settle(&mut self, at: usize, ended: Option<FinishReason>, now: Duration) {
        let seq = &mut self.running[at];
        let verified = seq.verified();
        let (table, tokens) = seq.table_and_tokens();
        match ended {
            // Whichever block it comes from, nobody else is to find it.
            Some(FinishReason::Error(Error::Numerical { .. })) => self.cache.retract(table),
            _ => self.cache.publish(table, &tokens[..verified]),
        }
        self.cache.retire(&mut seq.table, verified);
        if let Some(reason) = ended {
            self.finish_running(at, reason, now);
        } else if seq.preempting && seq.in_flight() == 0 {
            self.preempt(at);
        }
    }

    /// Frees what an ended sequence holds once no step in flight uses it.
    fn drain(&mut self, at: usize) {
        self.draining[at].land(0);
        if self.draining[at].in_flight() == 0 {
            let mut seq = self.draining.swap_remove(at);
            self.release(&mut seq);
        }
    }
}

/// The rows of each sequence, with what came of them.
fn by_sequence<'a>(
    plan: &'a StepPlan,
    result: &'a StepResult,
) -> impl Iterator<Item = (&'a SeqPlan, Came<'a>)> {
    let mut samples = result.samples.iter().peekable();
    let mut scores = result.scores.iter().cloned();
    let mut embeddings = result.embeddings.iter().cloned();
    plan.seqs.iter().map(move |rows| {
        let mine = |sample: &&Sample| sample.slot == rows.slot;
        let scored = if rows.score.is_some() { rows.tokens.count() } else { 0 };
        let came = Came {
            samples: (0..rows.sampled()).map_while(|_| samples.next_if(mine)).collect(),
            scores: scores.by_ref().take(scored).collect(),
            embedding: rows.pool.filter(|pool| pool.last).and_then(|_| embeddings.next()),
        };
        (rows, came)
    })
}

/// What speculation has to know of a step.
fn observed(plan: &StepPlan) -> Observed {
    let decodes = |seq: &&SeqPlan| seq.sample.is_some() && seq.tokens.count() == 1;
    let (decoding, prompts): (Vec<&SeqPlan>, Vec<&SeqPlan>) = plan.seqs.iter().partition(decodes);
    let reads = |seq: &&SeqPlan| seq.follow != Follow::No;
    let drafts = plan.seqs.iter().map(|seq| seq.drafts.len()).sum();
    let read = prompts.iter().filter(|seq| reads(seq)).count();
    Observed {
        decoding: decoding.len(),
        drafts,
        source: match drafts {
            _ if decoding.iter().any(reads) => Source::Device,
            0 => Source::None,
            _ => Source::Lookup,
        },
        prompts: prompts.iter().map(|seq| seq.tokens.count()).sum(),
        read: [(0, false), (prompts.len(), true)]
            .into_iter()
            .find_map(|(all, is)| (read == all).then_some(is)),
        is_usual: !plan.seqs.iter().any(|seq| seq.score.is_some() || seq.pool.is_some()),
    }
}
