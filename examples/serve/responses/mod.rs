//! OpenAI's Responses API as chats: a request becomes one, its answer a response. Nothing is stored.

mod answer;
mod request;

use std::{convert::Infallible, sync::Arc};

use axum::{
    extract::State,
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
};
use futures::{StreamExt, channel::mpsc::UnboundedReceiver, stream};
use serde_json::Value;
use tabloom::{Error, api::Usage, service::Reply};

use crate::{
    answers::json,
    app::App,
    body::{Body, PROMPT},
    failure::Failure,
};
use answer::Answer;
use request::Asked;

pub async fn respond(State(app): State<Arc<App>>, body: Body<PROMPT>) -> Result<Response, Failure> {
    let Asked { chat, names, head } = body.read(|value| Ok(Asked::read(value))).await??;
    app.check_model(chat.model.as_deref())?;
    let request = chat.validate().map_err(|error| names.failure(error))?;
    let stream = request.stream;
    let asked = app.engine.submit(move |service, moment| service.submit(request, moment, &[]));
    let mut replies = asked.await.map_err(|error| names.failure(error))?;
    if stream {
        return Ok(streamed(head, replies));
    }
    match replies.next().await {
        Some(Reply::Completion(chat)) => Ok(json(&Answer::whole(head, chat))),
        Some(Reply::Error(error)) => Err(names.failure(error)),
        _ => Err(Error::Closed.into()),
    }
}

/// A server-sent event per event of the response.
fn streamed(head: Value, replies: UnboundedReceiver<Reply>) -> Response {
    // If the replies end without a final one, the device has failed.
    let closed = stream::once(async { Reply::Error(Error::Closed) });
    let mut growing = Growing { head, answer: None, reason: None, usage: None, over: false };
    let events = replies.chain(closed).flat_map(move |reply| stream::iter(growing.events(reply)));
    Sse::new(events.map(Ok::<Event, Infallible>)).into_response()
}

/// A response that is streamed.
struct Growing {
    head: Value,
    /// Once there is a chunk.
    answer: Option<Answer>,
    reason: Option<tabloom::api::FinishReason>,
    usage: Option<Usage>,
    over: bool,
}

impl Growing {
    fn events(&mut self, reply: Reply) -> Vec<Event> {
        if self.over {
            return Vec::new();
        }
        match (reply, &mut self.answer) {
            (Reply::Chunk { value, .. }, answer) => {
                let head = || Answer::begin(self.head.take(), &value);
                let answer = answer.get_or_insert_with(head);
                self.usage = self.usage.or(value.usage.flatten());
                if let Some(choice) = value.choices.into_iter().next() {
                    self.reason = self.reason.or(choice.finish_reason);
                    answer.add(choice.delta, choice.logprobs);
                }
            }
            (Reply::Error(error), None) => {
                self.over = true;
                let body = Failure::from(error).body();
                return vec![Event::default().data(body.to_string())];
            }
            (Reply::Error(error), Some(answer)) => {
                self.over = true;
                answer.fail(&error);
            }
            (_, answer) => {
                self.over = true;
                if let Some(answer) = answer {
                    answer.end(self.reason, self.usage);
                }
            }
        }
        let events = self.answer.as_mut().map(Answer::events).unwrap_or_default();
        let event = |value: Value| {
            let kind = value["type"].as_str().unwrap_or_default();
            Event::default().event(kind).data(value.to_string())
        };
        events.into_iter().map(event).collect()
    }
}
