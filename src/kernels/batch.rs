//! The words that describe a step to every kernel: one buffer, written once per step.
//!
//! A header of [`HEADER_WORDS`] words (numbers of rows, logit rows, tiles, samples, sample runs and
//! shifts, then where rows, logit rows, tiles, samples, pools, sample runs and shifts start)
//! and the sections:
//!
//! | section | entry |
//! |---|---|
//! | rows | token id or slot, position, start of its table in [`BlockTables`] |
//! | logit rows | row |
//! | tiles | first row, rows: neighbouring rows of one sequence that share a pass over its keys |
//! | samples | logit row, slot, position of the sampled token, temperature, top-k, top-p, min-p, seed low and high, flags, penalties for presence, frequency and repetition, row |
//! | log-probabilities | logit row, token or [`LAST_SAMPLE`] and a sample, number of most likely tokens, where in the results, where among these words the named tokens are, how many |
//! | tokens named for their log-probabilities | token |
//! | pools | first row, rows: those whose hidden states are added up; slot; whether the sum begins with them |
//! | sample runs | first sample, samples: those of one sequence; the first is always accepted |
//! | shifts | slot, first row, rows, first sample, samples, most: a sequence that moves forward by the number in its slot's [`ACCEPTED`], but at most by `most`; see [`super::Shift`] |
//!
//! Floats are bit patterns. `shaders/include/step.wgsl` reads these words.

mod check;

use super::BlockTables;
use crate::{
    Result,
    step::{
        Capacity, MAX_DRAFTS, MAX_LOGPROB_TOKENS, MAX_LOGPROBS, Mask, Pool, Pooling, RowTokens,
        StepPlan,
    },
};

/// Marks a row's token id as an index into the table of last samples. That has, for each slot,
/// [`SLOT_TOKENS`] words: the last sample; drafts, from [`DRAFTS`] on; the tokens sampled by the last
/// step, from [`SAMPLED`] on; and, at [`ACCEPTED`], the number of accepted drafts of its last step with
/// drafts.
pub const LAST_SAMPLE: u32 = 1 << 31;
pub const SLOT_TOKENS: u32 = ACCEPTED + 1;
pub const DRAFTS: u32 = 1;
pub const SAMPLED: u32 = DRAFTS + MAX_DRAFTS as u32;
pub const ACCEPTED: u32 = SAMPLED + MAX_DRAFTS as u32 + 1;
pub const HEADER_WORDS: usize = 13;
pub const ROW_WORDS: usize = 3;
pub const TILE_WORDS: usize = 2;
pub const SAMPLE_WORDS: usize = 14;
pub const LOGPROB_WORDS: usize = 6;
pub const POOL_WORDS: usize = 4;
pub const RUN_WORDS: usize = 2;
pub const SHIFT_WORDS: usize = 6;
/// Flags of a sample: use the slot's mask; use the slot's tallies and bias. From bit [`DRAFTS_AT`] on:
/// the number of drafts before it.
pub const MASKED: u32 = 1;
pub const TALLIED: u32 = 2;
pub const DRAFTS_AT: u32 = 8;

/// A step in words, with the counts that determine the grids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    pub words: Vec<u32>,
    pub rows: u32,
    pub logit_rows: u32,
    pub tiles: u32,
    pub samples: u32,
    /// Sample runs: one for each sequence that samples.
    pub sample_runs: u32,
    /// Sequences that start behind unverified drafts.
    pub shifts: u32,
    /// Log-probabilities asked for: first of samples, then of scored rows, as in the plan.
    pub logprobs: u32,
    /// Sequences with hidden states that are added to an embedding.
    pub pools: u32,
    /// Words of the results: two per sample, one per sampling sequence, then 1 + 2·(most likely tokens)
    /// + (named tokens) per log-probability.
    pub result_words: u32,
    /// The longest context of the step in tokens, if all unverified drafts are accepted.
    pub longest: u32,
}

/// A row as kernels read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub token: u32,
    pub position: u32,
    pub table: u32,
}

