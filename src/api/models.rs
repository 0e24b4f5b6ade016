//! OpenAI's list of models.

use serde::Serialize;

/// The models that are loaded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelList {
    /// Always `list`.
    pub object: &'static str,
    pub data: Vec<Model>,
}

/// A loaded model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Model {
    pub id: String,
    /// Always `model`.
    pub object: &'static str,
    /// When it was loaded, in seconds since 1970.
    pub created: u64,
    /// Always `tabloom`.
    pub owned_by: &'static str,
}

impl ModelList {
    /// A list of these models.
    pub fn new(data: Vec<Model>) -> ModelList {
        ModelList { object: "list", data }
    }
}

impl Model {
    /// A model with this name that was loaded at `created`.
    pub fn new(id: String, created: u64) -> Model {
        Model { id, object: "model", created, owned_by: "tabloom" }
    }
}
