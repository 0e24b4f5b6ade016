//! Access control: names of this machine, API key and CORS.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{
        HeaderValue, Method, StatusCode,
        header::{
            ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
            ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, AUTHORIZATION, HOST, VARY,
        },
        uri::Authority,
    },
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{app::App, failure::Failure};

/// Refuses requests that name another host, if this one serves its own machine alone: a page's domain can
/// be made to resolve to 127.0.0.1 (DNS rebinding), and the page is then of the same origin.
pub async fn host(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    if !app.arguments.host.is_loopback() {
        return Ok(next.run(request).await);
    }
    let named = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    let named = request.uri().authority().map(Authority::as_str).or(named).unwrap_or_default();
    let name = named.parse::<Authority>().map(|of| of.host().to_ascii_lowercase());
    let allowed = |name: &String| is_loopback(name) || app.arguments.allow_host.contains(name);
    if name.as_ref().is_ok_and(allowed) {
        return Ok(next.run(request).await);
    }
    let message = format!(
        "found the host {named:?}, expected localhost or a loopback address; start the server with --allow-host to accept others"
    );
    Err(Failure::new(StatusCode::FORBIDDEN, "forbidden_host", None, message))
}

/// Whether a name or address is the loopback's.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    host == "localhost" || address.is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Refuses requests without the API key, if one is set; `/health` is public.
pub async fn key(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let Some(key) = &app.arguments.api_key else { return Ok(next.run(request).await) };
    let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' '));
    let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer"));
    let given = given.map(|(_, key)| key.trim()).unwrap_or_default();
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
