//! Structured output: the parameters `response_format` and `structured_outputs`.

use serde::Deserialize;
use serde_json::Value;
use tabloom_grammar::Form;

use super::refusal::invalid;
use crate::error::{Error, Result};

/// OpenAI's `response_format`. It is no enum with a tag: misfits in those do not tell their places.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct ResponseFormat {
    #[serde(rename = "type")]
    pub kind: FormatKind,
    /// Beside `json_object`, as llama.cpp's server and WebLLM, which has it as text, take it.
    pub schema: Option<Value>,
    /// Beside `json_schema`.
    pub json_schema: Option<JsonSchemaFormat>,
}

/// The `type` of a [`ResponseFormat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormatKind {
    /// No constraint.
    Text,
    /// Any JSON object, or one that is valid under a schema.
    JsonObject,
    /// JSON that is valid under a schema.
    JsonSchema,
}

/// A schema as `response_format` carries it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
pub struct JsonSchemaFormat {
    /// A label; it changes nothing.
    pub name: Option<String>,
    /// A label; it changes nothing.
    pub description: Option<String>,
    pub schema: Option<Value>,
    /// It changes nothing: schemas are always enforced.
    pub strict: Option<bool>,
}

/// vLLM's `structured_outputs`: exactly one of its fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
pub struct StructuredOutputs {
    /// A JSON schema.
    pub json: Option<Value>,
    /// A regular expression that must match the whole answer, in the syntax of Rust's `regex`.
    pub regex: Option<String>,
    /// The answer is one of these texts.
    pub choice: Option<Vec<String>>,
    /// A grammar in llguidance's dialect of Lark.
    pub grammar: Option<String>,
    /// Any JSON object.
    pub json_object: Option<bool>,
    /// No blank between the tokens of JSON, where one is allowed otherwise; for `json` and `json_object`.
    pub disable_any_whitespace: Option<bool>,
    /// The text that the prompt ends with, if it is a part of what is constrained.
    pub prefix: Option<String>,
}

/// The constraint on an answer, and the parameter that set it.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub form: Form,
    /// A looser form, for the case that the form cannot be compiled.
    pub otherwise: Option<Form>,
    /// Named in errors.
    pub param: String,
}

impl Spec {
    /// A checked constraint that came from the parameter `param`.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if it is malformed or exceeds the limits.
    pub fn new(form: Form, param: &str) -> Result<Spec> {
        let spec = Spec { form, otherwise: None, param: param.into() };
        spec.form.check().map_err(|error| spec.refused(error))?;
        Ok(spec)
    }

    /// Reads the two parameters; at most one of them may set a constraint.
    pub(super) fn read(
        format: Option<ResponseFormat>,
        outputs: Option<StructuredOutputs>,
    ) -> Result<Option<Spec>> {
        let spec = match (Spec::of_format(format)?, outputs.map(Spec::of_outputs).transpose()?) {
            (Some(format), Some(outputs)) => {
                let message = format!("found it beside {}, expected one of them", format.param);
                return Err(Error::InvalidRequest { param: outputs.param, message });
            }
            (format, outputs) => format.or(outputs),
        };
        if let Some(spec) = &spec {
            spec.form.check().map_err(|error| spec.refused(error))?;
        }
        Ok(spec)
    }

    fn of_format(format: Option<ResponseFormat>) -> Result<Option<Spec>> {
        let Some(ResponseFormat { kind, schema, json_schema }) = format else { return Ok(None) };
        for (param, given, of, name) in [
            ("response_format.schema", schema.is_some(), FormatKind::JsonObject, "json_object"),
            (
                "response_format.json_schema",
                json_schema.is_some(),
                FormatKind::JsonSchema,
                "json_schema",
            ),
        ] {
            if given && kind != of {
                let expected = format!("it beside type \"{name}\" alone");
                return Err(invalid(param, "it beside another type", &expected));
            }
        }
        let (form, param) = match (kind, schema) {
            (FormatKind::Text, _) => return Ok(None),
            (FormatKind::JsonObject, None) => (Form::JsonObject, "response_format"),
            (FormatKind::JsonObject, Some(schema)) => {
                let param = "response_format.schema";
                let schema = match schema {
                    Value::String(text) => serde_json::from_str(&text)
                        .map_err(|error| invalid(param, error, "a JSON schema, as text or not"))?,
                    schema => schema,
                };
                (Form::JsonSchema(schema), param)
            }
            (FormatKind::JsonSchema, _) => {
                let param = "response_format.json_schema.schema";
                let schema = json_schema.and_then(|format| format.schema);
                let schema = schema.ok_or_else(|| invalid(param, "nothing", "a JSON schema"))?;
                (Form::JsonSchema(schema), param)
            }
        };
        Ok(Some(Spec { form, otherwise: None, param: param.into() }))
    }

    fn of_outputs(outputs: StructuredOutputs) -> Result<Spec> {
        let StructuredOutputs { json, regex, choice, grammar, json_object, .. } = outputs;
        let forms = [
            json.map(|schema| (Form::JsonSchema(schema), "structured_outputs.json")),
            regex.map(|regex| (Form::Regex(regex), "structured_outputs.regex")),
            choice.map(|texts| (Form::Choice(texts), "structured_outputs.choice")),
            grammar.map(|grammar| (Form::Grammar(grammar), "structured_outputs.grammar")),
            (json_object == Some(true))
                .then_some((Form::JsonObject, "structured_outputs.json_object")),
        ];
        let mut forms: Vec<_> = forms.into_iter().flatten().collect();
        match (forms.pop(), forms.len()) {
            (Some((form, param)), 0) => {
                let compact = outputs.disable_any_whitespace == Some(true);
                let form = if compact { form.without_blanks() } else { form };
                let form = match outputs.prefix {
                    Some(prefix) => Form::After(prefix, form.into()),
                    None => form,
                };
                Ok(Spec { form, otherwise: None, param: param.into() })
            }
            (last, others) => Err(Error::InvalidRequest {
                param: "structured_outputs".into(),
                message: format!(
                    "found {} of them, expected one of json, regex, choice, grammar and json_object",
                    others + usize::from(last.is_some())
                ),
            }),
        }
    }

