//! The routes of OpenAI's API, and vLLM's for tokens, health and metrics.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{FromRequest, Path, Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header::CONTENT_TYPE},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures::StreamExt;
use serde_json::Value;
use tabloom::{
    Error,
    api::{
        ChatCompletionRequest, CompletionRequest, DetokenizeRequest, EmbeddingRequest, ModelList,
        TokenizeRequest,
    },
};

use crate::{
    answers::{json, streamed, whole},
    app::App,
    engine::now,
    failure::Failure,
    guard,
};

/// Largest accepted body in bytes: far more than the longest context.
const LONGEST: usize = 64 << 20;
/// Bytes to read of a larger body before the response.
const MOST_READ: usize = 1 << 30;

type Shared = State<Arc<App>>;
type Answer = Result<Response, Failure>;

pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(complete))
        .route("/v1/embeddings", post(embed))
        .route("/v1/models", get(models))
        .route("/v1/models/{*id}", get(model))
        .route("/tokenize", post(tokenize))
        .route("/detokenize", post(detokenize))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(app.clone(), guard::key))
        .layer(from_fn_with_state(app.clone(), guard::origin))
        .with_state(app)
}

async fn chat(State(app): Shared, Json(body): Json) -> Answer {
    let request = ChatCompletionRequest::read(&body)?;
    app.check_model(request.model.as_deref())?;
    let request = request.validate()?;
    let stream = request.stream;
    let asked = app.engine.submit(move |service, moment| service.submit(request, moment, &[]));
    let replies = asked.await?;
    if stream { Ok(streamed(replies)) } else { whole(replies).await }
}

async fn complete(State(app): Shared, Json(body): Json) -> Answer {
    let request = CompletionRequest::read(&body)?.validate()?;
    app.check_model(request.settings.model.as_deref())?;
    let stream = request.settings.stream;
    let asked = app.engine.submit(move |service, moment| service.complete(request, moment, &[]));
    let replies = asked.await?;
    if stream { Ok(streamed(replies)) } else { whole(replies).await }
}

async fn embed(State(app): Shared, Json(body): Json) -> Answer {
    let request = EmbeddingRequest::read(&body)?;
    app.check_model(request.model.as_deref())?;
    let request = request.validate()?;
    let asked =
        app.engine.submit(move |service, moment| service.embed(request, moment.tab, moment.salt));
    whole(asked.await?).await
}

async fn models(State(app): Shared) -> Response {
    json(&ModelList::new(vec![app.model.clone()]))
}

async fn model(State(app): Shared, Path(id): Path<String>) -> Answer {
    app.check_model(Some(&id))?;
    Ok(json(&app.model))
}

async fn tokenize(State(app): Shared, Json(body): Json) -> Answer {
    let request = TokenizeRequest::read(&body)?.validate()?;
    app.check_model(request.model.as_deref())?;
    Ok(json(&app.engine.with(move |service| service.tokenize(&request, now())).await??))
}

async fn detokenize(State(app): Shared, Json(body): Json) -> Answer {
    let request = DetokenizeRequest::read(&body)?;
    app.check_model(request.model.as_deref())?;
    Ok(json(&app.engine.with(move |service| service.detokenize(&request)).await??))
}

/// 200 while the device works.
async fn health(State(app): Shared) -> Answer {
    app.engine.with(|_| ()).await?;
    Ok(StatusCode::OK.into_response())
}

/// Prometheus' text format.
async fn metrics(State(app): Shared) -> Answer {
    let metrics = app.engine.with(|service| service.metrics()).await?;
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], metrics.to_prometheus(&app.model.id)).into_response())
}

async fn no_route(uri: Uri) -> Failure {
    let message = format!("found the path {}, expected one of OpenAI's API", uri.path());
    Failure::new(StatusCode::NOT_FOUND, "not_found", None, message)
}

async fn no_method(method: Method, uri: Uri) -> Failure {
    let message = format!("found {method} {}, expected another method", uri.path());
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", None, message)
}

/// A JSON body.
struct Json(Value);

impl<S: Sync> FromRequest<S> for Json {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Json, Failure> {
        check_type(request.headers())?;
        let bytes = read(request.into_body()).await?;
        serde_json::from_slice(&bytes).map(Json).map_err(|error| {
            let message = format!("found a body that is not JSON: {error}");
            Failure::new(StatusCode::BAD_REQUEST, "invalid_request", None, message)
        })
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

/// Reads a body. Of one that is too large, more is read before the error: clients read the response only
/// after they have sent the body.
async fn read(body: Body) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let mut length = 0;
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Error::Aborted)?;
        length += chunk.len();
        if length <= LONGEST {
            bytes.extend(&chunk);
        } else if length <= MOST_READ {
            bytes = Vec::new();
        } else {
            break;
        }
    }
    if length > LONGEST {
        let message = format!("found a longer body, expected at most {LONGEST} bytes");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        return Err(Failure::new(status, "payload_too_large", None, message));
    }
    Ok(bytes)
}
