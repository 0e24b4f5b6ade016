//! Bodies of requests: JSON up to a route's limit, and not too many bytes at a time.

use std::{sync::Arc, time::Duration};

use axum::{
    body::HttpBody,
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
};
use futures::StreamExt;
use serde_json::Value;
use tabloom::Error;
use tokio::{
    sync::OwnedSemaphorePermit,
    task::spawn_blocking,
    time::{Instant, timeout, timeout_at},
};

use crate::{app::App, failure::Failure};

/// Bytes of a prompt: far more than the longest context.
pub const PROMPT: usize = 2 << 20;
/// Bytes of a text to tokenise, or of tokens to detokenise.
pub const TEXT: usize = 1 << 20;

/// Bytes of a body that waits for nobody.
const SMALL: usize = 64 << 10;
/// Bytes to read of a larger body before the response.
const MOST_READ: usize = 1 << 30;
/// Longest wait until there is room for a body.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest time that a body may take to come.
const SLOWEST: Duration = Duration::from_secs(60);

/// A body of at most `MOST` bytes.
pub struct Body<const MOST: usize> {
    bytes: Vec<u8>,
    room: Option<OwnedSemaphorePermit>,
}

impl<const MOST: usize> Body<MOST> {
    /// Reads it as JSON, with `read`, beside the thread that serves connections.
    pub async fn read<T: Send + 'static>(
        self,
        read: fn(&Value) -> tabloom::Result<T>,
    ) -> Result<T, Failure> {
        let Body { bytes, room } = self;
        let parsed = spawn_blocking(move || {
            let value = serde_json::from_slice(&bytes).map_err(|error| {
                let message = format!("found a body that is not JSON: {error}");
                Failure::new(StatusCode::BAD_REQUEST, "invalid_request", None, message)
            })?;
            let read = read(&value)?;
            drop((value, room));
            Ok(read)
        });
        parsed.await.map_err(|_| Error::Closed)?
    }
}

impl<const MOST: usize> FromRequest<Arc<App>> for Body<MOST> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Body<MOST>, Failure> {
        let mut refused = check_type(request.headers()).err();
        let late = Instant::now() + SLOWEST;
        let body = request.into_body();
        let expected =
            body.size_hint().upper().map_or(MOST, |bytes| bytes.min(MOST as u64) as usize);
        let mut room = None;
        if expected > SMALL && refused.is_none() {
            let acquired = app.bodies.clone().acquire_many_owned(expected as u32);
            room = timeout(PATIENCE, acquired).await.ok().and_then(Result::ok);
            refused = room.is_none().then(|| no_room(expected));
        }
        let (mut bytes, mut length) = (Vec::new(), 0);
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = timeout_at(late, chunks.next()).await.map_err(|_| too_slow())? {
            let chunk = chunk.map_err(|error| {
                let message = format!("found a body that breaks off or is malformed: {error}");
                Failure::new(StatusCode::BAD_REQUEST, "invalid_request", None, message)
            })?;
            length += chunk.len();
            if length > MOST {
                refused.get_or_insert_with(|| too_long(MOST));
            }
            if refused.is_none() {
                bytes.extend(&chunk);
            } else if length <= MOST_READ {
                // Clients read the response only after they have sent the body.
                (bytes, room) = (Vec::new(), None);
            } else {
                break;
            }
        }
        match refused {
            Some(failure) => Err(failure),
            None => Ok(Body { bytes, room }),
        }
    }
}

/// Refuses a body whose content type is not JSON. A page of any origin can send bodies of some other
/// types without a CORS preflight.
fn check_type(headers: &HeaderMap) -> Result<(), Failure> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) == Some("application/json") {
        return Ok(());
    }
    let message = format!("found content-type {kind:?}, expected application/json");
    Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", None, message))
}

fn no_room(expected: usize) -> Failure {
    let message = format!("found no room for a body of {expected} bytes. Try again");
    Failure::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", None, message)
}

fn too_long(most: usize) -> Failure {
    let message = format!("found a longer body, expected at most {most} bytes");
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", None, message)
}

fn too_slow() -> Failure {
    let message = format!("found a body that is not whole after {} seconds", SLOWEST.as_secs());
    Failure::new(StatusCode::REQUEST_TIMEOUT, "too_slow", None, message)
}
