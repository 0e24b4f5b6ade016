//! OpenAI's embeddings: request and response types.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserializer, Serialize};
use serde_json::Value;

use super::fields::Fields;
use super::input::{Input, TextInput};
use super::neutral;
use super::refusal::{invalid, refuse_unsupported};
use crate::error::Result;
use crate::step::Pooling;

/// OpenAI's own limit.
const MAX_INPUTS: usize = 2048;

/// A request for embeddings as it comes over the wire, not yet checked.
///
/// Besides OpenAI's fields it takes `pooling`. [`EmbeddingRequest::validate`] turns it into an
/// [`EmbedRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmbeddingRequest {
    pub model: Option<String>,
    pub input: Option<Input>,
    /// `float` (default) or `base64`.
    pub encoding_format: Option<String>,
    /// `last` (default) or `mean`.
    pub pooling: Option<String>,
    /// All other fields, so that none is ignored silently.
    pub other: BTreeMap<String, Value>,
}

/// A request for embeddings whose every value is in range.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbedRequest {
    /// The model's name as the client gave it; the response repeats it.
    pub model: Option<String>,
    /// At least one.
    pub inputs: Vec<TextInput>,
    pub encoding: Encoding,
    pub pooling: Pooling,
}

/// How vectors are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// A list of numbers.
    #[default]
    Float,
    /// The base64 of little-endian f32.
    Base64,
}

impl EmbeddingRequest {
    /// Reads a request from any serde format; a wrong type is reported with the parameter's path.
    pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self> {
        let mut fields = Fields::read(deserializer)?;
        Ok(EmbeddingRequest {
            model: fields.take("model")?,
            input: fields.take("input")?,
            encoding_format: fields.take("encoding_format")?,
            pooling: fields.take("pooling")?,
            other: fields.into_map(),
        })
    }

    /// Checks every field and returns the plain request.
    ///
    /// # Errors
    /// [`crate::Error::InvalidRequest`] names the first field that is unsupported or out of range, what was
    /// found and what was expected.
    pub fn validate(self) -> Result<EmbedRequest> {
        refuse_unsupported("", &self.other, neutral::REQUEST)?;
        let encoding = match self.encoding_format.as_deref() {
            None | Some("float") => Encoding::Float,
            Some("base64") => Encoding::Base64,
            Some(other) => {
                return Err(invalid("encoding_format", format!("{other:?}"), "float or base64"));
            }
        };
        let pooling = match self.pooling.as_deref() {
            None | Some("last") => Pooling::Last,
            Some("mean") => Pooling::Mean,
            Some(other) => return Err(invalid("pooling", format!("{other:?}"), "last or mean")),
        };
        let inputs = Input::read(self.input, "input", MAX_INPUTS, "something to embed")?;
        Ok(EmbedRequest { model: self.model, inputs, encoding, pooling })
    }
}

/// The embeddings of a request's inputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmbeddingResponse {
    /// Always `list`.
    pub object: &'static str,
    /// One per input, in order.
    pub data: Vec<Embedding>,
    pub model: String,
    pub usage: EmbeddingUsage,
}

/// The embedding of one input.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Embedding {
    /// Always `embedding`.
    pub object: &'static str,
    pub index: usize,
    pub embedding: Vector,
}

/// A vector of Euclidean length 1, in the requested encoding.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Vector {
    Float(Vec<f32>),
    Base64(String),
}

/// Token counts, summed over all inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EmbeddingUsage {
    pub prompt_tokens: u32,
    /// Equals `prompt_tokens`: nothing is generated.
    pub total_tokens: u32,
}

impl EmbeddingResponse {
    /// The response with these vectors, one per input.
    pub fn new(
        model: String,
        vectors: Vec<Vec<f32>>,
        encoding: Encoding,
        prompt_tokens: u32,
    ) -> EmbeddingResponse {
        let embedding = |(index, vector)| Embedding {
            object: "embedding",
            index,
            embedding: encoding.write(vector),
        };
        EmbeddingResponse {
            object: "list",
            data: vectors.into_iter().enumerate().map(embedding).collect(),
            model,
            usage: EmbeddingUsage { prompt_tokens, total_tokens: prompt_tokens },
        }
    }
}

