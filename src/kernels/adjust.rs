//! Per-slot tables that adjust logits: tallies, bias, masks.

use std::borrow::Cow;

use super::{
    Batch,
    batch::{DRAFTS_AT, MASKED, TALLIED},
};
use crate::{
    layout::row_stride,
    step::{Adjust, MAX_BIAS, MAX_DRAFTS, Mask, StepPlan},
};

/// Bits of a tally: how often the token was sampled; 1 + index of its bias, or 0; whether it is in the
/// prompt.
pub const COUNT: u32 = (1 << BIAS_AT) - 1;
pub const BIAS_AT: u32 = 20;
pub const IN_PROMPT: u32 = 1 << 31;

/// The per-slot tables; sizes in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// One tally per token: `[slots][row_stride(vocab)]`. Dense: it needs no search, and no more memory
    /// than one row of logits per slot.
    Tallies,
    /// f32 `[slots][MAX_BIAS]`
    Bias,
    /// One bit per token, for each sample that a slot can have in a step: `[slots][1 +
    /// MAX_DRAFTS][row_stride(vocab) / 32]`.
    Masks,
}

/// New words of a slot in one of the tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Upload {
    pub table: Table,
    /// Index of the first word.
    pub at: usize,
    pub words: Vec<u32>,
}

/// The tables in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTables {
    pub tallies: Vec<u32>,
    pub bias: Vec<u32>,
    pub masks: Vec<u32>,
}

impl Table {
    /// Words per slot.
    pub const fn stride(self, vocab: usize) -> usize {
        match self {
            Table::Tallies => row_stride(vocab),
            Table::Bias => MAX_BIAS,
            Table::Masks => (1 + MAX_DRAFTS) * mask_stride(vocab),
        }
    }
}

/// Words of one mask.
const fn mask_stride(vocab: usize) -> usize {
    row_stride(vocab) / 32
}

impl Upload {
    /// The changes that a valid plan makes in the tables before its rows are computed.
    pub fn of(plan: &StepPlan, vocab: usize) -> Vec<Upload> {
        let mut uploads = Vec::new();
        for seq in &plan.seqs {
            let mut add = |table: Table, offset: usize, words| {
                let at = seq.slot as usize * table.stride(vocab) + offset;
                uploads.push(Upload { table, at, words });
            };
            if let Some(adjust) = &seq.adjust {
                add(Table::Tallies, 0, tallies(adjust, vocab));
                if !adjust.bias.is_empty() {
                    let values = adjust.bias.iter().map(|(_, value)| value.to_bits());
                    add(Table::Bias, 0, values.collect());
                }
            }
            for (place, mask) in seq.masks().enumerate() {
                if let Mask::New(words) = mask {
                    add(Table::Masks, place * mask_stride(vocab), words.clone());
                }
            }
        }
        uploads
    }
}

fn tallies(adjust: &Adjust, vocab: usize) -> Vec<u32> {
    let mut tallies = vec![0; row_stride(vocab)];
    let (prompt, output) = adjust.tokens.split_at(adjust.prompt);
    for token in prompt {
        tallies[*token as usize] |= IN_PROMPT;
    }
    for token in output {
        count(&mut tallies[*token as usize]);
    }
    for (place, (token, _)) in (1..).zip(&adjust.bias) {
        let tally = &mut tallies[*token as usize];
        *tally = *tally & (IN_PROMPT | COUNT) | place << BIAS_AT;
    }
    tallies
}

/// Counts a sampled token; a full count stays.
fn count(tally: &mut u32) {
    *tally += u32::from(*tally & COUNT < COUNT);
}

impl HostTables {
    /// Empty tables.
    pub fn new(vocab: usize, slots: usize) -> HostTables {
        let empty = |table: Table| vec![0; slots * table.stride(vocab)];
        HostTables {
            tallies: empty(Table::Tallies),
            bias: empty(Table::Bias),
            masks: empty(Table::Masks),
        }
    }

    /// Applies an upload.
    pub fn write(&mut self, upload: &Upload) {
        let table = match upload.table {
            Table::Tallies => &mut self.tallies,
            Table::Bias => &mut self.bias,
            Table::Masks => &mut self.masks,
        };
        table[upload.at..][..upload.words.len()].copy_from_slice(&upload.words);
    }

