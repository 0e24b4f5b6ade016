//! The contents of KV blocks in host memory.

use crate::{Error, Result, step::HostMemory};

#[cfg(not(target_arch = "wasm32"))]
type Content = Vec<u32>;
/// On the web they are in JavaScript memory: that of the module never shrinks.
#[cfg(target_arch = "wasm32")]
type Content = js_sys::Uint32Array;

/// Contents of KV blocks: all places of a block, one after the other.
pub struct HostBlocks(Vec<Option<Content>>); // [host blocks]

impl HostBlocks {
    /// Host blocks without contents.
    pub fn new(memory: HostMemory) -> HostBlocks {
        HostBlocks((0..memory.blocks).map(|_| None).collect())
    }

    /// Keeps a content in a host block. Returns false if there is no memory for it.
    #[must_use]
    pub fn store(&mut self, block: u32, words: &[u32]) -> bool {
        let place = &mut self.0[block as usize];
        if place.is_none() {
            *place = allocate(words.len());
        }
        let Some(content) = place else { return false };
        copy(words, content);
        true
    }

    /// The content of a host block.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if it has none: rows would read what was in the KV block before.
    pub fn load(&self, block: u32) -> Result<Vec<u32>> {
        let content = self.0.get(block as usize).and_then(Option::as_ref);
        content.map(|content| content.to_vec()).ok_or_else(|| Error::InvalidRequest {
            param: "step".into(),
            message: format!("host block {block}, which is to be restored, was never saved"),
        })
    }
}

#[cfg(not(target_arch = "wasm32"))]
fn allocate(words: usize) -> Option<Content> {
    let mut content = Vec::new();
    content.try_reserve_exact(words).ok()?;
    content.resize(words, 0);
    Some(content)
}

#[cfg(not(target_arch = "wasm32"))]
fn copy(words: &[u32], content: &mut Content) {
    content.copy_from_slice(words);
}

#[cfg(target_arch = "wasm32")]
fn allocate(words: usize) -> Option<Content> {
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen]
    extern "C" {
        #[wasm_bindgen(js_name = Uint32Array)]
        type Words;
        /// Throws where there is no memory.
        #[wasm_bindgen(constructor, catch, js_class = "Uint32Array")]
        fn new(length: u32) -> Result<Words, JsValue>;
    }
    Words::new(words as u32).ok().map(|words| words.unchecked_into())
}

#[cfg(target_arch = "wasm32")]
fn copy(words: &[u32], content: &mut Content) {
    content.copy_from(words);
}
