//! Hugging Face's file list of a repository, with digests.

use serde::Deserialize;

use super::{
    address::Address,
    http::{HttpSource, Server},
    source::Source,
    store::{Record, Store},
};
use crate::{
    error::{Error, Result},
    manifest::{CHUNK_BYTES, Digest, FileManifest, Manifest},
};

const HUB: &str = "https://huggingface.co/";

/// The digests of large files beside those of a model, if the files are in a repository.
///
/// `hub`: address of the hub; Hugging Face by default.
///
/// A model that was loaded from there before needs no list: its files are known.
pub async fn listed<S: Server + Clone>(
    server: &S,
    hub: Option<&str>,
    address: &str,
    store: Option<&impl Store>,
) -> Option<Manifest> {
    let address = Address::new(address);
    let listing = listing(hub.unwrap_or(HUB), address.folder())?;
    if let Some(store) = store {
        let first = address.of(address.file().unwrap_or("config.json"));
        let record = Record::read(store, &first, CHUNK_BYTES).await;
        if record.is_some_and(|record| record.is_sealed) {
            return None;
        }
    }
    let list = Address::of_file(&listing);
    let name = list.file()?.to_owned();
    let json = HttpSource::at(server.clone(), list).read(&name).await.ok()?;
    parse(&json).ok()
}

/// The address of a repository's file list, if `folder` is like
/// `https://huggingface.co/owner/name/resolve/commit/`.
fn listing(hub: &str, folder: &str) -> Option<String> {
    let path = folder.strip_prefix(hub)?.trim_end_matches('/');
    let mut parts = path.split('/');
    let (owner, name) = (parts.next()?, parts.next()?);
    let first = parts.next().filter(|part| *part == "resolve").and(parts.next())?;
    let mut listing = format!("{hub}api/models/{owner}/{name}/tree/{first}");
    if first == "refs" {
        // Of a pull request, `refs/pr/3`: one segment of the list's address.
        listing += &format!("%2F{}%2F{}", parts.next()?, parts.next()?);
    }
    parts.for_each(|folder| listing += &format!("/{folder}"));
    Some(listing)
}

/// Parses such a list; files in Git LFS have a SHA-256.
fn parse(json: &[u8]) -> Result<Manifest> {
    #[derive(Deserialize)]
    struct Entry {
        path: String,
        lfs: Option<Lfs>,
    }
    #[derive(Deserialize)]
    struct Lfs {
        oid: Digest,
        size: u64,
    }
    let entries: Vec<Entry> = serde_json::from_slice(json).map_err(|error| Error::Malformed {
        what: "the list of the repository's files".into(),
        expected: "answer of Hugging Face".into(),
        found: error.to_string(),
    })?;
    let listed = entries.into_iter().filter_map(|Entry { path, lfs }| {
        let Lfs { oid, size } = lfs?;
        let file = path.rsplit('/').next()?.to_owned();
        Some((file, FileManifest { sha256: oid, bytes: Some(size), chunks: Vec::new() }))
    });
    Ok(Manifest { files: listed.collect(), is_partial: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_repositorys_list_has_the_digests_of_its_large_files() {
        let json = format!(
            r#"[{{"type": "file", "oid": "8a5c", "size": 661, "path": "config.json"}},
            {{"type": "directory", "oid": "77", "size": 0, "path": "onnx"}},
            {{"type": "file", "oid": "1f", "size": 988, "path": "sub/model.safetensors",
              "lfs": {{"oid": "{ABC}", "size": 988, "pointerSize": 134}}, "xetHash": "00"}}]"#
        );
        let manifest = parse(json.as_bytes()).unwrap();
        assert!(manifest.is_partial);
        assert_eq!(manifest.files.keys().collect::<Vec<_>>(), ["model.safetensors"]);
        let file = &manifest.files["model.safetensors"];
        assert_eq!((file.sha256.to_string().as_str(), file.bytes), (ABC, Some(988)));
        for wrong in ["{}", "<html>", r#"[{"path": "a", "lfs": {"oid": "1", "size": 1}}]"#] {
            assert!(matches!(parse(wrong.as_bytes()), Err(Error::Malformed { .. })));
        }
    }

    #[test]
    fn folders_of_repositories_are_recognised_by_their_address() {
        let commit = "0123456789012345678901234567890123456789";
        let resolve = format!("https://huggingface.co/owner/name/resolve/{commit}");
        let tree = format!("https://huggingface.co/api/models/owner/name/tree/{commit}");
        assert_eq!(listing(HUB, &format!("{resolve}/")), Some(tree.clone()));
        assert_eq!(listing(HUB, &format!("{resolve}/a/b%20c/")), Some(format!("{tree}/a/b%20c")));
        for revision in ["refs/pr/3", "refs%2Fpr%2F3"] {
            let folder = format!("{HUB}owner/name/resolve/{revision}/a/");
            let tree = format!("{HUB}api/models/owner/name/tree/refs%2Fpr%2F3/a");
            assert_eq!(listing(HUB, &folder), Some(tree));
        }
        for other in [
            "https://huggingface.co/owner/name/blob/main/",
            "https://huggingface.co/owner/name/",
            "https://huggingface.co/owner/name/resolve",
            "https://models.example/owner/name/resolve/main/",
        ] {
            assert_eq!(listing(HUB, other), None, "{other}");
        }
        let mirror = "https://models.example/hf/";
        let tree = format!("{mirror}api/models/owner/name/tree/main");
        assert_eq!(listing(mirror, &format!("{mirror}owner/name/resolve/main/")), Some(tree));
        assert_eq!(listing(mirror, &format!("{resolve}/")), None);
    }
}
