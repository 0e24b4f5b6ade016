//! The addresses of a model's files.
//!
//! Files are named as they are on disk: `my model.gguf`. An address has them percent-encoded, and its
//! query belongs to each file of the folder. What follows `#` is the query of a signed address: it is
//! sent with requests, but is no part of the address by which files are stored and named.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What JavaScript's `encodeURIComponent` encodes, except slashes.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// Bytes of `-00001-of-00002.gguf`, by which the parts of a model differ.
const PART_BYTES: usize = 20;

/// The address of a folder, or of a file in it.
#[derive(Clone, Debug)]
pub struct Address {
    /// Ends with a slash.
    folder: String,
    /// Begins with a question mark, or is empty.
    query: String,
    /// The query of a signed address; empty without one.
    signature: String,
    file: Option<Named>,
}

/// A file's name, and the same as the address has it.
#[derive(Clone, Debug)]
struct Named {
    plain: String,
    encoded: String,
}

impl Address {
    /// The address of a model: a GGUF file if its path ends so, otherwise a folder.
    pub fn new(address: &str) -> Address {
        let mut at = Address::of_file(address);
        let is_folder = |file: &mut Named| !file.plain.to_ascii_lowercase().ends_with(".gguf");
        if let Some(Named { encoded, .. }) = at.file.take_if(is_folder) {
            at.folder += &format!("{encoded}/");
        }
        at
    }

    /// The address of a file.
    pub fn of_file(address: &str) -> Address {
        let (path, query, signature) = split(address);
        let (folder, file) = path.split_at(path.rfind('/').map_or(0, |slash| slash + 1));
        let file = Some(file).filter(|file| !file.is_empty());
        Address {
            folder: folder.into(),
            query: query.into(),
            signature: signature.into(),
            file: file.map(|file| Named { plain: decoded(file), encoded: file.into() }),
        }
    }

    /// The address of its folder.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// The name of the file that it leads to.
    pub fn file(&self) -> Option<&str> {
        self.file.as_ref().map(|file| &file.plain[..])
    }

    /// The address of a file in its folder, by which it is stored.
    pub fn of(&self, file: &str) -> String {
        format!("{}{}{}", self.folder, self.encoded(file), self.query)
    }

    /// The same with the signature, for requests.
    pub fn signed(&self, file: &str) -> String {
        let mark = match (&self.query[..], &self.signature[..]) {
            (_, "") => "",
            ("", _) => "?",
            _ => "&",
        };
        format!("{}{mark}{}", self.of(file), self.signature)
    }

    /// The same for people.
    pub fn readable(&self, file: &str) -> String {
        format!("{}{file}{}", decoded(&self.folder), self.query)
    }

    /// A file's name as in an address. A server may insist on how its own address is encoded: the other
    /// parts of a model are written like the first.
    fn encoded(&self, file: &str) -> String {
        if let Some(Named { plain, encoded }) = &self.file {
            let differ = if file == plain { 0 } else { PART_BYTES };
            let stems = [file, plain, encoded]
                .map(|name| name.split_at_checked(name.len().wrapping_sub(differ)));
            if let [Some((stem, part)), Some((same, _)), Some((encoded, _))] = stems
                && stem == same
            {
                return format!("{encoded}{part}");
            }
        }
        utf8_percent_encode(file, ENCODED).to_string()
    }
}

/// An address without the query by which it is signed.
pub fn unsigned(address: &str) -> &str {
    address.split_once('#').map_or(address, |(unsigned, _)| unsigned)
}

