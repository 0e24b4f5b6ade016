//! OLMo 2: norms after the blocks instead of before; norms of queries and keys over a whole row.

use super::llama;
use crate::error::Result;
use crate::model::{ModelConfig, Norms, QkNorm, json::Fields};

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    llama::configure(fields, config)?;
    config.norms = Norms::After;
    config.qk_norm = Some(QkNorm::Row);
    Ok(())
}

/// The same for a GGUF file. OLMo 3, which also has windows, has the same name there.
pub(super) fn configure_gguf(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    let expected = "0: OLMo 3 is not supported";
    fields.require("attention.sliding_window", &[0.into()], expected)?;
    config.norms = Norms::After;
    config.qk_norm = Some(QkNorm::Row);
    Ok(())
}
