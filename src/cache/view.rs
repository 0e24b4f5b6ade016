//! What a group of layers attends to, in blocks.

use std::ops::Range;

use crate::step::{BLOCK_SIZE, Window};

/// A [`Window`] in blocks, or full attention.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The first blocks that are always visible: all of them without a window.
    pub sinks: usize,
    /// Positions that a row attends to, its own included.
    tokens: usize,
}

impl View {
    pub fn new(window: Option<Window>) -> View {
        let Some(Window { sinks, tokens }) = window else {
            return View { sinks: usize::MAX, tokens: usize::MAX };
        };
        View { sinks: sinks.div_ceil(BLOCK_SIZE), tokens }
    }

    /// The blocks that no row at position `computed` or later attends to.
    pub fn hidden(&self, computed: usize) -> Range<usize> {
        let first_seen = (computed + 1).saturating_sub(self.tokens) / BLOCK_SIZE;
        self.sinks..first_seen.max(self.sinks)
    }
}