impl Batch {
    /// Checks a plan against the capacity and encodes it. A tile has at most `tile_rows` rows.
    ///
    /// `tables` must include the plan. Out-of-bounds indices would silently corrupt device memory, so
    /// every index is checked, there or here.
    ///
    /// # Errors
    /// [`crate::Error::InvalidRequest`] that names what is out of range.
    pub fn encode(
        plan: &StepPlan,
        capacity: &Capacity,
        tables: &BlockTables,
        tile_rows: usize,
    ) -> Result<Batch> {
        check::plan(plan, capacity)?;
        let [mut rows, mut logit_rows, mut tiles, mut samples, mut pools, mut runs, mut shifts] =
            [const { Vec::<u32>::new() }; 7];
        // With the named tokens.
        let [mut logprobs, mut scores] = [const { Vec::<([u32; 3], &[u32])>::new() }; 2];
        let mut longest = 0;
        for seq in &plan.seqs {
            let (first, count) = (rows.len() / ROW_WORDS, seq.rows());
            let end = seq.start as usize + count;
            let table = tables.start(seq.slot) as u32;
            longest = longest.max(end as u32 + seq.unverified);
            if seq.unverified > 0 {
                let sample = samples.len() / SAMPLE_WORDS;
                let [rows, samples] = [count, seq.sampled()].map(|count| count as u32);
                shifts.extend([
                    seq.slot,
                    first as u32,
                    rows,
                    sample as u32,
                    samples,
                    seq.unverified,
                ]);
            }
            let place = LAST_SAMPLE | (seq.slot * SLOT_TOKENS);
            let last_sample = [place];
            let tokens = match &seq.tokens {
                RowTokens::LastSample => &last_sample[..],
                RowTokens::Known(ids) => ids,
            };
            let drafted = seq.drafts.iter().zip(place + DRAFTS..);
            let drafts = drafted.map(|(draft, place)| draft.token.unwrap_or(place));
            for (i, token) in tokens.iter().copied().chain(drafts).enumerate() {
                rows.extend([token, seq.start + i as u32, table]);
            }
            for tile in (0..count).step_by(tile_rows.max(1)) {
                tiles.extend([(first + tile) as u32, (count - tile).min(tile_rows) as u32]);
            }
            let last = (first + count - 1) as u32;
            let begins = u32::from(seq.start == 0);
            match seq.pool {
                Some(Pool { pooling: Pooling::Mean, .. }) => {
                    pools.extend([first as u32, count as u32, seq.slot, begins]);
                }
                Some(Pool { pooling: Pooling::Last, last: true }) => {
                    pools.extend([last, 1, seq.slot, 1]);
                }
                Some(Pool { pooling: Pooling::Last, last: false }) | None => {}
            }
            let top = |asked: u32| asked.min(capacity.vocab as u32);
            if let Some(score) = &seq.score {
                let from = if plan.read_logits { first } else { logit_rows.len() } as u32;
                let rows = (from..).zip(&score.targets);
                scores.extend(rows.map(|(row, target)| ([row, *target, top(score.top)], &[][..])));
                logit_rows.extend(first as u32..=last);
            } else {
                logit_rows.extend((first as u32..=last).skip(count - seq.sampled()));
            }
            let Some(s) = seq.sample else { continue };
            runs.extend([(samples.len() / SAMPLE_WORDS) as u32, seq.sampled() as u32]);
            for (drafts, mask) in (0..).zip(seq.masks()) {
                let behind = seq.drafts.len() as u32 - drafts;
                let row = last - behind;
                let logit_row =
                    if plan.read_logits { row } else { logit_rows.len() as u32 - 1 - behind };
                if let Some(asked) = s.logprobs {
                    let sample = (samples.len() / SAMPLE_WORDS) as u32;
                    let chosen = LAST_SAMPLE | sample;
                    logprobs.push(([logit_row, chosen, top(asked)], &seq.logprob_tokens));
                }
                let masked = if *mask == Mask::None { 0 } else { MASKED };
                let tallied = if s.penalises() || s.bias { TALLIED } else { 0 };
                samples.extend([
                    logit_row,
                    seq.slot,
                    end as u32 - behind,
                    s.temperature.to_bits(),
                    s.top_k,
                    s.top_p.to_bits(),
                    s.min_p.to_bits(),
                    s.seed as u32,
                    (s.seed >> 32) as u32,
                    masked | tallied | drafts << DRAFTS_AT,
                    s.presence_penalty.to_bits(),
                    s.frequency_penalty.to_bits(),
                    s.repetition_penalty.to_bits(),
                    row,
                ]);
            }
        }
        if plan.read_logits {
            logit_rows = (0..plan.rows() as u32).collect();
        }

        if logit_rows.len() > capacity.logit_rows {
            return Err(check::refused(format!(
                "logits of {} rows; this executor computes at most {}",
                logit_rows.len(),
                capacity.logit_rows
            )));
        }

        let mut batch = Batch {
            rows: plan.rows() as u32,
            logit_rows: logit_rows.len() as u32,
            tiles: (tiles.len() / TILE_WORDS) as u32,
            samples: (samples.len() / SAMPLE_WORDS) as u32,
            sample_runs: (runs.len() / RUN_WORDS) as u32,
            shifts: (shifts.len() / SHIFT_WORDS) as u32,
            logprobs: (logprobs.len() + scores.len()) as u32,
            pools: (pools.len() / POOL_WORDS) as u32,
            result_words: (2 * samples.len() / SAMPLE_WORDS + runs.len() / RUN_WORDS) as u32,
            longest,
            words: vec![0; HEADER_WORDS],
        };
        let before = HEADER_WORDS + rows.len() + logit_rows.len() + tiles.len() + samples.len();
        let mut named: Vec<u32> = Vec::new();
        for ([row, token, top], tokens) in logprobs.into_iter().chain(scores) {
            let at = before + batch.logprobs as usize * LOGPROB_WORDS + named.len();
            let count = tokens.len() as u32;
            samples.extend([row, token, top, batch.result_words, at as u32, count]);
            named.extend(tokens);
            batch.result_words += 1 + 2 * top + count;
        }
        samples.extend(named);
        let sections = [&rows, &logit_rows, &tiles, &samples, &pools, &runs, &shifts];
        let starts = sections.iter().scan(HEADER_WORDS, |at, section| {
            let start = *at as u32;
            *at += section.len();
            Some(start)
        });
        let Batch { rows, logit_rows, tiles, samples, sample_runs, shifts, .. } = batch;
        let header = [rows, logit_rows, tiles, samples, sample_runs, shifts];
        batch.words = header.into_iter().chain(starts).collect();
        for section in sections {
            batch.words.extend(section);
        }
        Ok(batch)
    }

