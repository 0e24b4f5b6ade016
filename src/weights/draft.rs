//! Loads a draft head from its folder; everything is checked before anything is allocated.

use super::checkpoint::{Checkpoint, Progress};
use super::header::Dtype;
use super::header::{Elements, TensorInfo};
use super::plan::{LoadPlan, Quantise};
use super::sink::WeightSink;
use super::source::Source;
use crate::error::{Error, Result};
use crate::model::{DraftConfig, DraftFamily, ModelConfig, Quantization};
use std::ops::ControlFlow;

/// Configuration and vocabulary of a draft head; its weights are separate.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    pub config: DraftConfig,
    /// The target's id of each token in the head's vocabulary, `[config.vocab]`; `None` if they are the
    /// same.
    pub vocabulary: Option<Vec<u32>>,
}

/// A draft head whose files have been checked; nothing is allocated yet.
pub struct PreparedDraft<'a, S: Source> {
    pub draft: Draft,
    checkpoint: Checkpoint<'a, S>,
    plan: LoadPlan,
}

/// Reads the configuration, the headers and the vocabulary of a draft head for `target`.
///
/// The folder is that of the head, or the target's own if the head is inside.
///
/// # Errors
/// Errors in the files, as far as headers show them; a head for another target.
pub async fn open_draft<'a, S: Source>(
    source: &'a S,
    target: &ModelConfig,
    quantise: &Quantise,
) -> Result<PreparedDraft<'a, S>> {
    let json = source.read("config.json").await?;
    let config = DraftConfig::from_json(&json, target)?;
    let quantization = Quantization::from_json(&json)?;
    let mut checkpoint = Checkpoint::open_draft(source).await?;
    let names = checkpoint.tensors().map(|tensor| &tensor.name[..]);
    let config = config.with_tensors(names)?;
    let plan = checkpoint.plan_params(&config.params(), quantization, quantise)?;
    if config.family != DraftFamily::Mtp {
        expect_all_used(&checkpoint, &plan)?;
    }
    let vocabulary = read_vocabulary(&mut checkpoint, &config).await?;
    Ok(PreparedDraft { draft: Draft { config, vocabulary }, checkpoint, plan })
}

impl<S: Source> PreparedDraft<'_, S> {
    /// Bytes that the weights will take.
    pub fn bytes(&self) -> u64 {
        self.plan.bytes()
    }

    /// Bytes of the files.
    pub fn file_bytes(&self) -> u64 {
        self.checkpoint.file_bytes()
    }

    /// Streams the weights into `sink`; see [`Checkpoint::load`].
    pub async fn load(
        self,
        sink: &mut impl WeightSink,
        on_progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Draft> {
        self.checkpoint.load(&self.plan, sink, on_progress).await?;
        Ok(self.draft)
    }
}

/// Refuses weights of a head that would stay unused: it would draft badly.
fn expect_all_used<S: Source>(checkpoint: &Checkpoint<S>, plan: &LoadPlan) -> Result<()> {
    // Copies of the target's weights, and values that can be computed.
    const IDLE: [&str; 4] = ["embed_tokens.weight", "rotary_emb.", "verifier_", "mask_hidden"];
    let is_part = |tensor: &TensorInfo| {
        let name = &tensor.name;
        (name.ends_with(".weight") || name.ends_with(".bias"))
            && !IDLE.iter().any(|idle| name.contains(idle))
    };
    let mut tensors = checkpoint.tensors().zip(plan.jobs.iter().flatten());
    match tensors.find(|(tensor, jobs)| jobs.is_empty() && is_part(tensor)) {
        None => Ok(()),
        Some((tensor, _)) => Err(Error::WrongTensor {
            name: tensor.name.clone(),
            found: "there".into(),
            expected: "absent: a head of this family, as config.json describes it, has none".into(),
        }),
    }
}

/// Reads the vocabulary of the head, and checks that each token is a different one of the target's.
async fn read_vocabulary<S: Source>(
    checkpoint: &mut Checkpoint<'_, S>,
    config: &DraftConfig,
) -> Result<Option<Vec<u32>>> {
    let name = config.vocabulary();
    let names = [&name[..], "d2t"];
    let found = names.iter().find_map(|name| checkpoint.tensors().find(|info| info.name == *name));
    let Some(info) = found.cloned() else {
        return match config.vocab == config.target_vocab {
            true => Ok(None),
            false => Err(Error::MissingTensor { name }),
        };
    };
    let wrong = |found: String, expected: String| Error::WrongTensor {
        name: info.name.clone(),
        found,
        expected,
    };
    let width = match info.elements {
        Elements::Plain(Dtype::I64) => 8,
        Elements::Plain(Dtype::I32) => 4,
        _ => 0,
    };
    if width == 0 || info.shape != [config.vocab as u64] {
        let found = format!("{} {:?}", info.elements, info.shape);
        return Err(wrong(found, format!("I64 or I32 [{}]", config.vocab)));
    }
    let bytes = checkpoint.read_tensor(&info.name).await?;
    let offsets = bytes.chunks_exact(width).map(|bytes| match bytes.try_into() {
        Ok(bytes) => i64::from_le_bytes(bytes),
        Err(_) => bytes.try_into().map_or(0, |bytes| i32::from_le_bytes(bytes).into()),
    });
    let mut is_taken = vec![false; config.target_vocab];
    let ids = offsets.enumerate().map(|(token, offset)| {
        let id = offset.saturating_add(token as i64);
        let place = usize::try_from(id).ok().and_then(|id| is_taken.get_mut(id));
        match place.map(|is_taken| std::mem::replace(is_taken, true)) {
            Some(false) => Ok(id as u32),
            Some(true) => Err(wrong(
                format!("token {id} of the target twice"),
                "each token once: offsets from the head's ids to the target's".into(),
            )),
            None => Err(wrong(
                format!("token {id} of the target for token {token}"),
                format!("tokens below {}, as offsets from the head's", config.target_vocab),
            )),
        }
    });
    ids.collect::<Result<_>>().map(Some)
}
