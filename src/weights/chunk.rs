//! File bytes in the platform's own memory: host memory natively, JavaScript memory on the web.

use std::ops::Range;

#[cfg(not(target_arch = "wasm32"))]
type Bytes = std::sync::Arc<Vec<u8>>;
#[cfg(target_arch = "wasm32")]
type Bytes = std::rc::Rc<buffer::Buffer>;

/// Most bytes that [`Chunk::read`] copies to wasm memory at a time.
#[cfg(target_arch = "wasm32")]
const WINDOW_BYTES: usize = 64 << 10;

/// Bytes of a file, cheap to slice.
///
/// On the web they stay in a `Uint8Array` and never enter wasm memory unless
/// [`Chunk::copy_to`] asks for them.
#[derive(Clone, Debug)]
pub struct Chunk {
    bytes: Bytes,
    range: Range<usize>,
}

impl Chunk {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns true if and only if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Returns the bytes of `range`, which lies within `0..len`, without copying them.
    pub fn slice(&self, range: Range<usize>) -> Chunk {
        assert!(range.start <= range.end && range.end <= self.len(), "slice outside the chunk");
        let start = self.range.start;
        Chunk { bytes: self.bytes.clone(), range: start + range.start..start + range.end }
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Chunk {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }

    /// Copies the bytes to `out`, which is as long as the chunk.
    pub fn copy_to(&self, out: &mut [u8]) {
        out.copy_from_slice(self.as_slice());
    }

    /// Calls `reader` with the bytes, in order, in one or more slices.
    pub fn read(&self, mut reader: impl FnMut(&[u8])) {
        reader(self.as_slice());
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl From<Vec<u8>> for Chunk {
    fn from(bytes: Vec<u8>) -> Chunk {
        let range = 0..bytes.len();
        Chunk { bytes: bytes.into(), range }
    }
}

#[cfg(target_arch = "wasm32")]
impl Chunk {
    /// Takes an array that nobody else reads: its memory is freed with its last chunk.
    pub(crate) fn owned(array: js_sys::Uint8Array) -> Chunk {
        Chunk::of(array, buffer::Owner::Chunks)
    }

    /// Takes an array of a pool; it returns to the pool with its last chunk.
    pub(crate) fn pooled(array: js_sys::Uint8Array, pool: &std::rc::Rc<Pool>) -> Chunk {
        if array.length() == Pool::BYTES {
            return Chunk::of(array, buffer::Owner::Pool(pool.clone()));
        }
        // Otherwise it would keep more memory than it has bytes.
        let own = Chunk::owned(array.slice(0, array.length()));
        pool.give(&array);
        own
    }

    fn of(array: js_sys::Uint8Array, owner: buffer::Owner) -> Chunk {
        let range = 0..array.length() as usize;
        Chunk { bytes: buffer::Buffer { array, owner }.into(), range }
    }

    /// A view of the bytes in JavaScript memory.
    pub fn as_js(&self) -> js_sys::Uint8Array {
        self.bytes.array.subarray(self.range.start as u32, self.range.end as u32)
    }

    /// Copies the bytes to `out`, which is as long as the chunk, in wasm memory.
    pub fn copy_to(&self, out: &mut [u8]) {
        self.as_js().copy_to(out);
    }

    /// Calls `reader` with the bytes, in order, through a buffer in wasm memory.
    pub fn read(&self, mut reader: impl FnMut(&[u8])) {
        let mut window = vec![0; WINDOW_BYTES.min(self.len())];
        for start in (0..self.len()).step_by(WINDOW_BYTES) {
            let slice = self.slice(start..self.len().min(start + WINDOW_BYTES));
            let window = &mut window[..slice.len()];
            slice.copy_to(window);
            reader(window);
        }
    }
}

#[cfg(target_arch = "wasm32")]
impl From<js_sys::Uint8Array> for Chunk {
    fn from(array: js_sys::Uint8Array) -> Chunk {
        Chunk::of(array, buffer::Owner::Others)
    }
}

/// Copies the bytes to JavaScript memory.
#[cfg(target_arch = "wasm32")]
impl From<Vec<u8>> for Chunk {
    fn from(bytes: Vec<u8>) -> Chunk {
        Chunk::from(js_sys::Uint8Array::from(&bytes[..]))
    }
}

#[cfg(target_arch = "wasm32")]
pub(crate) use buffer::Pool;

#[cfg(target_arch = "wasm32")]
mod buffer {
    use std::{cell::RefCell, rc::Rc};

    use js_sys::Uint8Array;
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen]
    extern "C" {
        type ArrayBuffer;
        #[wasm_bindgen(method, catch)]
        fn transfer(this: &ArrayBuffer, length: u32) -> Result<ArrayBuffer, JsValue>;
    }

    /// Bytes in JavaScript memory.
    #[derive(Debug)]
    pub struct Buffer {
        pub array: Uint8Array,
        pub owner: Owner,
    }

    /// Owner of a buffer's memory.
    #[derive(Debug)]
    pub enum Owner {
        /// Others, who may read it.
        Others,
        /// The chunks of the buffer.
        Chunks,
        Pool(Rc<Pool>),
    }

    /// Memory that is reused for reading files: new memory has to be cleared first, which takes about
    /// as long as reading into it.
    #[derive(Debug, Default)]
    pub struct Pool {
        /// Arrays of [`Pool::BYTES`].
        free: RefCell<Vec<Uint8Array>>,
    }

    impl Pool {
        /// Bytes of an array.
        pub const BYTES: u32 = 1 << 20;

        /// An array to read into.
        pub fn take(&self) -> Uint8Array {
            let free = self.free.borrow_mut().pop();
            free.unwrap_or_else(|| Uint8Array::new_with_length(Pool::BYTES))
        }

        /// Takes an array back, or the part of it that was filled.
        pub fn give(&self, array: &Uint8Array) {
            self.free.borrow_mut().push(Uint8Array::new(&array.buffer()));
        }
    }

    impl Drop for Buffer {
        fn drop(&mut self) {
            match &self.owner {
                Owner::Others => {}
                Owner::Chunks => free(&self.array),
                Owner::Pool(pool) => pool.give(&self.array),
            }
        }
    }

    impl Drop for Pool {
        fn drop(&mut self) {
            self.free.take().iter().for_each(free);
        }
    }

    /// Frees an array's memory at once: garbage collection may come late, and files are large.
    fn free(array: &Uint8Array) {
        // Older browsers do not support this; there it is collected later.
        let _ = array.buffer().unchecked_into::<ArrayBuffer>().transfer(0);
    }
}
