//! An end for waits whose promise a browser may leave pending for ever.

use crate::Result;

/// The answer to a command of a load.
#[cfg(not(target_arch = "wasm32"))]
pub async fn answered<T>(answer: impl Future<Output = T>) -> Result<T> {
    Ok(answer.await)
}

/// The answer to a command of a load.
///
/// # Errors
/// [`NoGpu`](crate::Error::NoGpu) if none comes within a minute: longer than a slow device compiles a pipeline.
#[cfg(target_arch = "wasm32")]
pub async fn answered<T>(answer: impl Future<Output = T>) -> Result<T> {
    use std::{pin::pin, time::Duration};

    use futures::future::{Either, select};

    use crate::{Error, timer::sleep};

    const SECONDS: u32 = 60;
    // Second by second: a computer that slept has counted one.
    let silence = async {
        for _ in 0..SECONDS {
            sleep(Duration::from_secs(1)).await;
        }
    };
    match select(pin!(answer), pin!(silence)).await {
        Either::Left((answer, _)) => Ok(answer),
        Either::Right(_) => {
            Err(Error::NoGpu { reason: format!("it did not answer for {SECONDS} seconds") })
        }
    }
}