    /// Turns an error about the form into an error of the request.
    pub fn refused(&self, error: tabloom_grammar::Error) -> Error {
        let param = format!("{}{}", self.param, error.path);
        Error::InvalidRequest { param, message: error.message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Option<Spec>> {
        #[derive(Deserialize)]
        struct Fields {
            response_format: Option<ResponseFormat>,
            structured_outputs: Option<StructuredOutputs>,
        }
        let fields: Fields = serde_json::from_str(json).unwrap();
        Spec::read(fields.response_format, fields.structured_outputs)
    }

    #[test]
    fn each_parameter_gives_a_form_and_names_itself() {
        let schema = serde_json::json!({"type": "integer"});
        for (json, form, param) in [
            (r#"{"response_format":{"type":"json_object"}}"#, Form::JsonObject, "response_format"),
            (
                r#"{"response_format":{"type":"json_object","schema":{"type":"integer"}}}"#,
                Form::JsonSchema(schema.clone()),
                "response_format.schema",
            ),
            (
                r#"{"response_format":{"type":"json_object","schema":"{\"type\":\"integer\"}"}}"#,
                Form::JsonSchema(schema.clone()),
                "response_format.schema",
            ),
            (
                r#"{"response_format":{"type":"json_schema","json_schema":
                    {"name":"n","schema":{"type":"integer"},"strict":true}}}"#,
                Form::JsonSchema(schema.clone()),
                "response_format.json_schema.schema",
            ),
            (
                r#"{"structured_outputs":{"json":{"type":"integer"}}}"#,
                Form::JsonSchema(schema),
                "structured_outputs.json",
            ),
            (
                r#"{"structured_outputs":{"json_object":true,"disable_any_whitespace":true}}"#,
                Form::JsonObject.without_blanks(),
                "structured_outputs.json_object",
            ),
            (
                r#"{"structured_outputs":{"regex":"a+","prefix":"aa"}}"#,
                Form::After("aa".into(), Form::Regex("a+".into()).into()),
                "structured_outputs.regex",
            ),
            (
                r#"{"structured_outputs":{"regex":"a+"},"response_format":{"type":"text"}}"#,
                Form::Regex("a+".into()),
                "structured_outputs.regex",
            ),
            (
                r#"{"structured_outputs":{"choice":["a","b"],"json_object":false}}"#,
                Form::Choice(vec!["a".into(), "b".into()]),
                "structured_outputs.choice",
            ),
            (
                r#"{"structured_outputs":{"grammar":"start: \"a\""}}"#,
                Form::Grammar("start: \"a\"".into()),
                "structured_outputs.grammar",
            ),
            (
                r#"{"structured_outputs":{"json_object":true}}"#,
                Form::JsonObject,
                "structured_outputs.json_object",
            ),
        ] {
            let spec = Spec { form, otherwise: None, param: param.into() };
            assert_eq!(read(json), Ok(Some(spec)), "{json}");
        }
        assert_eq!(read(r#"{"response_format":{"type":"text"}}"#), Ok(None));
        assert_eq!(read("{}"), Ok(None));
    }

    #[test]
    fn errors_name_the_path_of_the_parameter() {
        for (json, param, found) in [
            (r#"{"structured_outputs":{}}"#, "structured_outputs", "0 of them"),
            (
                r#"{"structured_outputs":{"regex":"a","choice":["a"]}}"#,
                "structured_outputs",
                "2 of them",
            ),
            (
                r#"{"structured_outputs":{"regex":"a"},"response_format":{"type":"json_object"}}"#,
                "structured_outputs.regex",
                "response_format",
            ),
            (
                r#"{"response_format":{"type":"json_schema","json_schema":{"name":"n"}}}"#,
                "response_format.json_schema.schema",
                "nothing",
            ),
            (
                r#"{"response_format":{"type":"json_schema"}}"#,
                "response_format.json_schema.schema",
                "nothing",
            ),
            (
                r#"{"response_format":{"type":"json_schema","schema":{}}}"#,
                "response_format.schema",
                "json_object",
            ),
            (
                r#"{"response_format":{"type":"text","json_schema":{}}}"#,
                "response_format.json_schema",
                "json_schema",
            ),
            (
                r#"{"response_format":{"type":"json_schema","json_schema":
                    {"schema":{"properties":{"age":{"minimum":"é"}}}}}}"#,
                "response_format.json_schema.schema.properties.age.minimum",
                "\"é\"",
            ),
            (r#"{"structured_outputs":{"regex":"a("}}"#, "structured_outputs.regex", "unclosed"),
            (r#"{"structured_outputs":{"choice":[]}}"#, "structured_outputs.choice", "0 texts"),
        ] {
            match read(json) {
                Err(Error::InvalidRequest { param: at, message }) => {
                    assert_eq!(at, param, "{json}: {message}");
                    assert!(message.contains(found), "{json}: {message}");
                    assert!(message.contains("expected"), "{json}: {message}");
                }
                other => panic!("{json}: {other:?}"),
            }
        }
    }
}
