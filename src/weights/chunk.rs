//! A run of file bytes where the platform left them: host memory natively, JavaScript's on the web.

use std::ops::Range;

#[cfg(not(target_arch = "wasm32"))]
type Bytes = std::sync::Arc<Vec<u8>>;
#[cfg(target_arch = "wasm32")]
type Bytes = std::rc::Rc<buffer::Buffer>;

/// Most bytes that [`Chunk::read`] has in wasm memory at a time.
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

    /// Shows the bytes to `reader`, in order, in one or more slices.
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
    /// Takes an array that nobody else will read: its memory is freed with the last chunk of it.
    pub(crate) fn owned(array: js_sys::Uint8Array) -> Chunk {
        let range = 0..array.length() as usize;
        Chunk { bytes: buffer::Buffer { array, is_owned: true }.into(), range }
    }

    /// A view of the bytes in JavaScript memory.
    pub fn as_js(&self) -> js_sys::Uint8Array {
        self.bytes.array.subarray(self.range.start as u32, self.range.end as u32)
    }

    /// Copies the bytes to `out`, which is as long as the chunk, in wasm memory.
    pub fn copy_to(&self, out: &mut [u8]) {
        self.as_js().copy_to(out);
    }

    /// Shows the bytes to `reader`, in order, in slices of a window of wasm memory.
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
        let range = 0..array.length() as usize;
        Chunk { bytes: buffer::Buffer { array, is_owned: false }.into(), range }
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
mod buffer {
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
        /// Its memory is freed when this is dropped: collectors are in no hurry, and files are large.
        pub is_owned: bool,
    }

    impl Drop for Buffer {
        fn drop(&mut self) {
            if self.is_owned {
                // Older browsers cannot, and collect it some day.
                let _ = self.array.buffer().unchecked_into::<ArrayBuffer>().transfer(0);
            }
        }
    }
}
