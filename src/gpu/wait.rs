//! Waits for the device.

use futures::channel::oneshot;

use super::{Gpu, patience::answered};
use crate::{Error, Result};

/// A point in the queue: everything submitted before it.
pub struct Mark(Completion<()>);

/// The completion of a submission.
pub struct Completion<T> {
    pub(super) submission: wgpu::SubmissionIndex,
    pub(super) by: oneshot::Receiver<T>,
}

impl Gpu {
    /// Marks this point in the queue, for [`Gpu::reach`].
    pub fn mark(&self) -> Mark {
        let (sender, by) = oneshot::channel();
        let submission = self.queue.submit([]);
        self.queue.on_submitted_work_done(move || {
            // The receiver is gone only if nobody waits any more.
            let _ = sender.send(());
        });
        Mark(Completion { submission, by })
    }

    /// Waits until everything submitted before a mark is done. As in all of a load, the wait has an end.
    pub async fn reach(&self, mark: Mark) -> Result<()> {
        answered(self.wait(mark.0)).await?
    }

    /// Waits until everything submitted so far is done.
    pub async fn idle(&self) -> Result<()> {
        self.reach(self.mark()).await
    }

    /// Waits for a submission, but not for later ones. Returns the value of its callback.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] if the device was lost meanwhile.
    pub(super) async fn wait<T>(&self, completion: Completion<T>) -> Result<T> {
        let lost = |reason: String| Error::DeviceLost { reason };
        let Completion { submission, by } = completion;
        let wait = wgpu::PollType::Wait { submission_index: Some(submission), timeout: None };
        // Does nothing in browsers, which call back by themselves.
        self.device.poll(wait).map_err(|e| lost(e.to_string()))?;
        #[cfg(target_arch = "wasm32")]
        let by = browser::urged(self, by);
        let completion = by.await;
        self.check()?;
        completion.map_err(|e| lost(e.to_string()))
    }
}

#[cfg(target_arch = "wasm32")]
mod browser {
    use std::{pin::pin, time::Duration};

    use futures::{
        channel::oneshot::{Canceled, Receiver},
        future::{Either, select},
    };

    use crate::{
        gpu::{Gpu, device::property},
        timer::sleep,
    };

    /// Firefox checks for completed work only when something is submitted, and otherwise every 100 ms
    /// (<https://bugzilla.mozilla.org/show_bug.cgi?id=1870699>). So this submits empty work repeatedly.
    pub async fn urged<T>(gpu: &Gpu, mut done: Receiver<T>) -> std::result::Result<T, Canceled> {
        if !is_firefox() {
            return done.await;
        }
        loop {
            gpu.queue.submit([]);
            match select(done, pin!(sleep(Duration::ZERO))).await {
                Either::Left((completion, _)) => return completion,
                Either::Right((_, rest)) => done = rest,
            }
        }
    }

    /// Whether this is Firefox, or based on it.
    fn is_firefox() -> bool {
        let navigator = property(&js_sys::global(), "navigator");
        property(&navigator, "userAgent").as_string().is_some_and(|name| name.contains("Firefox/"))
    }
}
