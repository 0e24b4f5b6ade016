//! What the handlers share.

use std::sync::Arc;

use axum::http::StatusCode;
use tabloom::api::Model;
use tokio::sync::Semaphore;

use crate::{
    arguments::Arguments,
    engine::{Engine, now},
    failure::Failure,
};

/// Bytes of all bodies together, until they are read. As JSON values they take many times as much.
const TOGETHER: usize = 4 << 20;

/// State shared by the handlers.
pub struct App {
    pub engine: Engine,
    pub model: Model,
    pub arguments: Arguments,
    /// Room for bodies, in bytes.
    pub bodies: Arc<Semaphore>,
}

impl App {
    pub fn new(engine: Engine, arguments: Arguments) -> App {
        let bodies = Arc::new(Semaphore::new(TOGETHER));
        App { engine, model: Model::new(arguments.name(), now()), arguments, bodies }
    }

    /// Refuses requests for another model; a request without a model name is accepted.
    pub fn check_model(&self, name: Option<&str>) -> Result<(), Failure> {
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
