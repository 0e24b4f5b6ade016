//! One download of a model for all workers of a site, which share a store and no memory.
//!
//! The worker with the claim downloads and writes. The others wait for the files, and one of them takes
//! the claim when that worker ends, or stands still.

use std::{pin::pin, time::Duration};

use futures::future::{Either, select};

use super::{Chunk, http::Server, store::Store};

/// A worker whose download stands still for this long is taken to be frozen. A server that falls silent is asked
/// again before.
const PATIENCE: Duration = Duration::from_secs(90);

/// The right to download a model and to write to its part of the store; one worker has it at a time.
#[allow(async_fn_in_trait)] // single-threaded by design: no future crosses threads
pub trait Claim: 'static {
    /// Waits until this worker has it. Returns false if it cannot have it, or has aborted.
    async fn granted(&self) -> bool;

    /// The next news of the worker that has it; they change as its download goes on.
    async fn news(&self) -> String;

    /// Takes it from the worker that had it at the last call, or when this worker began to wait. Returns
    /// whether this worker has it now; if not, another has it since.
    async fn seize(&self) -> bool;

    /// Whether another worker has taken it from this one.
    fn is_lost(&self) -> bool;
}

/// Waits for the claim, as long as the download of the worker that has it goes on. Returns as
/// [`Claim::granted`].
pub async fn acquire(
    claim: &impl Claim,
    server: &impl Server,
    mut on_news: impl FnMut(&str),
) -> bool {
    let mut granted = pin!(claim.granted());
    let mut standstill = pin!(server.wait(PATIENCE));
    let mut last = String::new();
    loop {
        let told = pin!(claim.news());
        let others = select(told, standstill.as_mut());
        let news = match select(granted.as_mut(), others).await {
            Either::Left((is_granted, _)) => return is_granted,
            Either::Right((Either::Left((news, _)), _)) => Some(news),
            Either::Right((Either::Right(_), _)) => None,
        };
        match news {
            Some(news) if news == last => continue,
            Some(news) => {
                on_news(&news);
                last = news;
            }
            None => match select(pin!(claim.seize()), pin!(server.wait(PATIENCE))).await {
                Either::Left((true, _)) => return true,
                Either::Left((false, _)) => {}
                // Locks that do not answer count as denied.
                Either::Right(_) => return false,
            },
        }
        standstill.set(server.wait(PATIENCE));
    }
}

/// A store that is not written to once the claim is lost.
pub struct Claimed<T, C> {
    store: T,
    /// `None`: others write to another part of the store.
    claim: Option<C>,
}

impl<T, C> Claimed<T, C> {
    pub fn new(store: T, claim: Option<C>) -> Claimed<T, C> {
        Claimed { store, claim }
    }
}

impl<T, C: Claim> Claimed<T, C> {
    fn is_writable(&self) -> bool {
        !self.claim.as_ref().is_some_and(Claim::is_lost)
    }
}

impl<T: Store, C: Claim> Store for Claimed<T, C> {
    type Stream = T::Stream;

    async fn get(&self, key: &str) -> Option<T::Stream> {
        self.store.get(key).await
    }

    async fn put(&self, key: &str, bytes: &[Chunk]) -> bool {
        self.is_writable() && self.store.put(key, bytes).await
    }

    async fn delete(&self, key: &str) {
        if self.is_writable() {
            self.store.delete(key).await;
        }
    }

    async fn room(&self) -> Option<u64> {
        self.store.room().await
    }
}
