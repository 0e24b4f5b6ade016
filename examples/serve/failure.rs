//! Errors in the shape of OpenAI's API.

use axum::{
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tabloom::Error;

/// An error with its HTTP status.
#[derive(Debug)]
pub struct Failure {
    status: u16,
    code: String,
    param: Option<String>,
    message: String,
}

impl Failure {
    /// An error caused by the client.
    pub fn new(status: StatusCode, code: &str, param: Option<&str>, message: String) -> Failure {
        let (code, param) = (code.into(), param.map(Into::into));
        Failure { status: status.as_u16(), code, param, message }
    }

    /// OpenAI's error object.
    pub fn body(&self) -> Value {
        let kind = match self.status {
            429 => "rate_limit_error",
            499 => "aborted",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        let Failure { code, param, message, .. } = self;
        json!({ "error": { "message": message, "type": kind, "param": param, "code": code } })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let status = match &error {
            Error::InvalidRequest { .. }
            | Error::ContextLengthExceeded { .. }
            | Error::NoTokenAllowed { .. }
            | Error::Template { .. } => 400,
            Error::QueueFull { .. } => 429,
            Error::Aborted => 499,
            Error::Closed | Error::DeviceLost { .. } | Error::OutOfMemory { .. } => 503,
            _ => 500,
        };
        let wire = error.to_wire();
        Failure { status, code: wire.code, param: wire.param, message: wire.message }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = self.body().to_string();
        (status, [(CONTENT_TYPE, "application/json")], body).into_response()
    }
}
