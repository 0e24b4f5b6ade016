//! Loaded models, with what is stored of their prefixes.

use super::BrowserStore;
use crate::{
    executor::AnyExecutor,
    host::{Info, Options, VERSION},
    manifest::Digest,
    prefixes::{Prefixes, RunFiles, Shape},
    service::Service,
};

/// A loaded model.
pub struct LoadedModel {
    pub service: Service<AnyExecutor>,
    pub info: Info,
    /// If prefixes are stored between visits: which are, and where.
    pub prefixes: Option<(Prefixes, RunFiles<BrowserStore>)>,
}

/// A digest of all that the keys and values of given tokens depend on.
pub fn prefix_root(options: &Options, info: &Info, files: [Digest; 2]) -> Digest {
    let Options { quantize, kv, sliding_window, draft, .. } = options;
    let Info { model, device, adapter, .. } = info;
    let depends = format!(
        "{VERSION} {model} {files:?} {quantize:?} {kv:?} {sliding_window:?} {draft:?} {device} {adapter}"
    );
    Digest(blake3::hash(depends.as_bytes()).into())
}

/// What is stored of the prefixes of the model of this address, at most so many bytes.
pub async fn open_prefixes(
    store: BrowserStore,
    address: &str,
    root: Digest,
    shape: Shape,
    most_bytes: u64,
) -> (Prefixes, RunFiles<BrowserStore>) {
    let (files, record) = RunFiles::open(store, address.into()).await;
    (Prefixes::new(root, shape, most_bytes, &record), files)
}
