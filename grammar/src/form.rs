//! The constraint on an answer.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Result, check};

/// The constraint on an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Any JSON object.
    JsonObject,
    /// JSON that is valid under a schema.
    JsonSchema(Value),
    /// Text that a regular expression matches completely, in the syntax of Rust's `regex`.
    Regex(String),
    /// Text that matches a grammar in llguidance's dialect of Lark.
    Grammar(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// The rest of an answer that begins with this text and as a whole has this form.
    After(String, Box<Form>),
}

impl Form {
    /// JSON without a blank between its tokens; other forms stay as they are.
    pub fn without_blanks(self) -> Form {
        let mut schema = match self {
            Form::JsonObject => json!({ "type": "object" }),
            Form::JsonSchema(Value::Object(schema)) => Value::Object(schema),
            Form::JsonSchema(_) => json!({}),
            Form::After(text, whole) => return Form::After(text, whole.without_blanks().into()),
            other => return other,
        };
        // The compiler's own keyword.
        schema["x-guidance"] = json!({ "whitespace_flexible": false });
        Form::JsonSchema(schema)
    }

    /// Whether every text of this form is JSON.
    pub fn is_json(&self) -> bool {
        match self {
            Form::JsonObject | Form::JsonSchema(_) => true,
            Form::After(_, whole) => whole.is_json(),
            Form::Regex(_) | Form::Grammar(_) | Form::Choice(_) => false,
        }
    }

    /// Quick checks that need no vocabulary.
    ///
    /// # Errors
    /// The form is malformed or exceeds the limits.
    pub fn check(&self) -> Result<()> {
        match self {
            Form::JsonObject => Ok(()),
            Form::JsonSchema(schema) => check::json_schema(schema),
            Form::Regex(regex) => check::regex(regex),
            Form::Grammar(grammar) => check::grammar(grammar),
            Form::Choice(texts) => check::choice(texts),
            Form::After(text, whole) => check::length(text.len()).and_then(|()| whole.check()),
        }
    }
}
