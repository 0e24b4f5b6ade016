//! Samples draft tokens from a drafter's logits.

use minijinja::context;

use super::{
    Batch, Bindings, Kernel, Tuning,
    batch::{DRAFTS_AT, SLOT_TOKENS},
    noise::{gumbel, philox},
};
use crate::{gpu::Shader, layout::row_stride};

/// Samples one draft per sample of the step: at the sample's temperature, with the same noise that the
/// target will use in its place.
///
/// The shared noise makes both sample the same token more often than independent noise would; see
/// [`super::Accept`]. Filters, penalties and masks are left to the target.
///
/// Bindings: step, logits `[logit rows][row_stride(vocab)]`, with `mapped` ids `[vocab]` u32, last
/// samples (out): the draft goes to the place in its slot given by the sample's flags from bit
/// [`DRAFTS_AT`] on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraftSample {
    /// Tokens in the drafter's vocabulary.
    pub vocab: usize,
    /// Their ids differ from the target's.
    pub mapped: bool,
}

impl DraftSample {
    /// CPU reference.
    pub fn reference(
        &self,
        batch: &Batch,
        logits: &[f32],
        ids: Option<&[u32]>,
        last_samples: &mut [u32],
    ) {
        for i in 0..batch.samples as usize {
            let &[row, slot, position, temperature, .., low, high, flags, _, _, _, _] =
                batch.sample(i)
            else {
                unreachable!("a sample has SAMPLE_WORDS words");
            };
            let temperature = f32::from_bits(temperature);
            let scale = if temperature > 0.0 { 1.0 / temperature.max(1e-6) } else { 1.0 };
            let row = &logits[row as usize * row_stride(self.vocab)..][..self.vocab];
            let mut best = (f32::NEG_INFINITY, 0);
            for (token, logit) in row.iter().enumerate().filter(|(_, logit)| logit.is_finite()) {
                let id = ids.map_or(token as u32, |ids| ids[token]);
                let noise = || philox([position, id / 4, 0, 0], [low, high])[id as usize % 4];
                let noise = if temperature > 0.0 { gumbel(noise()) } else { 0.0 };
                let score = logit * scale + noise;
                if score > best.0 {
                    best = (score, id);
                }
            }
            last_samples[(slot * SLOT_TOKENS + (flags >> DRAFTS_AT)) as usize] = best.1;
        }
    }
}

impl Kernel for DraftSample {
    fn shader(&self, tuning: Tuning) -> Shader {
        let bindings = Bindings::read(&["step", "logits"]).and("ids", self.mapped);
        let bindings = bindings.write("last_samples");
        let values = context! {
            at => bindings.numbers(),
            vocab => self.vocab,
            stride => row_stride(self.vocab),
            // Not fewer than 32, see `Sample`.
            threads => if tuning.barriers { 256 } else { 32 },
            slot_tokens => SLOT_TOKENS,
            drafts_at => DRAFTS_AT,
            mapped => self.mapped,
        };
        Shader::render("draft_sample", values, bindings.access())
    }

    fn grid(&self, _: Tuning, batch: &Batch) -> [u32; 3] {
        [batch.samples, 1, 1]
    }
}