    /// The logits that sample `i` uses: −∞ for masked tokens; logits that are not finite stay
    /// unchanged.
    pub(super) fn adjusted<'a>(
        &self,
        vocab: usize,
        batch: &Batch,
        i: usize,
        last_samples: &[u32],
        logits: &'a [f32],
    ) -> Cow<'a, [f32]> {
        let sample = batch.sample(i);
        let (slot, flags) = (sample[1] as usize, sample[9]);
        let drafts = (flags >> DRAFTS_AT) as usize;
        let [presence, frequency, repetition] = [10, 11, 12].map(|i| f32::from_bits(sample[i]));
        let mut adjusted = Cow::Borrowed(logits);
        if flags & TALLIED != 0 {
            let at = slot * Table::Tallies.stride(vocab);
            let mut tallies = self.tallies[at..][..vocab].to_vec();
            let row = sample[13] as usize;
            for draft in row + 1 - drafts..=row {
                count(&mut tallies[batch.token(draft, last_samples) as usize]);
            }
            for (logit, tally) in adjusted.to_mut().iter_mut().zip(&tallies) {
                if *tally == 0 || !logit.is_finite() {
                    continue;
                }
                let place = (tally & !IN_PROMPT) >> BIAS_AT;
                if place > 0 {
                    *logit += f32::from_bits(self.bias[slot * MAX_BIAS + place as usize - 1]);
                }
                let sampled = tally & COUNT;
                if sampled > 0 || tally & IN_PROMPT != 0 {
                    *logit = if *logit > 0.0 { *logit / repetition } else { *logit * repetition };
                }
                *logit -= frequency * sampled as f32;
                *logit -= if sampled > 0 { presence } else { 0.0 };
                *logit = logit.clamp(-3.4e38, 3.4e38);
            }
        }
        if flags & MASKED != 0 {
            let at = slot * Table::Masks.stride(vocab) + drafts * mask_stride(vocab);
            let mask = &self.masks[at..];
            for (token, logit) in adjusted.to_mut().iter_mut().enumerate() {
                if logit.is_finite() && mask[token / 32] >> (token % 32) & 1 == 0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        adjusted
    }

    /// Counts an accepted token of a sample with these words.
    pub(super) fn count_sampled(&mut self, vocab: usize, sample: &[u32], token: u32) {
        if sample[9] & TALLIED != 0 {
            let row = sample[1] as usize * Table::Tallies.stride(vocab);
            count(&mut self.tallies[row + token as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::SeqPlan;

    #[test]
    fn tallies_count_the_output_and_mark_the_prompt_and_the_bias() {
        let adjust =
            Adjust { tokens: vec![3, 5, 3, 7, 7, 3], prompt: 3, bias: vec![(7, 1.5), (0, -2.0)] };
        let mask = Mask::New(vec![0b1010]);
        let seq = SeqPlan { slot: 2, adjust: Some(adjust.into()), mask, ..Default::default() };
        let uploads = Upload::of(&StepPlan { seqs: vec![seq], ..Default::default() }, 9);
        let mut tallies = vec![0; 32];
        tallies[0] = 2 << BIAS_AT;
        tallies[3] = IN_PROMPT | 1;
        tallies[5] = IN_PROMPT;
        tallies[7] = 1 << BIAS_AT | 2;
        let bias = vec![1.5f32.to_bits(), (-2.0f32).to_bits()];
        assert_eq!(
            uploads,
            [
                Upload { table: Table::Tallies, at: 64, words: tallies },
                Upload { table: Table::Bias, at: 2 * MAX_BIAS, words: bias },
                Upload { table: Table::Masks, at: 16, words: vec![0b1010] },
            ]
        );
    }

    #[test]
    fn a_full_count_stays() {
        let mut tally = IN_PROMPT | 5 << BIAS_AT | (COUNT - 1);
        for _ in 0..3 {
            count(&mut tally);
            assert_eq!(tally, IN_PROMPT | 5 << BIAS_AT | COUNT);
        }
    }
}
