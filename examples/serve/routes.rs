//! The routes of OpenAI's API, and vLLM's for tokens, health and metrics.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, State},
    http::{Method, StatusCode, Uri, header::CONTENT_TYPE},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use tabloom::api::{
    ChatCompletionRequest, CompletionRequest, DetokenizeRequest, EmbeddingRequest, ModelList,
    TokenizeRequest,
};

use crate::{
    answers::{json, streamed, whole},
    app::App,
    body::{Body, PROMPT, TEXT},
    engine::now,
    failure::Failure,
    guard,
    responses::respond,
};

type Shared = State<Arc<App>>;
type Answer = Result<Response, Failure>;

pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/responses", post(respond))
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
        .layer(from_fn_with_state(app.clone(), guard::host))
        .with_state(app)
}

async fn chat(State(app): Shared, body: Body<PROMPT>) -> Answer {
    let request = body.read(|value| ChatCompletionRequest::read(value)).await?;
    app.check_model(request.model.as_deref())?;
    let request = request.validate()?;
    let stream = request.stream;
    let asked = app.engine.submit(move |service, moment| service.submit(request, moment, &[]));
    let replies = asked.await?;
    if stream { Ok(streamed(replies)) } else { whole(replies).await }
}

async fn complete(State(app): Shared, body: Body<PROMPT>) -> Answer {
    let request = body.read(|value| CompletionRequest::read(value)).await?.validate()?;
    app.check_model(request.settings.model.as_deref())?;
    let stream = request.settings.stream;
    let asked = app.engine.submit(move |service, moment| service.complete(request, moment, &[]));
    let replies = asked.await?;
    if stream { Ok(streamed(replies)) } else { whole(replies).await }
}

async fn embed(State(app): Shared, body: Body<PROMPT>) -> Answer {
    let request = body.read(|value| EmbeddingRequest::read(value)).await?;
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

async fn tokenize(State(app): Shared, body: Body<TEXT>) -> Answer {
    let request = body.read(|value| TokenizeRequest::read(value)).await?.validate()?;
    app.check_model(request.model.as_deref())?;
    Ok(json(&app.engine.with(move |service| service.tokenize(&request, now())).await??))
}

async fn detokenize(State(app): Shared, body: Body<TEXT>) -> Answer {
    let request = body.read(|value| DetokenizeRequest::read(value)).await?;
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
