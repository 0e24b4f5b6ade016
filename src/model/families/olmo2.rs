//! OLMo 2: norms after the blocks instead of before, and over all queries and all keys of a row.

use super::llama;
use crate::error::Result;
use crate::model::{ModelConfig, Norms, QkNorm, json::Fields};

pub(super) fn configure(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    llama::configure(fields, config)?;
    config.norms = Norms::After;
    config.qk_norm = Some(QkNorm::Row);
    Ok(())
}

/// The same in a GGUF file. OLMo 3, which has windows too, goes by the same name.
pub(super) fn configure_gguf(fields: &Fields, config: &mut ModelConfig) -> Result<()> {
    let expected = "0: OLMo 3 is not supported";
    fields.require("attention.sliding_window", &[0.into()], expected)?;
    config.norms = Norms::After;
    config.qk_norm = Some(QkNorm::Row);
    Ok(())
}