/// Path, query and signature.
fn split(address: &str) -> (&str, &str, &str) {
    let (address, signature) = address.split_once('#').unwrap_or((address, ""));
    let (path, query) = address.split_at(address.find('?').unwrap_or(address.len()));
    (path, query, signature)
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of an address: which file is asked for, by which address, and how it is stored and named.
    const ADDRESSES: [[&str; 5]; 14] = [
        ["https://a.example/m", "config.json", "https://a.example/m/config.json", "", ""],
        [
            "https://a.example/m/",
            "draft/config.json",
            "https://a.example/m/draft/config.json",
            "",
            "",
        ],
        ["m/", "config.json", "m/config.json", "", ""],
        ["m.gguf", "m.gguf", "m.gguf", "", ""],
        [
            "https://a.example/m/?v=2",
            "config.json",
            "https://a.example/m/config.json?v=2",
            "https://a.example/m/config.json?v=2",
            "https://a.example/m/config.json?v=2",
        ],
        [
            "https://a.example/m/#se=2026&sig=a%2Fb",
            "config.json",
            "https://a.example/m/config.json?se=2026&sig=a%2Fb",
            "https://a.example/m/config.json",
            "https://a.example/m/config.json",
        ],
        [
            "https://a.example/m/?v=2#sig=a",
            "a 1.safetensors",
            "https://a.example/m/a%201.safetensors?v=2&sig=a",
            "https://a.example/m/a%201.safetensors?v=2",
            "https://a.example/m/a 1.safetensors?v=2",
        ],
        [
            "https://a.example/m.GGUF?download=true",
            "m.GGUF",
            "https://a.example/m.GGUF?download=true",
            "",
            "",
        ],
        [
            "https://a.example/m-00001-of-00002.gguf?v=2#sig=a",
            "m-00002-of-00002.gguf",
            "https://a.example/m-00002-of-00002.gguf?v=2&sig=a",
            "https://a.example/m-00002-of-00002.gguf?v=2",
            "https://a.example/m-00002-of-00002.gguf?v=2",
        ],
        [
            "https://a.example/b%20+%2B-00001-of-00002.gguf",
            "b ++-00002-of-00002.gguf",
            "https://a.example/b%20+%2B-00002-of-00002.gguf",
            "https://a.example/b%20+%2B-00002-of-00002.gguf",
            "https://a.example/b ++-00002-of-00002.gguf",
        ],
        [
            "https://a.example/%E6%A8%A1/100%25%23%3F.gguf",
            "100%#?.gguf",
            "https://a.example/%E6%A8%A1/100%25%23%3F.gguf",
            "https://a.example/%E6%A8%A1/100%25%23%3F.gguf",
            "https://a.example/模/100%#?.gguf",
        ],
        [
            "https://a.example/m/",
            "a+b %é#?.safetensors",
            "https://a.example/m/a%2Bb%20%25%C3%A9%23%3F.safetensors",
            "https://a.example/m/a%2Bb%20%25%C3%A9%23%3F.safetensors",
            "https://a.example/m/a+b %é#?.safetensors",
        ],
        [
            "https://a.example/m.gguf",
            "é.json",
            "https://a.example/%C3%A9.json",
            "https://a.example/%C3%A9.json",
            "https://a.example/é.json",
        ],
        [
            "local:0123/my%20model%3F.gguf",
            "my model?.gguf",
            "local:0123/my%20model%3F.gguf",
            "local:0123/my%20model%3F.gguf",
            "local:0123/my model?.gguf",
        ],
    ];

    #[test]
    fn names_are_encoded_once_and_queries_belong_to_each_file() {
        for [address, file, asked, stored, named] in ADDRESSES {
            let at = Address::new(address);
            let [stored, named] =
                [stored, named].map(|text| if text.is_empty() { asked } else { text });
            assert_eq!(at.signed(file), asked, "{address}");
            assert_eq!(at.of(file), stored, "{address}");
            assert_eq!(at.readable(file), named, "{address}");
            let is_gguf = unsigned(address).to_lowercase().contains(".gguf");
            assert_eq!(at.file().is_some(), is_gguf, "{address}");
        }
        let first = Address::new("https://a.example/b%20c.gguf?v=2#sig=a");
        assert_eq!(first.file(), Some("b c.gguf"));
        assert_eq!(first.folder(), "https://a.example/");
        let list = Address::of_file("https://a.example/api/tree/refs%2Fpr%2F3");
        let name = list.file().unwrap();
        assert_eq!(
            (name, &list.signed(name)[..]),
            ("refs/pr/3", "https://a.example/api/tree/refs%2Fpr%2F3")
        );
    }
}
