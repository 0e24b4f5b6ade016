//! Writes GGUF files, good and bad, part by part.

/// A file to write; every part can be made wrong.
#[derive(Clone)]
pub struct File {
    pub magic: [u8; 4],
    pub version: u32,
    /// What the header announces, if it differs from what follows.
    pub tensor_count: Option<u64>,
    pub key_count: Option<u64>,
    pub keys: Vec<Key>,
    pub tensors: Vec<Tensor>,
    /// The alignment of the data, whatever the metadata say.
    pub alignment: u64,
}

/// A key of the metadata.
#[derive(Clone)]
pub struct Key {
    pub name: Vec<u8>,
    /// If it differs from the name's.
    pub length: Option<u64>,
    pub kind: u32,
    /// The value as in the file.
    pub value: Vec<u8>,
}

/// A tensor.
#[derive(Clone)]
pub struct Tensor {
    pub name: Vec<u8>,
    /// Row length first.
    pub dimensions: Vec<u64>,
    pub kind: u32,
    /// If it differs from the position of the bytes.
    pub offset: Option<u64>,
    pub bytes: Vec<u8>,
}

/// A value of the metadata.
pub enum Entry<'a> {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(&'a str),
    Texts(Vec<&'a str>),
    F32s(Vec<f32>),
    I32s(Vec<i32>),
}

impl File {
    pub fn new() -> File {
        File {
            magic: *b"GGUF",
            version: 3,
            tensor_count: None,
            key_count: None,
            keys: Vec::new(),
            tensors: Vec::new(),
            alignment: 32,
        }
    }

    pub fn key(mut self, name: &str, entry: Entry) -> File {
        let (kind, value) = entry.encode();
        self.keys.push(Key { name: name.into(), length: None, kind, value });
        self
    }

    /// Replaces the value of an existing key.
    pub fn set(&mut self, name: &str, entry: Entry) {
        let key = self.keys.iter_mut().find(|key| key.name == name.as_bytes());
        let key = key.expect("the test's own key");
        (key.kind, key.value) = entry.encode();
    }

    pub fn tensor(mut self, name: &str, dimensions: &[u64], kind: u32, bytes: Vec<u8>) -> File {
        let (name, dimensions) = (name.into(), dimensions.to_vec());
        self.tensors.push(Tensor { name, dimensions, kind, offset: None, bytes });
        self
    }

    /// The bytes of the file, and the ends of keys and tensor descriptions.
    pub fn parts(&self) -> (Vec<u8>, usize, usize) {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.key_count.unwrap_or(self.keys.len() as u64).to_le_bytes());
        for key in &self.keys {
            out.extend(key.length.unwrap_or(key.name.len() as u64).to_le_bytes());
            out.extend(&key.name);
            out.extend(key.kind.to_le_bytes());
            out.extend(&key.value);
        }
        let keys_end = out.len();
        let mut data = Vec::new();
        for tensor in &self.tensors {
            let offset = data.len() as u64;
            out.extend((tensor.name.len() as u64).to_le_bytes());
            out.extend(&tensor.name);
            out.extend((tensor.dimensions.len() as u32).to_le_bytes());
            out.extend(tensor.dimensions.iter().flat_map(|n| n.to_le_bytes()));
            out.extend(tensor.kind.to_le_bytes());
            out.extend(tensor.offset.unwrap_or(offset).to_le_bytes());
            data.extend(&tensor.bytes);
            data.resize(data.len().next_multiple_of(self.alignment as usize), 0);
        }
        let header_end = out.len();
        out.resize(out.len().next_multiple_of(self.alignment as usize), 0);
        out.extend(data);
        (out, keys_end, header_end)
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.parts().0
    }
}

impl Entry<'_> {
    pub fn encode(&self) -> (u32, Vec<u8>) {
        match self {
            Entry::U32(n) => (4, n.to_le_bytes().into()),
            Entry::F32(x) => (6, x.to_le_bytes().into()),
            Entry::Bool(flag) => (7, vec![(*flag).into()]),
            Entry::Text(text) => (8, string(text)),
            Entry::Texts(list) => (9, array(8, list.iter().map(|text| string(text)))),
            Entry::F32s(list) => (9, array(6, list.iter().map(|x| x.to_le_bytes().into()))),
            Entry::I32s(list) => (9, array(5, list.iter().map(|n| n.to_le_bytes().into()))),
        }
    }
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn array(kind: u32, items: impl ExactSizeIterator<Item = Vec<u8>>) -> Vec<u8> {
    let start = [&kind.to_le_bytes()[..], &(items.len() as u64).to_le_bytes()].concat();
    start.into_iter().chain(items.flatten()).collect()
}

/// An array that announces any number of elements.
pub fn announced(kind: u32, count: u64, bytes: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &count.to_le_bytes(), bytes].concat()
}
