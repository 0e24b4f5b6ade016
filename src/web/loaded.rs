//! Loaded models, with what is stored of their prefixes.

use super::BrowserStore;
use crate::{
    executor::AnyExecutor,
    host::Info,
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