impl Encoding {
    fn write(self, vector: Vec<f32>) -> Vector {
        match self {
            Encoding::Float => Vector::Float(vector),
            Encoding::Base64 => {
                let bytes: Vec<u8> = vector.iter().flat_map(|v| v.to_le_bytes()).collect();
                Vector::Base64(BASE64_STANDARD.encode(bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;
    use crate::error::Error;

    fn check(request: Value) -> Result<EmbedRequest> {
        EmbeddingRequest::read(&request)?.validate()
    }

    #[test]
    fn inputs_are_texts_or_tokens_alone_or_in_lists() {
        let text = |text: &str| TextInput::Text(text.into());
        let tokens = |ids: &[u32]| TextInput::Tokens(ids.into());
        for (input, expected) in [
            (json!("a"), vec![text("a")]),
            (json!(["a", " "]), vec![text("a"), text(" ")]),
            (json!([3, 0]), vec![tokens(&[3, 0])]),
            (json!([[3], [4, 5]]), vec![tokens(&[3]), tokens(&[4, 5])]),
        ] {
            let request = check(json!({ "input": input, "user": "me" })).unwrap();
            assert_eq!(request.inputs, expected);
            assert_eq!(request.encoding, Encoding::Float);
            assert_eq!((request.pooling, request.model), (Pooling::Last, None));
        }
        let request = json!({
            "input": "a", "model": "m", "encoding_format": "base64", "pooling": "mean",
        });
        let request = check(request).unwrap();
        assert_eq!((request.encoding, request.pooling), (Encoding::Base64, Pooling::Mean));
        assert_eq!(request.model.as_deref(), Some("m"));
    }

    #[test]
    fn bad_inputs_are_refused_by_name() {
        for (request, param, found) in [
            (json!({}), "input", "nothing"),
            (json!({ "input": null }), "input", "nothing"),
            (json!({ "input": "" }), "input", "an empty text"),
            (json!({ "input": ["a", ""] }), "input[1]", "an empty text"),
            (json!({ "input": [] }), "input", "0 texts"),
            (json!({ "input": vec!["a"; 2049] }), "input", "2049 texts"),
            (json!({ "input": [[1], []] }), "input[1]", "no tokens"),
            (json!({ "input": [1, -1] }), "input", "-1"),
            (json!({ "input": [[4_294_967_296_u64]] }), "input[0]", "4294967296"),
            (json!({ "input": ["a", 1] }), "input[1]", "expected a string"),
            (json!({ "input": [1, "a"] }), "input[1]", "expected i64"),
            (json!({ "input": [[1], [2, {}]] }), "input[1][1]", "expected i64"),
            (json!({ "input": [null] }), "input[0]", "expected a string, a token id"),
            (json!({ "input": { "text": "a" } }), "input", "expected a string, a list"),
            (json!({ "input": "a", "encoding_format": "int8" }), "encoding_format", "int8"),
            (json!({ "input": "a", "pooling": "cls" }), "pooling", "cls"),
            (json!({ "input": "a", "dimensions": 16 }), "dimensions", "not supported"),
        ] {
            match check(request.clone()) {
                Err(Error::InvalidRequest { param: at, message }) => {
                    assert_eq!(at, param, "{message}");
                    assert!(message.contains(found), "{param}: {message}");
                }
                other => panic!("{param}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_response_has_openai_s_shape() {
        let vectors = vec![vec![1.0, -0.5], vec![0.25, 0.0]];
        let expected = |first: Value, second: Value| {
            json!({
                "object": "list",
                "data": [
                    { "object": "embedding", "index": 0, "embedding": first },
                    { "object": "embedding", "index": 1, "embedding": second },
                ],
                "model": "m",
                "usage": { "prompt_tokens": 5, "total_tokens": 5 },
            })
        };
        let response = EmbeddingResponse::new("m".into(), vectors.clone(), Encoding::Float, 5);
        let floats = expected(json!([1.0, -0.5]), json!([0.25, 0.0]));
        assert_eq!(to_value(response).unwrap(), floats);
        // 00 00 80 3f 00 00 00 bf, and 00 00 80 3e 00 00 00 00.
        let response = EmbeddingResponse::new("m".into(), vectors, Encoding::Base64, 5);
        let base64 = expected(json!("AACAPwAAAL8="), json!("AACAPgAAAAA="));
        assert_eq!(to_value(response).unwrap(), base64);
    }
}
