//! The routes of OpenAI's API, and vLLM's for tokens, health and metrics.

use std::sync::Arc;

use axum::{
    Router,
    body::to_bytes,
    extract::{FromRequest, Path, Request, State},
    http::{
        Method, StatusCode, Uri,
        header::{CONTENT_LENGTH, CONTENT_TYPE},
    },
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::Value;
use tabloom::api::{
    ChatCompletionRequest, CompletionRequest, DetokenizeRequest, EmbeddingRequest, Model,
    ModelList, TokenizeRequest,
};

use crate::{
    Arguments,
    answers::{json, streamed, whole},
    engine::{Engine, now},
    failure::Failure,
    guard,
};

/// Longest body, in bytes: far more than the longest context.
const LONGEST: usize = 64 << 20;

/// What handlers share.
pub struct App {
    engine: Engine,
    model: Model,
    pub arguments: Arguments,
}

type Shared = State<Arc<App>>;
type Answer = Result<Response, Failure>;

impl Arguments {
    /// What requests call the model.
    pub fn name(&self) -> String {
        let own = || self.model.file_name().map(|name| name.to_string_lossy().into_owned());
        self.name.clone().or_else(own).unwrap_or_else(|| "model".into())
    }
}

impl App {
    pub fn new(engine: Engine, arguments: Arguments) -> App {
        App { engine, model: Model::new(arguments.name(), now()), arguments }
    }

    /// Refuses requests for another model; those that name none get the one there is.
    fn check_model(&self, name: Option<&str>) -> Result<(), Failure> {
        let known = &self.model.id;
        match name.filter(|name| name != known) {
            None => Ok(()),
            Some(name) => {
                let message = format!("found model {name:?}, expected {known:?}");
                let status = StatusCode::NOT_FOUND;
                Err(Failure::new(status, "model_not_found", Some("model"), message))
            }
        }
    }
}

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
    let asked = app.engine.ask(move |service, moment| service.submit(request, moment, &[]));
    let replies = asked.await?;
    if stream { Ok(streamed(replies)) } else { whole(replies).await }
}

async fn complete(State(app): Shared, Json(body): Json) -> Answer {
    let request = CompletionRequest::read(&body)?;
    app.check_model(request.model.as_deref())?;
    let request = request.validate()?;
    let stream = request.settings.stream;
    let asked = app.engine.ask(move |service, moment| service.complete(request, moment, &[]));
    let replies = asked.await?;
    if stream { Ok(streamed(replies)) } else { whole(replies).await }
}

async fn embed(State(app): Shared, Json(body): Json) -> Answer {
    let request = EmbeddingRequest::read(&body)?;
    app.check_model(request.model.as_deref())?;
    let request = request.validate()?;
    let asked =
        app.engine.ask(move |service, moment| service.embed(request, moment.tab, moment.salt));
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
    let request = TokenizeRequest::read(&body)?;
    app.check_model(request.model.as_deref())?;
    let request = request.validate()?;
    Ok(json(&app.engine.with(move |service| service.tokenize(&request, now())).await??))
}

async fn detokenize(State(app): Shared, Json(body): Json) -> Answer {
    let request = DetokenizeRequest::read(&body)?;
    app.check_model(request.model.as_deref())?;
    Ok(json(&app.engine.with(move |service| service.detokenize(&request)).await??))
}

/// 200 as long as the device works.
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

/// A body of JSON.
struct Json(Value);

impl<S: Sync> FromRequest<S> for Json {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Json, Failure> {
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        let kind = header(CONTENT_TYPE).unwrap_or_default();
        // Of other types a page of any origin could send bodies without being asked.
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            let message = format!("found content-type {kind:?}, expected application/json");
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Failure::new(status, "unsupported_media_type", None, message));
        }
        let length = header(CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
        let too_long = || {
            let message = format!("found a longer body, expected at most {LONGEST} bytes");
            Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", None, message)
        };
        if length.is_some_and(|length| length > LONGEST) {
            return Err(too_long());
        }
        // Fails as well if the client goes, who is then told nothing.
        let bytes = to_bytes(request.into_body(), LONGEST).await.map_err(|_| too_long())?;
        serde_json::from_slice(&bytes).map(Json).map_err(|error| {
            let message = format!("found a body that is no JSON: {error}");
            Failure::new(StatusCode::BAD_REQUEST, "invalid_request", None, message)
        })
    }
}
