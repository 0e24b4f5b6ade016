//! What rows see of their sequence, in blocks.

use std::ops::Range;

use crate::step::{BLOCK_SIZE, Window};

/// A [`Window`] in blocks, or the full view.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// So many first blocks are always seen: all of them without a window.
    pub sinks: usize,
    /// So many first blocks can be shared between sequences.
    pub shareable: usize,
    /// Positions up to a row's own that it sees.
    tokens: usize,
}

impl View {
    pub fn new(window: Option<Window>) -> View {
        let Some(Window { sinks, tokens }) = window else {
            return View { sinks: usize::MAX, shareable: usize::MAX, tokens: usize::MAX };
        };
        // Beyond sinks and window, a stream's positions are relative to what it still holds.
        let streaming = sinks > 0;
        View {
            sinks: sinks.div_ceil(BLOCK_SIZE),
            shareable: if streaming { (sinks + tokens) / BLOCK_SIZE } else { usize::MAX },
            tokens,
        }
    }

    /// The blocks that no row at position `computed` or later sees.
    pub fn hidden(&self, computed: usize) -> Range<usize> {
        let first_seen = (computed + 1).saturating_sub(self.tokens) / BLOCK_SIZE;
        self.sinks..first_seen.max(self.sinks)
    }
}