    /// Most words of a step of this capacity.
    pub fn max_words(capacity: &Capacity) -> usize {
        HEADER_WORDS
            + capacity.rows * (ROW_WORDS + 1 + TILE_WORDS)
            + capacity.seqs * (POOL_WORDS + RUN_WORDS + SHIFT_WORDS)
            + capacity.logit_rows * (SAMPLE_WORDS + MAX_LOGPROB_TOKENS + LOGPROB_WORDS)
    }

    /// Most result words of a step of this capacity.
    pub fn max_result_words(capacity: &Capacity) -> usize {
        capacity.seqs + capacity.logit_rows * (3 + MAX_LOGPROB_TOKENS + 2 * MAX_LOGPROBS as usize)
    }

    /// The token id of a row, given the table of last samples.
    pub fn token(&self, i: usize, last_samples: &[u32]) -> u32 {
        match self.row(i).token {
            place if place & LAST_SAMPLE != 0 => last_samples[(place & !LAST_SAMPLE) as usize],
            id => id,
        }
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> Row {
        let at = self.words[6] as usize + ROW_WORDS * i;
        let [token, position, table] = [0, 1, 2].map(|word| self.words[at + word]);
        Row { token, position, table }
    }

    /// The words of row `i`: token, position and table.
    pub fn row_mut(&mut self, i: usize) -> &mut [u32] {
        let at = self.words[6] as usize + ROW_WORDS * i;
        &mut self.words[at..at + ROW_WORDS]
    }

    /// The row whose logits are logit row `i`.
    pub fn logit_row(&self, i: usize) -> usize {
        self.words[self.words[7] as usize + i] as usize
    }

    /// The words of sample `i`.
    pub fn sample(&self, i: usize) -> &[u32] {
        let at = self.words[9] as usize + SAMPLE_WORDS * i;
        &self.words[at..at + SAMPLE_WORDS]
    }

    /// The words of sample `i`, mutable.
    pub fn sample_mut(&mut self, i: usize) -> &mut [u32] {
        let at = self.words[9] as usize + SAMPLE_WORDS * i;
        &mut self.words[at..at + SAMPLE_WORDS]
    }

    /// The words of log-probability `i`.
    pub fn logprob(&self, i: usize) -> &[u32] {
        let at = self.words[9] as usize + SAMPLE_WORDS * self.samples as usize + LOGPROB_WORDS * i;
        &self.words[at..at + LOGPROB_WORDS]
    }

    /// The words of pool `i`.
    pub fn pool(&self, i: usize) -> &[u32] {
        let at = self.words[10] as usize + POOL_WORDS * i;
        &self.words[at..at + POOL_WORDS]
    }

    /// The first sample and the number of samples of sample run `i`.
    pub fn sample_run(&self, i: usize) -> (usize, usize) {
        let at = self.words[11] as usize + RUN_WORDS * i;
        (self.words[at] as usize, self.words[at + 1] as usize)
    }

    /// The words of shift `i`.
    pub fn shift(&self, i: usize) -> [u32; SHIFT_WORDS] {
        let at = self.words[12] as usize + SHIFT_WORDS * i;
        std::array::from_fn(|word| self.words[at + word])
    }

    /// Index in the results of the number of accepted drafts of sample run `i`.
    pub fn accepted_at(&self, i: usize) -> usize {
        2 * self.samples as usize + i
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Error,
        kernels::KvGroup,
        step::{Draft, HostMemory, KvGroups, Sampling, Score, SeqPlan},
    };

    pub(super) const CAPACITY: Capacity = Capacity {
        rows: 64,
        seqs: 4,
        logit_rows: 4,
        blocks: 10,
        context: 64,
        vocab: 100,
        groups: KvGroups::FULL,
        host: HostMemory::NONE,
    };

    pub(super) fn seq(slot: u32, tokens: RowTokens, start: u32, blocks: &[u32]) -> SeqPlan {
        let sample = Some(Sampling::GREEDY);
        SeqPlan { slot, tokens, start, blocks: blocks.into(), sample, ..Default::default() }
    }

    #[test]
    fn a_chunk_and_a_decode_row_are_encoded_alike() {
        let chunk = RowTokens::Known((10..29).collect());
        let plan = StepPlan {
            seqs: vec![seq(0, chunk, 14, &[7, 3, 9]), seq(2, RowTokens::LastSample, 16, &[1, 4])],
            ..Default::default()
        };
        let tables = BlockTables::of(&plan, &CAPACITY).unwrap();
        let batch = Batch::encode(&plan, &CAPACITY, &tables, 8).unwrap();
        assert_eq!((batch.rows, batch.logit_rows, batch.tiles, batch.samples), (20, 2, 4, 2));
        assert_eq!(batch.longest, 33);
        let row = batch.row(2);
        assert_eq!((row.token, row.position), (12, 16));
        assert_eq!(tables.kv_slot(KvGroup::ALL, row.table, 15), 7 * 16 + 15);
        let row = batch.row(19);
        assert_eq!((row.token, row.position), (LAST_SAMPLE | (2 * SLOT_TOKENS), 16));
        assert_eq!(tables.kv_slot(KvGroup::ALL, row.table, 0), 16);
        assert_eq!((batch.logit_row(0), batch.logit_row(1)), (18, 19));
        assert_eq!(batch.sample(1)[..3], [1, 2, 17]);
        assert!(batch.words.len() <= Batch::max_words(&CAPACITY));
    }

    pub(super) fn encode(plan: &StepPlan) -> Result<Batch> {
        Batch::encode(plan, &CAPACITY, &BlockTables::of(plan, &CAPACITY)?, 8)
    }

    #[test]
    fn scored_rows_have_logits_and_log_probabilities() {
        let sample = Some(Sampling { logprobs: Some(2), ..Sampling::GREEDY });
        let score = Some(Score { targets: vec![7, 8], top: 1 });
        let scored = SeqPlan { score, ..seq(0, RowTokens::Known(vec![6, 7]), 0, &[1]) };
        let seqs = vec![
            SeqPlan {
                sample,
                logprob_tokens: [30, 40].into(),
                ..seq(1, RowTokens::LastSample, 4, &[2])
            },
            SeqPlan { sample: None, ..scored.clone() },
            SeqPlan { sample: None, ..seq(2, RowTokens::Known(vec![9]), 0, &[3]) },
        ];
        for (read_logits, rows) in [(false, [0, 1, 2].as_slice()), (true, &[0, 1, 2, 3])] {
            let plan = StepPlan { seqs: seqs.clone(), read_logits, ..Default::default() };
            let batch = encode(&plan).unwrap();
            assert_eq!((batch.samples, batch.logprobs, batch.result_words), (1, 3, 3 + 7 + 3 + 3));
            let logit_rows: Vec<_> =
                (0..batch.logit_rows as usize).map(|i| batch.logit_row(i)).collect();
            assert_eq!(logit_rows, rows);
            let &[row, token, top, out, named, names] = batch.logprob(0) else { panic!() };
            assert_eq!((row, token, top, out), (0, LAST_SAMPLE, 2, 3));
            assert_eq!(batch.words[named as usize..][..names as usize], [30, 40]);
            assert_eq!(batch.logprob(1)[..4], [1, 7, 1, 10]);
            assert_eq!(batch.logprob(2)[..4], [2, 8, 1, 13]);
            assert_eq!([1, 2].map(|i| batch.logprob(i)[5]), [0, 0]);
        }
        // A row that is both scored and sampled has its logits once.
        let both = SeqPlan { sample, ..scored };
        let batch = encode(&StepPlan { seqs: vec![both], ..Default::default() }).unwrap();
        assert_eq!((batch.logit_rows, batch.sample(0)[0], batch.logprob(0)[0]), (2, 1, 1));
    }

    #[test]
    fn pools_contain_the_rows_of_the_embedding() {
        let pooled = |slot, count: usize, start, pooling, last| SeqPlan {
            sample: None,
            pool: Some(Pool { pooling, last }),
            ..seq(slot, RowTokens::Known(vec![1; count]), start, &[1, 2, 3])
        };
        let seqs = vec![
            pooled(0, 5, 16, Pooling::Mean, false),
            pooled(1, 7, 0, Pooling::Last, false),
            pooled(2, 3, 0, Pooling::Mean, true),
            pooled(3, 9, 20, Pooling::Last, true),
        ];
        let batch = encode(&StepPlan { seqs, ..Default::default() }).unwrap();
        assert_eq!((batch.pools, batch.logit_rows, batch.result_words), (3, 0, 0));
        let found: Vec<_> = (0..3).map(|i| batch.pool(i)).collect();
        assert_eq!(found, [[0, 5, 0, 0], [12, 3, 2, 1], [23, 1, 3, 1]]);
        assert!(batch.words.len() <= Batch::max_words(&CAPACITY));
    }

    #[test]
    fn rows_behind_unverified_drafts_are_placed_by_the_device() {
        let drafts = vec![Draft::default(); 2];
        let good = SeqPlan {
            unverified: MAX_DRAFTS as u32,
            drafts,
            ..seq(1, RowTokens::LastSample, 20, &[1, 2])
        };
        let pool = Some(Pool { pooling: Pooling::Last, last: true });
        let score = Some(Score { targets: vec![1], top: 0 });
        let bad = [
            SeqPlan { unverified: MAX_DRAFTS as u32 + 1, ..good.clone() },
            SeqPlan { tokens: RowTokens::Known(vec![1]), ..good.clone() },
            SeqPlan { drafts: vec![Draft { token: Some(1), ..Draft::default() }], ..good.clone() },
            SeqPlan { drafts: Vec::new(), score, ..good.clone() },
            SeqPlan { pool, ..good.clone() },
        ];
        let before = seq(0, RowTokens::Known(vec![1; 2]), 0, &[3]);
        let plan = |seq| StepPlan { seqs: vec![before.clone(), seq], ..Default::default() };
        let batch = encode(&plan(good.clone())).unwrap();
        assert_eq!((batch.shifts, batch.shift(0)), (1, [1, 2, 3, 1, 3, 7]));
        assert_eq!(batch.longest, 20 + 7 + 3);
        for seq in bad {
            let refused = encode(&plan(seq.clone()));
            assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{seq:?}");
            let verified = SeqPlan { unverified: 0, ..seq };
            assert!(encode(&plan(verified.clone())).is_ok(), "{verified:?}");
        }
    }
}
