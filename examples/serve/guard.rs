//! Access control: API key and CORS.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{
        HeaderValue, Method, StatusCode,
        header::{
            ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
            ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, AUTHORIZATION, VARY,
        },
    },
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{app::App, failure::Failure};

/// Refuses requests without the API key, if one is set; `/health` is public.
pub async fn key(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let Some(key) = &app.arguments.api_key else { return Ok(next.run(request).await) };
    let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    // blake3 digests compare in constant time.
    let fits = blake3::hash(given.as_bytes()) == blake3::hash(key.as_bytes());
    if fits || request.uri().path() == "/health" {
        return Ok(next.run(request).await);
    }
    let message = "found no valid key, expected the header `Authorization: Bearer KEY`".into();
    Err(Failure::new(StatusCode::UNAUTHORIZED, "invalid_api_key", None, message))
}

/// Allows requests from pages of one origin, if one is set.
pub async fn origin(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let Some(origin) = app.arguments.cors.clone() else { return next.run(request).await };
    let mut response = match *request.method() {
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    // `*` does not include Authorization.
    let allowed = HeaderValue::from_static("authorization, *");
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    headers.append(VARY, HeaderValue::from_static("origin"));
    response
}
