//! Waiting for the device.

use futures::channel::oneshot;

use super::Gpu;
use crate::{Error, Result};

/// What had been submitted to a device at some moment.
pub struct Mark(Told<()>);

/// What is told once a submission is done.
pub struct Told<T> {
    pub(super) submission: wgpu::SubmissionIndex,
    pub(super) by: oneshot::Receiver<T>,
}

impl Gpu {
    /// Marks what has been submitted so far, for [`Gpu::reach`].
    pub fn mark(&self) -> Mark {
        let (sender, by) = oneshot::channel();
        let submission = self.queue.submit([]);
        self.queue.on_submitted_work_done(move || {
            // The receiver is gone only if nobody waits any more.
            let _ = sender.send(());
        });
        Mark(Told { submission, by })
    }

    /// Waits until everything that had been submitted at a mark is done.
    pub async fn reach(&self, mark: Mark) -> Result<()> {
        self.wait(mark.0).await
    }

    /// Waits until everything submitted so far is done.
    pub async fn idle(&self) -> Result<()> {
        self.reach(self.mark()).await
    }

    /// Waits for what is told once a submission is done, not for those behind it.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] if the device went away meanwhile.
    pub(super) async fn wait<T>(&self, told: Told<T>) -> Result<T> {
        let lost = |reason: String| Error::DeviceLost { reason };
        let Told { submission, by } = told;
        let wait = wgpu::PollType::Wait { submission_index: Some(submission), timeout: None };
        // Does nothing in browsers, which call back by themselves.
        self.device.poll(wait).map_err(|e| lost(e.to_string()))?;
        #[cfg(target_arch = "wasm32")]
        let by = browser::urged(self, by);
        let told = by.await;
        self.check()?;
        told.map_err(|e| lost(e.to_string()))
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

    /// Firefox looks for what is done when something is submitted, and else every 100 ms
    /// (<https://bugzilla.mozilla.org/show_bug.cgi?id=1870699>): so nothing is submitted, again and
    /// again.
    pub async fn urged<T>(gpu: &Gpu, mut done: Receiver<T>) -> Result<T, Canceled> {
        if !is_firefox() {
            return done.await;
        }
        loop {
            gpu.queue.submit([]);
            match select(done, pin!(sleep(Duration::ZERO))).await {
                Either::Left((told, _)) => return told,
                Either::Right((_, rest)) => done = rest,
            }
        }
    }

    /// Whether this is Firefox, or made from it.
    fn is_firefox() -> bool {
        let navigator = property(&js_sys::global(), "navigator");
        property(&navigator, "userAgent").as_string().is_some_and(|name| name.contains("Firefox/"))
    }
}
