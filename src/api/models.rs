//! OpenAI's list of models.

use serde::Serialize;

/// The models that can be asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelList {
    /// Always `list`.
    pub object: &'static str,
    pub data: Vec<Model>,
}

/// A model that can be asked.
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
    /// The list of these models.
    pub fn new(data: Vec<Model>) -> ModelList {
        ModelList { object: "list", data }
    }
}

impl Model {
    /// A model of this name that was loaded at this time.
    pub fn new(id: String, created: u64) -> Model {
        Model { id, object: "model", created, owned_by: "tabloom" }
    }
}
