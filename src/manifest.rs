//! Expected digests of a model's files.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Chunk size of files in manifests and in the local store; the last chunk may be shorter.
pub const CHUNK_BYTES: u64 = 32 << 20;

/// A digest of 32 bytes; its text form is hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest(pub [u8; 32]);

/// The digests of a model's files, by file name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub files: BTreeMap<String, FileManifest>,
    /// Whether the model may have files that are not listed; these are trusted on first use.
    #[serde(skip)]
    pub is_partial: bool,
}

/// The digests of one file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileManifest {
    /// SHA-256 of the file.
    pub sha256: Digest,
    /// Length of the file, if known.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// BLAKE3 of each chunk of [`CHUNK_BYTES`], so that a damaged chunk is detected as soon as it is
    /// complete. May be empty.
    #[serde(default)]
    pub chunks: Vec<Digest>,
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Digest, String> {
        let wrong = || format!("found {text:?}, expected 64 hexadecimal digits");
        let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
        let mut digest = [0; 32];
        if text.len() != 64 {
            return Err(wrong());
        }
        for (byte, digits) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
            let (high, low) = digit(digits[0]).zip(digit(digits[1])).ok_or_else(wrong)?;
            *byte = 16 * high + low;
        }
        Ok(Digest(digest))
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Digest, String> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn digests_are_hexadecimal_text() {
        let digest: Digest = ABC.parse().unwrap();
        assert_eq!(digest.0[..3], [0xba, 0x78, 0x16]);
        assert_eq!(digest.to_string(), ABC);
        assert_eq!(ABC.to_uppercase().parse(), Ok(digest));
        for wrong in ["", "ba78", &ABC[1..], &ABC.replace('b', "g"), &"é".repeat(32)] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
