//! Whether a model can be loaded, from its small files and headers.

use super::{LoadOptions, Opened};
use crate::{
    Result,
    weights::{Source, Within},
};

/// What a load of a model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Bytes of the weights in memory, the drafter's included.
    pub weight_bytes: u64,
    /// Bytes of the KV cache, unless the device's binding limit makes it smaller.
    pub kv_bytes: u64,
    /// Bytes of the weights' files.
    pub file_bytes: u64,
}

/// Begins to load a model, as [`super::model`] does, and stops before the weights.
///
/// Of a folder's tokenizer, which may be large, it only asks whether it is there.
///
/// # Errors
/// Those of the load, as far as configuration and headers show them.
pub async fn inspect<S: Source>(
    source: &S,
    drafter: Option<&S>,
    options: &LoadOptions,
) -> Result<Inspection> {
    let root = Within::all(source);
    let opened = Opened::open(&root).await?;
    opened.expect_text().await?;
    let folder = match drafter {
        Some(drafter) => Within::all(drafter),
        None => opened.draft_folder().await,
    };
    let draft = opened.draft(&folder, options).await;
    let prepared = opened.prepare(options)?.with_draft(draft)?;
    Ok(Inspection {
        weight_bytes: prepared.bytes() - prepared.kv_bytes,
        kv_bytes: prepared.kv_bytes,
        file_bytes: prepared.file_bytes(),
    })
}
