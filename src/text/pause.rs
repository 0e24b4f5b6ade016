//! Pauses of long work, in which others get their turn.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use futures::FutureExt;

/// Bytes of text that are tokenised between two pauses, about.
pub const PIECE_BYTES: usize = 8 << 10;

/// Returns control to the caller once.
pub async fn pause() {
    let mut paused = false;
    poll_fn(|context| match paused {
        true => Poll::Ready(()),
        false => {
            paused = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// Runs work that waits for nothing but [`pause`] to its end.
pub fn at_once<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        if let Some(done) = work.as_mut().now_or_never() {
            return done;
        }
    }
}
