//! Converts replies to HTTP responses: one JSON object, or server-sent events.

use std::convert::Infallible;

use axum::{
    http::header::CONTENT_TYPE,
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
};
use futures::{StreamExt, channel::mpsc::UnboundedReceiver, stream};
use serde::Serialize;
use tabloom::{Error, service::Reply};

use crate::failure::Failure;

/// A value as JSON.
pub fn json(value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => ([(CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => unwritable(&error).into_response(),
    }
}

/// The response to a request without streaming.
pub async fn whole(mut replies: UnboundedReceiver<Reply>) -> Result<Response, Failure> {
    match replies.next().await {
        Some(Reply::Completion(completion)) => Ok(json(&completion)),
        Some(Reply::TextCompletion(completion)) => Ok(json(&completion)),
        Some(Reply::Embeddings(embeddings)) => Ok(json(&embeddings)),
        Some(Reply::Error(error)) => Err(error.into()),
        // These occur only in streams.
        Some(Reply::Chunk { .. } | Reply::TextChunk { .. } | Reply::End) | None => {
            Err(Error::Closed.into())
        }
    }
}

/// The response to a streaming request: an event per chunk, then `[DONE]` or an error.
pub fn streamed(replies: UnboundedReceiver<Reply>) -> Response {
    // If the replies end without a final one, the device has failed.
    let closed = stream::once(async { Reply::Error(Error::Closed) });
    let events = replies.chain(closed).scan(false, |over, reply| {
        let event = (!*over).then(|| {
            *over = !matches!(reply, Reply::Chunk { .. } | Reply::TextChunk { .. });
            Ok::<Event, Infallible>(event(reply))
        });
        async { event }
    });
    Sse::new(events).into_response()
}

fn event(reply: Reply) -> Event {
    let text = match reply {
        Reply::Chunk { value, .. } => serde_json::to_string(&value),
        Reply::TextChunk { value, .. } => serde_json::to_string(&value),
        Reply::Completion(value) => serde_json::to_string(&value),
        Reply::TextCompletion(value) => serde_json::to_string(&value),
        Reply::Embeddings(value) => serde_json::to_string(&value),
        Reply::Error(error) => serde_json::to_string(&Failure::from(error).body()),
        Reply::End => Ok("[DONE]".into()),
    };
    Event::default().data(text.unwrap_or_else(|error| unwritable(&error).body().to_string()))
}

fn unwritable(error: &serde_json::Error) -> Failure {
    let message = format!("the answer cannot be written as JSON: {error}");
    Failure::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, "internal", None, message)
}
